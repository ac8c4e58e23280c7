//! No maximum is subtracted, or another one than the row's: exponentials overflow or vanish.

use std::rc::Rc;

use super::formula::{Row, Weigh, Weighed};
use super::{Cause, Hypothesis};

/// Queries of a warp of a fused kernel.
const ROWS: [i64; 4] = [2, 4, 8, 16];

/// What becomes of a row all of whose exponentials vanish.
#[derive(Clone, Copy, PartialEq)]
enum Empty {
    Zero,
    NotANumber,
    /// So does a row that sees no key.
    AlsoWithoutKeys,
}

/// For tiles of these many keys. In f32, because it is right where nothing overflows.
pub(super) fn mistakes(tiles: &[usize]) -> Vec<Hypothesis<Weigh>> {
    let mut mistakes = Vec::new();
    for (what, empty) in [("NaN", Empty::NotANumber), ("0", Empty::Zero)] {
        let mut known = |cause, detail: String, maximum: Box<dyn Fn(&Row<'_>) -> f64>| {
            let weigh = move |row: &Row<'_>| below(row, maximum(row), empty);
            mistakes.push(Hypothesis::new(cause, detail, Rc::new(weigh) as Weigh));
        };
        let sum = format!("a sum of 0 gives {what}");
        let none = Cause::NoMaxSubtraction;
        known(none, sum.clone(), Box::new(|_| 0.0));
        // Up to here an exponential is within f32, and a sum of several is not.
        for most in [80.5, 81.0, 85.0, 87.5, 88.0] {
            let detail = format!("it is subtracted only beyond ±{most}; {sum}");
            let if_large = move |row: &Row<'_>| match row.max() {
                max if max.abs() <= most => 0.0,
                max => max,
            };
            known(none, detail, Box::new(if_large));
        }
        let from_0 = |row: &Row<'_>| row.max().max(0.0);
        known(Cause::MaximumFromZero, sum.clone(), Box::new(from_0));
        for rows in ROWS {
            let detail = format!("in all rows of {rows} but the first; {sum}");
            let first = move |row: &Row<'_>| match row.query.0 % rows {
                0 => row.max(),
                _ => from_0(row),
            };
            known(Cause::MaximumFromZero, detail, Box::new(first));
        }
        for &tile in tiles {
            let first = move |row: &Row<'_>| {
                let scores = row.scores.iter().take(tile).copied();
                scores.fold(f64::NEG_INFINITY, f64::max)
            };
            let detail = format!("tiles of {tile}; {sum}");
            known(Cause::MaximumOnce, detail, Box::new(first));
        }
    }
    for (cause, most) in [
        (Cause::NoMaxSubtraction, 0.0),
        (Cause::MaximumFromZero, f64::INFINITY),
    ] {
        let weigh = move |row: &Row<'_>| {
            let maximum = row.max().clamp(0.0, most);
            below(row, maximum, Empty::AlsoWithoutKeys)
        };
        let detail = "a sum of 0 gives NaN, also in a row that sees no key";
        mistakes.push(Hypothesis::new(cause, detail, Rc::new(weigh) as Weigh));
    }
    let before_scale = Rc::new(of_products) as Weigh;
    mistakes.push(Hypothesis::new(Cause::MaximumBeforeScale, "", before_scale));
    mistakes
}

/// The exponentials below the score of the largest product, which is the least score if the scale is negative.
fn of_products(row: &Row<'_>) -> Weighed {
    if row.scale >= 0.0 {
        return row.weighed();
    }
    let seen = row.scores.iter().copied();
    let seen = seen.filter(|&score| score > f64::NEG_INFINITY);
    let weighed = below(row, seen.fold(f64::INFINITY, f64::min), Empty::Zero);
    // With tiles the sum may be multiplied by a factor that is infinite, too.
    let overflows = weighed.lse == f64::INFINITY;
    Weighed {
        lse: if overflows { f64::NAN } else { weighed.lse },
        ..weighed
    }
}

/// The exponentials below a number.
fn below(row: &Row<'_>, maximum: f64, empty: Empty) -> Weighed {
    if row.is_masked() && empty == Empty::AlsoWithoutKeys {
        return Weighed {
            weights: vec![0.0; row.scores.len()],
            divisor: 0.0,
            lse: f64::NEG_INFINITY,
        };
    }
    if row.is_masked() || maximum == f64::NEG_INFINITY {
        return row.weighed();
    }
    let in_f32 = |x: f64| f64::from(x as f32);
    let weights = row.scores.iter();
    let weights: Vec<f64> = weights
        .map(|score| in_f32((score - maximum).exp()))
        .collect();
    let sum = in_f32(weights.iter().sum());
    if sum == 0.0 {
        let weight = match empty {
            Empty::Zero => 0.0,
            Empty::NotANumber | Empty::AlsoWithoutKeys => f64::NAN,
        };
        return Weighed {
            weights: vec![weight; weights.len()],
            divisor: 1.0,
            lse: f64::NEG_INFINITY,
        };
    }
    Weighed {
        weights: weights.into_iter().map(|weight| weight / sum).collect(),
        divisor: 1.0,
        lse: maximum + sum.ln(),
    }
}
