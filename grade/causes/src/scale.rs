//! The scores are multiplied by another scale than the right one.

use stage1_reference::Sizes;

use super::formula::Formula;
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let with = |cause, detail, change: fn(&mut Formula)| {
        Hypothesis::changed(cause, detail, Formula::right(), change)
    };
    let mut mistakes = vec![
        with(Cause::MissingScale, "", |it| {
            it.scale = Box::new(|_, _| 1.0)
        }),
        with(Cause::WrongScale, "1 / D", |it| {
            it.scale = Box::new(|sizes, _| 1.0 / sizes.head_dim as f64)
        }),
        with(Cause::WrongScale, "sqrt(D)", |it| {
            it.scale = Box::new(|sizes, _| (sizes.head_dim as f64).sqrt())
        }),
        with(Cause::WrongScale, "applied twice", |it| {
            it.scale = Box::new(|_, scale| scale * scale)
        }),
        with(Cause::WrongScale, "a scale of 0 is taken for none", |it| {
            it.scale = Box::new(|sizes, scale| match scale == 0.0 {
                true => 1.0 / (sizes.head_dim as f64).sqrt(),
                false => scale,
            })
        }),
        with(Cause::WrongScale, "the given scale is ignored", |it| {
            it.scale = Box::new(|sizes, _| 1.0 / (sizes.head_dim as f64).sqrt())
        }),
        with(Cause::WrongScale, "1 / sqrt(H · D)", |it| {
            it.scale = Box::new(|sizes, _| 1.0 / ((sizes.heads * sizes.head_dim) as f64).sqrt())
        }),
    ];
    // Some head dimensions, or all, have the scale of another one; the probes have 16.
    for other in [16, 32, 40, 64, 80, 96, 128, 256] {
        for (detail, right) in [("for every D", usize::MAX), ("for this D", 16)] {
            let scale = move |sizes: &Sizes, scale: f64| {
                let default = 1.0 / (sizes.head_dim as f64).sqrt();
                let is_default = (scale - default).abs() < 1e-6 * default;
                match is_default && sizes.head_dim != right {
                    true => 1.0 / f64::from(other).sqrt(),
                    false => scale,
                }
            };
            mistakes.push(Hypothesis::changed(
                Cause::WrongScale,
                format!("1 / sqrt({other}), {detail}"),
                Formula::right(),
                |it| it.scale = Box::new(scale),
            ));
        }
    }
    mistakes
}
