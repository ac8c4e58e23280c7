//! Online softmax that does not rescale what it summed when the maximum grows.

use std::rc::Rc;

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
                Rc::new(weigh) as Weigh,
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
                Rc::new(weigh) as Weigh,
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

/// Parts of the keys that a block each has, merged wrongly. Their number depends on the problem, so that each is tried.
pub(super) fn splits() -> Vec<Hypothesis<Weigh>> {
    let same = "the outputs of all parts count the same";
    let sum = "the outputs of all parts are added";
    let merges: [(Cause, &str, Merge); 7] = [
        (Cause::MissingRescale, same, |parts| parts.alike(true)),
        (Cause::MissingRescale, same, |parts| parts.alike(false)),
        (Cause::MissingRescale, sum, |parts| (1.0, parts.lse)),
        (Cause::MaximumOnce, "tiles of 128 in each part", |parts| {
            parts.maximum_once()
        }),
        (Cause::EmptyPart, "an lse of 0", |parts| parts.zero()),
        (Cause::EmptyPart, "o", |parts| parts.not_a_number(false)),
        (Cause::EmptyPart, "o and lse", |parts| {
            parts.not_a_number(true)
        }),
    ];
    let mut mistakes = Vec::new();
    for count in 1..=64 {
        for (cause, detail, merge) in merges {
            let weigh = move |row: &Row<'_>| merged(row, count, merge);
            mistakes.push(Hypothesis::new(cause, detail, Rc::new(weigh) as Weigh));
        }
    }
    mistakes
}

/// The parts of a row.
struct Parts {
    count: usize,
    /// Those with a key.
    filled: usize,
    /// True if an exponential overflows in a part where the maximum of its first 128 keys is subtracted.
    overflows: bool,
    /// The largest log-sum-exp of a part.
    largest: f64,
    /// The log-sum-exp of the row.
    lse: f64,
}

/// The share of each part, if not its own, and the log-sum-exp of the row.
type Merge = fn(&Parts) -> (f64, f64);

impl Parts {
    fn alike(&self, with_lse: bool) -> (f64, f64) {
        let count = self.count as f64;
        let lse = match with_lse {
            true => self.largest + count.ln(),
            false => self.lse,
        };
        (1.0 / count, lse)
    }

    /// NaN, if an exponential overflows.
    fn maximum_once(&self) -> (f64, f64) {
        match self.overflows {
            true => (f64::NAN, f64::NAN),
            false => (0.0, self.lse),
        }
    }

    /// Each part without a key has the sum 1.
    fn zero(&self) -> (f64, f64) {
        let empty = (self.count - self.filled) as f64;
        let max = self.lse.max(0.0);
        match empty == 0.0 {
            true => (0.0, self.lse),
            false => (
                0.0,
                max + ((self.lse - max).exp() + empty * (-max).exp()).ln(),
            ),
        }
    }

    /// NaN, if a part has no key.
    fn not_a_number(&self, with_lse: bool) -> (f64, f64) {
        match (self.filled < self.count, with_lse) {
            (true, true) => (f64::NAN, f64::NAN),
            (true, false) => (f64::NAN, self.lse),
            (false, _) => (0.0, self.lse), // see `merged`
        }
    }
}

/// The keys in so many parts. Where `merge` gives the share 0, each part has its own.
fn merged(row: &Row<'_>, count: usize, merge: Merge) -> Weighed {
    let seen = row.scores.len().min(row.end);
    let size = seen.div_ceil(count).max(1);
    let lse_of = |scores: &[f64]| {
        let row = Row { scores, ..*row };
        row.weighed().lse
    };
    let parts = row.scores[..seen].chunks(size).map(lse_of);
    let of_parts: Vec<f64> = parts.collect();
    let overflows = |scores: &[f64]| {
        let max = |scores: &[f64]| Row { scores, ..*row }.max();
        let above = max(scores) - max(&scores[..scores.len().min(128)]);
        above > f64::from(f32::MAX).ln()
    };
    let parts = Parts {
        overflows: row.scores[..seen].chunks(size).any(overflows),
        count,
        filled: of_parts.len(),
        largest: of_parts.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        lse: row.weighed().lse,
    };
    let (share, lse) = merge(&parts);
    let mut weights = vec![if share.is_nan() { share } else { 0.0 }; row.scores.len()];
    for (j, weight) in weights[..seen].iter_mut().enumerate() {
        let of_part = of_parts[j / size];
        *weight = match (share == 0.0, of_part == f64::NEG_INFINITY) {
            (_, true) => 0.0,
            (true, _) => (row.scores[j] - lse).exp(),
            (false, _) => (row.scores[j] - of_part).exp() * share,
        };
    }
    Weighed {
        weights,
        divisor: if share.is_nan() { 0.0 } else { 1.0 }, // without keys, too
        lse,
    }
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
