//! The scores are multiplied by another scale than the right one.

use super::formula::Formula;
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let with = |cause, detail, change: fn(&mut Formula)| {
        Hypothesis::changed(cause, detail, Formula::right(), change)
    };
    vec![
        with(Cause::MissingScale, "", |it| it.scale = |_, _| 1.0),
        with(Cause::WrongScale, "1 / D", |it| {
            it.scale = |sizes, _| 1.0 / sizes.head_dim as f64
        }),
        with(Cause::WrongScale, "sqrt(D)", |it| {
            it.scale = |sizes, _| (sizes.head_dim as f64).sqrt()
        }),
        with(Cause::WrongScale, "applied twice", |it| {
            it.scale = |_, scale| scale * scale
        }),
        with(Cause::WrongScale, "the given scale is ignored", |it| {
            it.scale = |sizes, _| 1.0 / (sizes.head_dim as f64).sqrt()
        }),
        with(Cause::WrongScale, "1 / sqrt(H · D)", |it| {
            it.scale = |sizes, _| 1.0 / ((sizes.heads * sizes.head_dim) as f64).sqrt()
        }),
    ]
}
