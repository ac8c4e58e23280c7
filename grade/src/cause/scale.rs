//! The scores are multiplied by another scale than the right one.

use super::formula::Formula;
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let of = |cause, detail, scale| {
        let formula = Formula {
            scale,
            ..Formula::right()
        };
        Hypothesis::new(cause, detail, formula)
    };
    vec![
        of(Cause::MissingScale, "", |_, _| 1.0),
        of(Cause::WrongScale, "1 / D", |sizes, _| {
            1.0 / sizes.head_dim as f64
        }),
        of(Cause::WrongScale, "sqrt(D)", |sizes, _| {
            (sizes.head_dim as f64).sqrt()
        }),
        of(Cause::WrongScale, "applied twice", |_, scale| scale * scale),
        of(
            Cause::WrongScale,
            "the given scale is ignored",
            |sizes, _| 1.0 / (sizes.head_dim as f64).sqrt(),
        ),
        of(Cause::WrongScale, "1 / sqrt(H · D)", |sizes, _| {
            1.0 / ((sizes.heads * sizes.head_dim) as f64).sqrt()
        }),
    ]
}
