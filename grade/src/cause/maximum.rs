//! No maximum is subtracted: exponentials overflow or vanish.

use super::formula::{Row, Weigh, Weighed};
use super::{Cause, Hypothesis};

/// In f32, because it is right where nothing overflows.
pub(super) fn mistakes() -> Vec<Hypothesis<Weigh>> {
    let known = |detail, empty_sum| {
        let weigh = move |row: &Row<'_>| without_maximum(row, empty_sum);
        Hypothesis::new(Cause::NoMaxSubtraction, detail, Box::new(weigh) as Weigh)
    };
    vec![
        known("a sum of 0 gives NaN", 0.0),
        known("a sum of 0 gives 0", 1.0),
    ]
}

/// `empty_sum` is what the weights are divided by where all of them vanish.
fn without_maximum(row: &Row<'_>, empty_sum: f64) -> Weighed {
    if row.is_masked() {
        return row.weighed();
    }
    let in_f32 = |x: f64| f64::from(x as f32);
    let weights: Vec<f64> = row.scores.iter().map(|score| in_f32(score.exp())).collect();
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
        lse: sum.ln(),
    }
}
