//! Scores at the edges of f32, and beyond them.

use conformance::inputs::{hash, normal, tensor};
use conformance::oracle;
use ndarray::{Array3, Array4, s};
use rstest::rstest;
use stage3_flash_cpu::{Gradients, Options, Output, attention, attention_backward};

/// Rows whose products with each other are ±81,920 and a small integer, exact in any order of
/// summation. 1/√72 and 1/√128 are not powers of two, so their multiples are not exact.
fn huge(shape: (usize, usize, usize, usize), seed: u64, size: f32) -> Array4<f32> {
    tensor(shape, seed, |seed, i| match i % shape.3 as u64 {
        0 if hash(seed + 1, i).is_multiple_of(2) => size,
        0 => -size,
        _ => (hash(seed, i) % 3) as f32 - 1.0,
    })
}

/// The largest differences of `o` and `lse` from f64.
fn errors(output: &Output, (o, lse): &(Array4<f64>, Array3<f64>)) -> [f64; 2] {
    let o = (&output.o.mapv(f64::from) - o).mapv(f64::abs);
    let lse = (&output.lse.mapv(f64::from) - lse).mapv(f64::abs);
    assert!(o.iter().chain(&lse).all(|error| error.is_finite()));
    [o.fold(0.0, |a, b| b.max(a)), lse.fold(0.0, |a, b| b.max(a))]
}

/// Stage 1 multiplies the finished product by the scale. Multiplied into `q` or `k` instead, every
/// partial sum of it rounds.
#[rstest]
#[case(72)]
#[case(128)]
fn huge_scores_are_as_exact_as_in_stage_1(#[case] d: usize) {
    let q = huge((1, 2, 65, d), 1, 256.0);
    let k = huge((1, 2, 129, d), 3, 320.0);
    let v = tensor((1, 2, 129, d), 5, normal);
    let options = Options::default();
    let exact = oracle::attention(&q, &k, &v, &options);
    assert!(exact.1.iter().all(|lse| lse.abs() > 5e3));
    let (q, k, v) = (q.view(), k.view(), v.view());
    let own = errors(&attention(q, k, v, &options).unwrap(), &exact);
    let stage1 = stage1_reference::attention(q, k, v, &options).unwrap();
    let stage1 = errors(&stage1, &exact);
    for (own, stage1) in own.into_iter().zip(stage1) {
        assert!(own <= 1.01 * stage1 + 1e-6, "{own:.2e}, {stage1:.2e}");
    }
}

/// Weights that are computed again from `lse` add up to 1, but for the rounding of `lse` itself.
#[rstest]
#[case(64, None)]
#[case(72, None)]
#[case(128, None)]
#[case(128, Some(-0.3))]
fn the_backward_pass_has_the_scores_of_the_forward_pass(
    #[case] d: usize,
    #[case] scale: Option<f32>,
) {
    let (heads, nk) = (40, 300);
    let q = tensor((1, heads, 1, d), 1, |seed, i| 60.0 * normal(seed, i));
    let k = tensor((1, heads, nk, d), 2, |seed, i| 60.0 * normal(seed, i));
    let v = tensor((1, heads, nk, d), 3, normal);
    let mut options = Options::default();
    options.scale = scale;
    let (q, k, v) = (q.view(), k.view(), v.view());
    let output = attention(q, k, v, &options).unwrap();
    let d_o = Array4::ones(q.raw_dim());
    let gradients = attention_backward(q, k, v, &options, &output, d_o.view()).unwrap();
    for h in 0..heads {
        // With one query and a gradient of 1, the gradient of a value is its weight.
        let sum: f64 = (gradients.dv.slice(s![0, h, .., 0]).iter())
            .map(|&p| f64::from(p))
            .sum();
        let lse = f64::from(output.lse[[0, h, 0]]);
        assert!(lse.abs() > 1e3);
        let rounding = lse.abs() * f64::from(f32::EPSILON) / 2.0;
        assert!((sum - 1.0).abs() < 1.1 * rounding + 1e-6, "{sum}, {lse}");
    }
}

