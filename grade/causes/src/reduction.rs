//! The sum over a row lacks terms, or is not used.

use std::rc::Rc;

use super::formula::{Row, Weigh, Weighed};
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Weigh>> {
    let mut mistakes = vec![Hypothesis::new(
        Cause::NotNormalised,
        "",
        Rc::new(|row: &Row<'_>| Weighed {
            divisor: 1.0,
            ..row.weighed()
        }) as Weigh,
    )];
    for threads in [64, 128, 256, 512, 1024] {
        mistakes.push(Hypothesis::new(
            Cause::PartialReduction,
            format!("the first of {} warps", threads / 32),
            Rc::new(move |row: &Row<'_>| partial(row, |j| j % threads < 32)),
        ));
    }
    for threads in [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] {
        mistakes.push(Hypothesis::new(
            Cause::PartialReduction,
            format!("the first of {threads} threads"),
            Rc::new(move |row: &Row<'_>| partial(row, |j| j % threads == 0)),
        ));
    }
    mistakes
}

/// Only some of the exponentials are in the sum.
fn partial(row: &Row<'_>, counts: impl Fn(usize) -> bool) -> Weighed {
    let weighed = row.weighed();
    if row.is_masked() {
        return weighed;
    }
    let counted = weighed
        .weights
        .iter()
        .enumerate()
        .filter(|(j, _)| counts(*j));
    let divisor: f64 = counted.map(|(_, weight)| weight).sum();
    let divisor = f64::from(divisor as f32); // it may vanish
    Weighed {
        lse: row.max() + divisor.ln(),
        divisor,
        ..weighed
    }
}
