//! No maximum is subtracted, or another one than the row's: exponentials overflow or vanish.

use std::rc::Rc;

use super::formula::{Row, Weigh, Weighed};
use super::{Cause, Hypothesis};

/// For tiles of these many keys. In f32, because it is right where nothing overflows.
pub(super) fn mistakes(tiles: &[usize]) -> Vec<Hypothesis<Weigh>> {
    let mut mistakes = Vec::new();
    for (what, empty_sum) in [("NaN", 0.0), ("0", 1.0)] {
        let mut known = |cause, detail: String, maximum: Box<dyn Fn(&Row<'_>) -> f64>| {
            let weigh = move |row: &Row<'_>| below(row, maximum(row), empty_sum);
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
        for &tile in tiles {
            let first = move |row: &Row<'_>| {
                let scores = row.scores.iter().take(tile).copied();
                scores.fold(f64::NEG_INFINITY, f64::max)
            };
            let detail = format!("tiles of {tile}; {sum}");
            known(Cause::MaximumOnce, detail, Box::new(first));
        }
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
    let weighed = below(row, seen.fold(f64::INFINITY, f64::min), 1.0);
    // With tiles the sum may be multiplied by a factor that is infinite, too.
    let overflows = weighed.lse == f64::INFINITY;
    Weighed {
        lse: if overflows { f64::NAN } else { weighed.lse },
        ..weighed
    }
}

/// The exponentials below a number. `empty_sum` is what they are divided by where all of them vanish.
fn below(row: &Row<'_>, maximum: f64, empty_sum: f64) -> Weighed {
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
        let weight = if empty_sum == 0.0 { f64::NAN } else { 0.0 };
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
