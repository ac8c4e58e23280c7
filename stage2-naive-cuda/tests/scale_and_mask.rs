//! `scale_and_mask` against a loop on the host.

mod support;

use conformance::compare::{Comparison, Tolerance};
use conformance::inputs::{normal, tensor, uniform};
use ndarray::Array4;
use rstest::rstest;
use stage2_naive_cuda::{Additive, ScaleAndMask, Strides};
use support::Device;

const TOLERANCE: Tolerance = Tolerance {
    relative: 1e-6,
    absolute: 1e-6,
};

#[rstest]
fn agrees_with_a_loop(
    #[values([1, 1, 1, 1], [2, 3, 5, 129], [1, 2, 129, 65], [2, 2, 3, 1000], [2, 1, 65, 65])] shape: [usize; 4],
    #[values(false, true)] causal: bool,
    #[values(None, Some([false, false]), Some([false, true]), Some([true, false]), Some([true, true]))]
    mask: Option<[bool; 2]>,
) {
    let device = Device::open();
    let [batch, heads, nq, nk] = shape;
    let scale = -0.375;
    let mut scores = tensor(shape, 41, normal);
    let mask = mask.map(|[per_batch, per_head]| {
        let shape = [
            if per_batch { batch } else { 1 },
            if per_head { heads } else { 1 },
            nq,
            nk,
        ];
        let holes = |seed, i| {
            if uniform(seed, i) < 0.0 {
                f32::NEG_INFINITY
            } else {
                normal(seed, i)
            }
        };
        let strides = Strides {
            batch: if per_batch { shape[1] * nq * nk } else { 0 },
            head: if per_head { nq * nk } else { 0 },
            row: nk,
        };
        (tensor(shape, 42, holes), strides)
    });
    let expected = Array4::from_shape_fn(shape, |(b, h, i, j)| {
        let added = mask.as_ref().map_or(0.0, |(mask, _)| {
            let (b, h) = (b % mask.dim().0, h % mask.dim().1);
            f64::from(mask[[b, h, i, j]])
        });
        let hidden = causal && j as isize > i as isize + nk as isize - nq as isize;
        if hidden {
            f64::NEG_INFINITY
        } else {
            f64::from(scores[[b, h, i, j]]) * f64::from(scale) + added
        }
    });

    let mut device_scores = device.upload(&scores);
    let device_mask = mask
        .as_ref()
        .map(|(values, strides)| (device.upload(values), *strides));
    let additive = device_mask.as_ref().map(|(values, strides)| Additive {
        values: values.as_view(),
        strides: *strides,
    });
    let shape = ScaleAndMask {
        batch,
        heads,
        nq,
        nk,
        scale,
        causal,
    };
    device
        .kernels
        .scale_and_mask(device_scores.as_view_mut(), additive, &shape)
        .unwrap();
    device.download(&device_scores, &mut scores).unwrap();
    let comparison = Comparison::new("scores", scores.view(), expected.view(), TOLERANCE);
    assert!(comparison.passed(), "{}: {comparison}", device.name);
}