/// The scaled products of `q` and `k` may be beyond f32, or the products alone: in PyTorch's flash
/// backend, o is then NaN, or 0 if the products are all negative.
#[rstest]
#[case(1e20, f32::NAN, f32::NAN)]
#[case(-1e20, 0.0, f32::NEG_INFINITY)]
fn a_small_scale_does_not_save_products_beyond_f32(
    #[case] k: f32,
    #[case] o: f32,
    #[case] lse: f32,
) {
    let [q, k, v] = [1e20, k, 7.0].map(|x| Array4::from_elem((1, 1, 1, 1), x));
    let options = Options::default().scale(1e-10);
    let (q, k, v) = (q.view(), k.view(), v.view());
    let output = attention(q, k, v, &options).unwrap();
    let stage1 = stage1_reference::attention(q, k, v, &options).unwrap();
    for output in [output, stage1] {
        assert_same(&[output.o[[0, 0, 0, 0]]], &[o], "o");
        assert_same(&[output.lse[[0, 0, 0]]], &[lse], "lse");
    }
}

/// With the largest scales some scores are beyond f32.
#[test]
fn any_scale_gives_what_stage_1_gives() {
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 2, 20, 8), seed, normal));
    // Keys that the lowest number hides stay hidden.
    let lowest = tensor((1, 1, 20, 20), 4, |seed, i| {
        if hash(seed, i).is_multiple_of(3) {
            f32::MIN
        } else {
            0.0
        }
    });
    let (q, k, v) = (q.view(), k.view(), v.view());
    for (size, finite) in [
        (f32::MAX, false),
        (1e38, false),
        (1e31, true),
        (1e10, true),
        (1.0, true),
        (1e-20, true),
        (1e-38, true),
        (1e-45, true),
        (0.0, true),
    ] {
        for scale in [size, -size] {
            for options in [Options::default(), Options::default().mask(lowest.clone())] {
                let options = options.scale(scale);
                let output = attention(q, k, v, &options).unwrap();
                let stage1 = stage1_reference::attention(q, k, v, &options).unwrap();
                let what = format!("scale {scale:e}");
                assert_same(&output.o, &stage1.o, &what);
                assert_same(&output.lse, &stage1.lse, &what);
                assert_eq!(output.o.iter().all(|o| o.is_finite()), finite, "{what}");

                let Gradients { dq, dk, dv } =
                    attention_backward(q, k, v, &options, &output, v).unwrap();
                for gradient in [&dq, &dk, &dv] {
                    let all_finite = gradient.iter().all(|x| x.is_finite());
                    assert_eq!(all_finite, finite, "{what}");
                }
                for ((b, h, i), lse) in output.lse.indexed_iter() {
                    let nan = dq.slice(s![b, h, i, ..]).iter().all(|x| x.is_nan());
                    assert_eq!(nan, lse.is_nan(), "{what}");
                }
            }
        }
    }
}

/// The largest query of all and the largest key of all never meet: they are of different
/// heads, or the key is padding.
#[test]
fn large_queries_and_large_keys_that_do_not_meet_do_no_harm() {
    let [mut q, mut k, v] = [1, 2, 3].map(|seed| tensor((2, 2, 5, 8), seed, normal));
    for (head, size) in [(0, 1e30), (1, 1e-30)] {
        q.slice_mut(s![.., head, .., ..])
            .map_inplace(|x| *x *= size);
        k.slice_mut(s![.., head, .., ..])
            .map_inplace(|x| *x /= size);
    }
    k.slice_mut(s![1, 0, 3.., ..]).fill(1e38); // padding
    let options = Options::default().scale(2.0).key_lengths(vec![5, 3]);
    let exact = oracle::attention(&q, &k, &v, &options);
    let (q, k, v) = (q.view(), k.view(), v.view());
    let output = attention(q, k, v, &options).unwrap();
    for error in errors(&output, &exact) {
        assert!(error < 1e-5, "{error}");
    }
    let gradients = attention_backward(q, k, v, &options, &output, v).unwrap();
    for gradient in [gradients.dq, gradients.dk, gradients.dv] {
        assert!(gradient.iter().all(|x| x.is_finite()));
    }
}

/// NaN where NaN is expected, the same infinity where that is, and else no further off
/// than 1e-5, or that share.
fn assert_same<'a>(
    actual: impl IntoIterator<Item = &'a f32>,
    expected: impl IntoIterator<Item = &'a f32>,
    what: &str,
) {
    for (&actual, &expected) in actual.into_iter().zip(expected) {
        let close = (actual - expected).abs() <= 1e-5 * expected.abs().max(1.0);
        let same = actual == expected || (actual.is_nan() && expected.is_nan());
        assert!(
            same || (close && expected.is_finite()),
            "{what}: {actual}, not {expected}"
        );
    }
}
