//! Causal mask and window let other diagonals through than the right ones, or hide keys in the wrong way.

use super::formula::Formula;
use super::{Cause, Hypothesis};

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let right = Formula::right;
    let off_by_one = |detail, diagonal| {
        let formula = Formula {
            diagonal,
            ..right()
        };
        Hypothesis::new(Cause::CausalOffByOne, detail, formula)
    };
    let with = |cause, detail, formula| Hypothesis::new(cause, detail, formula);
    vec![
        off_by_one("one key too few: a query does not see its own", |own| {
            own - 1
        }),
        off_by_one("one key too many: a query sees the next one", |own| own + 1),
        with(
            Cause::CausalTopLeft,
            "",
            Formula {
                top_left: true,
                ..right()
            },
        ),
        with(
            Cause::CausalIgnored,
            "",
            Formula {
                diagonal: |_| i64::MAX / 2,
                ..right()
            },
        ),
        with(
            Cause::HiddenScoreNotInfinite,
            "hidden scores are 0",
            Formula {
                hidden: |_| 0.0,
                ..right()
            },
        ),
        with(
            Cause::HiddenScoreNotInfinite,
            "hidden weights are 0, but their exponentials are in the sum",
            Formula {
                mask_weights: true,
                ..right()
            },
        ),
        with(
            Cause::WindowOffByOne,
            "one key too many on the left",
            Formula {
                options: |options| {
                    if let Some(window) = &mut options.window {
                        window.left = window.left.saturating_add(1);
                    }
                },
                ..right()
            },
        ),
        with(
            Cause::WindowOffByOne,
            "one key too few on the left",
            Formula {
                options: |options| {
                    if let Some(window) = &mut options.window {
                        window.left = window.left.saturating_sub(1);
                    }
                },
                ..right()
            },
        ),
    ]
}
