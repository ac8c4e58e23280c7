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
    }
    let mut of_parts = |what: String, part: fn(usize, usize, usize) -> usize, size: usize| {
        for (form, only_sum) in [("", false), (", in the sum only", true)] {
            let weigh = move |row: &Row<'_>| {
                let n = row.scores.len();
                parts(row, only_sum, |j| part(j, n, size))
            };
            mistakes.push(Hypothesis::new(
                Cause::MissingRescale,
                format!("{what} are added with the maximum of each{form}"),
                Box::new(weigh) as Weigh,
            ));
        }
    };
    for &tile in tiles {
        of_parts(format!("parts of {tile} keys"), |j, _, tile| j / tile, tile);
    }
    for threads in [32, 64, 128, 256, 512] {
        let what = format!("the sums of {threads} threads");
        of_parts(what, |j, _, threads| j % threads, threads);
    }
    for splits in [2, 3, 4, 5, 6, 7, 8, 16, 32] {
        let part = |j, n: usize, splits| j / n.div_ceil(splits).max(1);
        of_parts(format!("{splits} splits"), part, splits);
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

/// Parts with their own maxima, whose sums are added as if they had the same; and their outputs, if not `only_sum`.
fn parts(row: &Row<'_>, only_sum: bool, part: impl Fn(usize) -> usize) -> Weighed {
    if row.is_masked() {
        return row.weighed();
    }
    let count = (0..row.scores.len())
        .map(&part)
        .max()
        .map_or(0, |last| last + 1);
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
        weights: match only_sum {
            true => row.weighed().weights,
            false => weights,
        },
        divisor,
    }
}
