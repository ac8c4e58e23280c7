//! Causal mask and window let other keys through than the right ones, or hide keys in the wrong way.

use std::rc::Rc;

use super::formula::{Formula, Row};
use super::{Cause, Hypothesis};

/// Queries and keys of a tile.
const TILES: [i64; 6] = [4, 8, 16, 32, 64, 128];

/// More keys than there are.
const ALL: i64 = i64::MAX / 2;

pub(super) fn mistakes() -> Vec<Hypothesis<Formula>> {
    let with = |cause, detail, change: fn(&mut Formula)| {
        Hypothesis::changed(cause, detail, Formula::right(), change)
    };
    let less = "10,000 is subtracted from hidden scores";
    let less_and_counted =
        "10,000 is subtracted from hidden scores; rows that see no key are right";
    let mut mistakes = vec![
        with(Cause::HiddenScoreNotInfinite, "hidden scores are 0", |it| {
            it.hidden = |_| 0.0
        }),
        with(Cause::HiddenScoreNotInfinite, less, |it| {
            it.hidden = |score| score - 1e4
        }),
        with(Cause::HiddenScoreNotInfinite, less_and_counted, |it| {
            it.hidden = |score| score - 1e4;
            it.weigh = Rc::new(|row| match row.end {
                0 => Row {
                    scores: &[],
                    ..*row
                }
                .weighed(),
                _ => row.weighed(),
            });
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
    ];
    let few = "one key too few: a query does not see its own";
    let many = "one key too many: a query sees the next one";
    let early = "its end is that of the first query of a tile";
    let mut sees = |cause, detail: &str, last: Box<dyn Fn(i64, i64) -> i64>| {
        let right = Formula::right();
        mistakes.push(Hypothesis::new(cause, detail, Formula { last, ..right }));
    };
    sees(Cause::CausalOffByOne, few, Box::new(|i, own| i + own - 1));
    sees(Cause::CausalOffByOne, many, Box::new(|i, own| i + own + 1));
    sees(Cause::CausalTopLeft, "", Box::new(|i, _| i));
    let cut = "where nq > nk";
    sees(Cause::CausalTopLeft, cut, Box::new(|i, own| i + own.max(0)));
    sees(
        Cause::AtLeastOneKey,
        "",
        Box::new(|i, own| (i + own).max(0)),
    );
    sees(Cause::CausalIgnored, "", Box::new(|_, _| ALL));
    // The last key is computed in an unsigned type, or the number of keys, which is one more.
    for more in [0, 1] {
        let wraps = move |i, own| if i + own + more < 0 { ALL } else { i + own };
        sees(Cause::CausalWraps, "", Box::new(wraps));
    }
    // The loop over the keys of a tile of queries ends at whole tiles of keys, whatever the mask lets through.
    for queries in TILES {
        for keys in TILES {
            let first = move |i: i64| i / queries * queries;
            let tiles = move |end: i64| (end + keys - 1).div_euclid(keys) * keys;
            let end = move |i: i64, own: i64| tiles(first(i) + queries + own) - 1;
            let top_left = move |i, own| end(i, own).min(i);
            sees(Cause::CausalTopLeft, "", Box::new(top_left));
            let next = move |i, own| end(i, own).min(i + own + 1);
            sees(Cause::CausalOffByOne, many, Box::new(next));
            let ignored = move |i, own| end(i, own);
            sees(Cause::CausalIgnored, "", Box::new(ignored));
            // The end of the loop may wrap, too.
            for (more, end_wraps) in [(0, false), (0, true), (1, false), (1, true)] {
                let wraps = move |i: i64, own: i64| match i + own + more < 0 {
                    true if end_wraps && first(i) + queries + own < 0 => ALL,
                    true => end(i, own),
                    false => i + own,
                };
                sees(Cause::CausalWraps, "", Box::new(wraps));
            }
            // The end is that before the first query's own key or behind it; of a query before the first key, at least 0.
            for (more, least) in [(0, i64::MIN), (1, i64::MIN), (0, 0), (1, 0)] {
                let too_early = move |i: i64, own: i64| {
                    let end = (first(i) + own).max(least) + more;
                    (tiles(end) - 1).min(i + own)
                };
                sees(Cause::CausalEndsEarly, early, Box::new(too_early));
            }
        }
    }
    mistakes
}
