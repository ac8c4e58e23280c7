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
    mistakes
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
