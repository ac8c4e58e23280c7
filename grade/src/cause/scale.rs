//! The scores are multiplied by another scale than the right one.

use super::formula::Formula;
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let known = |cause, detail, scale| {
        let formula = Formula {
            scale,
            ..Formula::right()
        };
        Hypothesis::new(cause, detail, formula)
    };
    vec![
        known(Cause::MissingScale, "", |_, _| 1.0),
        known(Cause::WrongScale, "1 / D", |sizes, _| {
            1.0 / sizes.head_dim as f64
        }),
        known(Cause::WrongScale, "sqrt(D)", |sizes, _| {
            (sizes.head_dim as f64).sqrt()
        }),
        known(Cause::WrongScale, "applied twice", |_, scale| scale * scale),
        known(
            Cause::WrongScale,
            "the given scale is ignored",
            |sizes, _| 1.0 / (sizes.head_dim as f64).sqrt(),
        ),
        known(Cause::WrongScale, "1 / sqrt(H · D)", |sizes, _| {
            1.0 / ((sizes.heads * sizes.head_dim) as f64).sqrt()
        }),
    ]
}
