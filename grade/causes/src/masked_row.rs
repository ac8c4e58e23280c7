//! A row that sees no key is something else than 0.

use std::rc::Rc;

use super::formula::{Row, Weigh, Weighed};
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Weigh>> {
    let known = |cause, detail, masked: fn(usize) -> Weighed| {
        let weigh = move |row: &Row<'_>| match row.is_masked() {
            true => masked(row.scores.len()),
            false => row.weighed(),
        };
        Hypothesis::new(cause, detail, Rc::new(weigh) as Weigh)
    };
    let mut mistakes = vec![
        known(Cause::NanFromMaskedRow, "o and lse", |n| {
            all(n, f64::NAN, f64::NAN, f64::NAN)
        }),
        known(Cause::ZeroByZero, "", |n| {
            all(n, 0.0, 0.0, f64::NEG_INFINITY)
        }),
        known(Cause::NanFromMaskedRow, "lse", |n| {
            all(n, 0.0, 1.0, f64::NAN)
        }),
        known(
            Cause::MaskedRowNotZero,
            "the mean of all values, lse as it should be",
            |n| all(n, 1.0, n as f64, f64::NEG_INFINITY),
        ),
        known(
            Cause::MaskedRowNotZero,
            "a finite number instead of −inf",
            |n| {
                // The number cancels out of the weights; in lse it is there, and nothing else is seen beside it.
                all(n, 1.0, n as f64, f64::from(LOWEST))
            },
        ),
        known(
            Cause::MaskedRowNotZero,
            "a finite number instead of −inf: −1e30",
            |n| all(n, 1.0, n as f64, f64::from(-1e30f32)),
        ),
        known(
            Cause::MaskedRowNotZero,
            "a finite number instead of −inf: −1e9",
            |n| all(n, 1.0, n as f64, f64::from(-1e9f32)),
        ),
    ];
    // Without a key for any query of the tile, there is no loop over keys, and so no NaN.
    for queries in [4, 8, 16, 32, 64, 128] {
        let weigh = move |row: &Row<'_>| {
            let (i, diagonal) = row.query;
            let loops = i / queries * queries + queries + diagonal > 0;
            match row.is_masked() && loops {
                true => all(row.scores.len(), f64::NAN, f64::NAN, f64::NAN),
                false => row.weighed(),
            }
        };
        mistakes.push(Hypothesis::new(
            Cause::NanFromMaskedRow,
            format!("o and lse, in tiles of {queries} queries of which one sees a key"),
            Rc::new(weigh) as Weigh,
        ));
    }
    mistakes
}

/// The lowest f32, which some use for −inf.
const LOWEST: f32 = f32::MIN;

/// The same weight for all keys. Without keys, a divisor of 0 or NaN still makes NaN.
fn all(keys: usize, weight: f64, divisor: f64, lse: f64) -> Weighed {
    Weighed {
        weights: vec![weight; keys],
        divisor,
        lse,
    }
}
