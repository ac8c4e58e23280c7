//! The output is right, and the log-sum-exp is something else.

use std::rc::Rc;

use super::formula::{Row, Weigh, Weighed};
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Weigh>> {
    /// From the maximum and the sum of the exponentials below it.
    type LogSum = fn(f64, f64) -> f64;
    let forms: [(&str, LogSum); 8] = [
        ("in base 2", |max, sum| {
            (max + sum.ln()) * std::f64::consts::LOG2_E
        }),
        ("in base 2, of the sum only", |max, sum| max + sum.log2()),
        ("multiplied by ln 2 once too often", |max, sum| {
            (max + sum.ln()) * std::f64::consts::LN_2
        }),
        ("the maximum is not added", |_, sum| sum.ln()),
        ("the maximum is subtracted", |max, sum| sum.ln() - max),
        ("only the maximum", |max, _| max),
        ("the logarithm is not taken", |max, sum| max + sum),
        ("only the sum", |_, sum| sum),
    ];
    let form = |(detail, lse): (&str, LogSum)| {
        let weigh = move |row: &Row<'_>| {
            let weighed = row.weighed();
            if row.is_masked() {
                return weighed;
            }
            Weighed {
                lse: lse(row.max(), weighed.divisor),
                ..weighed
            }
        };
        Hypothesis::new(Cause::WrongLogSum, detail, Rc::new(weigh) as Weigh)
    };
    forms.map(form).into()
}
