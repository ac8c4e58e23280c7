//! Causal mask and window let other diagonals through than the right ones, or hide keys in the wrong way.

use super::formula::Formula;
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let with = |cause, detail, change: fn(&mut Formula)| {
        Hypothesis::changed(cause, detail, Formula::right(), change)
    };
    vec![
        with(
            Cause::CausalOffByOne,
            "one key too few: a query does not see its own",
            |it| it.diagonal = |own| own - 1,
        ),
        with(
            Cause::CausalOffByOne,
            "one key too many: a query sees the next one",
            |it| it.diagonal = |own| own + 1,
        ),
        with(Cause::CausalTopLeft, "", |it| it.top_left = true),
        with(Cause::CausalIgnored, "", |it| {
            it.diagonal = |_| i64::MAX / 2
        }),
        with(Cause::HiddenScoreNotInfinite, "hidden scores are 0", |it| {
            it.hidden = |_| 0.0
        }),
        with(
            Cause::HiddenScoreNotInfinite,
            "hidden weights are 0, but their exponentials are in the sum",
            |it| it.mask_weights = true,
        ),
        with(
            Cause::WindowOffByOne,
            "one key too many on the left",
            |it| {
                it.options = |options| {
                    if let Some(window) = &mut options.window {
                        window.left = window.left.saturating_add(1);
                    }
                }
            },
        ),
        with(Cause::WindowOffByOne, "one key too few on the left", |it| {
            it.options = |options| {
                if let Some(window) = &mut options.window {
                    window.left = window.left.saturating_sub(1);
                }
            }
        }),
    ]
}
