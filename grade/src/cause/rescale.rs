//! Online softmax that does not rescale what it summed when the maximum grows.

use super::formula::{Row, Weigh, Weighed};
use super::{Cause, Hypothesis};

/// For tiles of these many keys.
pub(super) fn mistakes(tiles: &[usize]) -> Vec<Hypothesis<Weigh>> {
    let mut mistakes = Vec::new();
    for &tile in tiles {
        for (what, sum, output) in [
            ("the running sum", false, true),
            ("the running output", true, false),
            ("running sum and output", false, false),
        ] {
            let weigh = move |row: &Row<'_>| online(row, tile, sum, output);
            mistakes.push(Hypothesis::new(
                Cause::MissingRescale,
                format!("{what}, in tiles of {tile}"),
                Box::new(weigh) as Weigh,
            ));
        }
        let weigh = move |row: &Row<'_>| parts(row, |j| j / tile);
        mistakes.push(Hypothesis::new(
            Cause::MissingRescale,
            format!("parts of {tile} keys are added with the maximum of each"),
            Box::new(weigh),
        ));
    }
    for threads in [32, 64, 128, 256, 512] {
        let weigh = move |row: &Row<'_>| parts(row, |j| j % threads);
        mistakes.push(Hypothesis::new(
            Cause::MissingRescale,
            format!("{threads} threads add sums with the maximum of each"),
            Box::new(weigh),
        ));
    }
    for splits in [2, 3, 4, 5, 6, 7, 8, 16, 32] {
        let weigh = move |row: &Row<'_>| {
            let length = row.scores.len().div_ceil(splits).max(1);
            parts(row, |j| j / length)
        };
        mistakes.push(Hypothesis::new(
            Cause::MissingRescale,
            format!("{splits} splits are added with the maximum of each"),
            Box::new(weigh),
        ));
    }
    mistakes
}

/// A tile at a time, with a running maximum.
fn online(row: &Row<'_>, tile: usize, rescale_sum: bool, rescale_output: bool) -> Weighed {
    let (mut max, mut divisor) = (f64::NEG_INFINITY, 0.0);
    let mut weights: Vec<f64> = Vec::with_capacity(row.scores.len());
    for scores in row.scores.chunks(tile) {
        let new = scores.iter().copied().fold(max, f64::max);
        if new == f64::NEG_INFINITY {
            weights.extend(scores.iter().map(|_| 0.0)); // no key is seen yet
            continue;
        }
        let factor = (max - new).exp();
        if rescale_sum {
            divisor *= factor;
        }
        if rescale_output {
            weights.iter_mut().for_each(|weight| *weight *= factor);
        }
        for score in scores {
            let weight = (score - new).exp();
            divisor += weight;
            weights.push(weight);
        }
        max = new;
    }
    if max == f64::NEG_INFINITY {
        return row.weighed();
    }
    Weighed {
        weights,
        divisor,
        lse: max + divisor.ln(),
    }
}

/// Parts with their own maxima, whose sums are added as if they had the same.
fn parts(row: &Row<'_>, part: impl Fn(usize) -> usize) -> Weighed {
    if row.is_masked() {
        return row.weighed();
    }
    let count = (0..row.scores.len()).map(&part).max().map_or(0, |last| last + 1);
    let mut maxima = vec![f64::NEG_INFINITY; count];
    for (j, score) in row.scores.iter().enumerate() {
        maxima[part(j)] = maxima[part(j)].max(*score);
    }
    let weight = |(j, score): (usize, &f64)| match maxima[part(j)] {
        f64::NEG_INFINITY => 0.0,
        max => (score - max).exp(),
    };
    let weights: Vec<f64> = row.scores.iter().enumerate().map(weight).collect();
    let divisor: f64 = weights.iter().sum();
    Weighed {
        lse: row.max() + divisor.ln(),
        weights,
        divisor,
    }
}
