//! Attention in half precision, of operands that a kernel on tensor cores reads from the wrong places.

use conformance::Dtype;
use conformance::problems::attention::Problem;
use grade::cause::{Cause, probes};
use ndarray::Array4;
use stage4_flash_cuda::Rung;

use super::attention::{Naive, RIGHT, naive};
use super::{Mistake, causes};

/// Elements of rows of 64, from other rows and columns; 0 if there is no such row.
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
    let mistakes: [Mistake<Problem>; 6] = [
        (Cause::FragmentLayout, |it| it.v = moved(&it.v, transposed)),
        (Cause::FragmentLayout, |it| it.k = moved(&it.k, transposed)),
        (Cause::FragmentLayout, |it| {
            it.v = moved(&it.v, |j, d| (if j % 16 < 8 { j + 8 } else { j - 8 }, d));
        }),
        (Cause::SwizzledOnce, |it| it.k = moved(&it.k, swizzled)),
        (Cause::SwizzledOnce, |it| it.v = moved(&it.v, swizzled)),
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
