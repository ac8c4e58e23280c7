//! The last tile is not full, and its columns beyond the end count, or those within do not; or only the first tile counts.

use std::rc::Rc;

use super::formula::{Row, Weigh, Weighed};
use super::{Cause, Hypothesis};

/// For tiles of these many keys.
pub(super) fn mistakes(tiles: &[usize]) -> Vec<Hypothesis<Weigh>> {
    let mut mistakes = Vec::new();
    for &tile in tiles.iter().filter(|&&tile| tile > 1) {
        let known = |cause, detail: String, weigh: Weigh| Hypothesis::new(cause, detail, weigh);
        mistakes.push(known(
            Cause::TailNotMasked,
            format!("keys of 0 in the last of the tiles of {tile}"),
            Rc::new(move |row| zeros(row, tile)),
        ));
        mistakes.push(known(
            Cause::TailNotMasked,
            format!("the last key again, in the last of the tiles of {tile}"),
            Rc::new(move |row| repeated(row, tile)),
        ));
        mistakes.push(known(
            Cause::TailNotMasked,
            format!("keys of the tile before, in the last of the tiles of {tile}"),
            Rc::new(move |row| stale(row, tile)),
        ));
        mistakes.push(known(
            Cause::TailNotMasked,
            format!("weights of the tile before are in the sum of the last of the tiles of {tile}"),
            Rc::new(move |row| stale_sum(row, tile)),
        ));
        mistakes.push(known(
            Cause::TailDropped,
            format!("tiles of {tile}"),
            Rc::new(move |row| first_keys(row, row.scores.len() / tile * tile)),
        ));
        mistakes.push(known(
            Cause::OneTileOnly,
            format!("the first of the tiles of {tile}"),
            Rc::new(move |row| first_keys(row, tile)),
        ));
    }
    mistakes
}

/// Columns of the last tile beyond the last key, as far as the causal mask lets them through.
fn beyond(row: &Row<'_>, tile: usize) -> usize {
    let n = row.scores.len();
    n.next_multiple_of(tile).min(row.end).saturating_sub(n)
}

/// They have a score of 0 and a value of 0.
fn zeros(row: &Row<'_>, tile: usize) -> Weighed {
    let count = beyond(row, tile) as f64;
    if count == 0.0 {
        return row.weighed();
    }
    let max = row.max().max(0.0);
    let weights: Vec<f64> = row.scores.iter().map(|score| (score - max).exp()).collect();
    let divisor = weights.iter().sum::<f64>() + count * (-max).exp();
    Weighed {
        weights,
        divisor,
        lse: max + divisor.ln(),
    }
}

/// They have the score and the value of the last key.
fn repeated(row: &Row<'_>, tile: usize) -> Weighed {
    let count = beyond(row, tile) as f64;
    let Weighed {
        mut weights,
        divisor,
        lse,
    } = row.weighed();
    let Some(last) = weights.last_mut() else {
        return row.weighed();
    };
    let more = count * *last;
    *last += more;
    Weighed {
        weights,
        divisor: divisor + more,
        lse: lse + (1.0 + more / divisor).ln(),
    }
}

/// They are those of the tile before, which lies there still.
fn stale(row: &Row<'_>, tile: usize) -> Weighed {
    let n = row.scores.len();
    let mut weighed = row.weighed();
    if n <= tile || row.is_masked() {
        return weighed;
    }
    let before = weighed.divisor;
    for j in n - tile..n - tile + beyond(row, tile) {
        let again = (row.scores[j] - row.max()).exp();
        weighed.weights[j] += again;
        weighed.divisor += again;
    }
    weighed.lse += (weighed.divisor / before).ln();
    weighed
}

/// The sum is over a whole tile, of which the last columns have the weights of the tile before. Tiles of queries are as long.
fn stale_sum(row: &Row<'_>, tile: usize) -> Weighed {
    let mut weighed = row.weighed();
    let (i, diagonal) = row.query;
    let n = row.scores.len();
    let end = i - i % tile as i64 + tile as i64 + diagonal; // of the last query of the tile
    let seen = match row.end <= n {
        true => usize::try_from(end).unwrap_or(0).min(n),
        false => n, // no causal mask
    };
    let (last, columns) = (seen - seen % tile, seen % tile);
    if columns == 0 || last == 0 {
        return weighed;
    }
    let earlier = Row {
        scores: &row.scores[..last],
        ..*row
    };
    if earlier.is_masked() {
        return weighed;
    }
    let before = weighed.divisor;
    for score in &earlier.scores[last - tile + columns..] {
        weighed.divisor += (score - earlier.max()).exp();
    }
    weighed.lse += (weighed.divisor / before).ln();
    weighed
}

/// Only so many keys count.
fn first_keys(row: &Row<'_>, count: usize) -> Weighed {
    let mut scores = row.scores.to_vec();
    let count = count.min(scores.len());
    scores[count..].fill(f64::NEG_INFINITY);
    let row = Row {
        scores: &scores,
        ..*row
    };
    row.weighed()
}
