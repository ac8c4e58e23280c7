//! Attention in half precision, of operands that a kernel on tensor cores reads from the wrong places.

use conformance::Dtype;
use conformance::problems::Problem as _;
use conformance::problems::attention::{self, Problem};
use grade::cause::{Cause, probes};
use ndarray::Array4;
use stage4_flash_cuda::Rung;

use super::attention::{Naive, RIGHT, naive};
use super::{Mistake, causes};

/// Elements of a tensor, from other rows and columns; 0 if there is no such row.
fn moved(x: &Array4<f32>, from: fn(usize, usize) -> (usize, usize)) -> Array4<f32> {
    let mut moved = x.clone();
    for ((b, h, j, d), value) in moved.indexed_iter_mut() {
        let (row, column) = from(j, d);
        *value = if row < x.dim().2 {
            x[[b, h, row, column]]
        } else {
            0.0
        };
    }
    moved
}

fn transposed(j: usize, d: usize) -> (usize, usize) {
    (j - j % 8 + d % 8, d - d % 8 + j % 8)
}

fn swizzled(j: usize, d: usize) -> (usize, usize) {
    (j, ((d / 8) ^ (j % 8)) * 8 + d % 8)
}

/// Of panels of 64 columns that are taken for rows of 128.
fn in_next_row(j: usize, d: usize) -> (usize, usize) {
    (j + d / 64, d % 64)
}

/// Of a panel that is looked for 16 bytes behind the one before.
fn after_16_bytes(j: usize, d: usize) -> (usize, usize) {
    let column = if d < 64 { d } else { d - 56 };
    (j + column / 64, column % 64)
}

#[test]
fn mistakes_of_tensor_cores_are_named() {
    let problems = || probes::attention_in(Dtype::F16, &Rung::LACKS);
    let of = |change: fn(&mut Problem), how: Naive| {
        causes(problems(), |problem| {
            let mut changed = problem.clone();
            change(&mut changed);
            naive(&changed, &how)
        })
    };
    assert_eq!(of(|_| {}, RIGHT), []);
    let mistakes: [Mistake<Problem>; 8] = [
        (Cause::FragmentLayout, |it| it.v = moved(&it.v, transposed)),
        (Cause::FragmentLayout, |it| it.k = moved(&it.k, transposed)),
        (Cause::FragmentLayout, |it| {
            it.v = moved(&it.v, |j, d| (if j % 16 < 8 { j + 8 } else { j - 8 }, d));
        }),
        (Cause::SwizzledOnce, |it| it.k = moved(&it.k, swizzled)),
        (Cause::SwizzledOnce, |it| it.v = moved(&it.v, swizzled)),
        (Cause::Descriptor, |it| {
            let from = |j, d| (j, [0, 8, 16, 24][d / 16] + d % 16);
            (it.q, it.k) = (moved(&it.q, from), moved(&it.k, from));
        }),
        (Cause::Descriptor, |it| {
            it.k = moved(&it.k, |j, d| if d < 48 { (usize::MAX, d) } else { (j, d) });
        }),
        (Cause::SwizzledOnce, |it| {
            (it.q, it.k, it.v) = (
                moved(&it.q, swizzled),
                moved(&it.k, swizzled),
                moved(&it.v, swizzled),
            );
        }),
    ];
    for (i, (cause, change)) in mistakes.into_iter().enumerate() {
        assert_eq!(of(change, RIGHT), [cause], "mistake {i}");
    }
    type Change = fn(&mut Problem);
    // Rows of 128 and a 65th query are in no probe.
    let further: [(&str, Change); 3] = [
        ("b1_h2_nq17_nk33_d128", |it| {
            (it.q, it.k) = (moved(&it.q, in_next_row), moved(&it.k, in_next_row));
        }),
        ("b1_h2_nq17_nk33_d128", |it| {
            it.v = moved(&it.v, after_16_bytes)
        }),
        ("b1_h2_n65_d64", |it| {
            it.q = moved(&it.q, |j, d| (j % 64, d))
        }),
    ];
    for (name, change) in further {
        let mut all = attention::problems().into_iter();
        let wrong = all.find(|problem| problem.name() == name).unwrap();
        let mut problems = problems();
        problems.push(wrong.stored_in(Dtype::F16));
        let found = causes(problems, |problem| {
            let mut changed = problem.clone();
            change(&mut changed);
            naive(&changed, &RIGHT)
        });
        assert_eq!(found, [Cause::Descriptor], "{name}");
    }
    let rounded = Naive {
        scale: |scale, _| Dtype::F16.round(scale),
        ..RIGHT
    };
    // A scale of 1 / 8 is a number of f16: the problem with a scale of 0.7 is wrong.
    assert_eq!(of(|_| {}, rounded), [Cause::RoundedEarly]);
    // Other mistakes have their names, too.
    let no_scale = Naive {
        scale: |_, _| 1.0,
        ..RIGHT
    };
    assert_eq!(of(|_| {}, no_scale), [Cause::MissingScale]);
}
