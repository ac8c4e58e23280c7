//! The backward pass against two others: the dense analytic gradient, and central
//! differences, both in f64.

use conformance::dense::Dense;
use conformance::inputs::{normal, tensor};
use ndarray::Array4;
use rstest::rstest;
use stage1_reference::Dropout;
use stage3_flash_cpu::{Gradients, Options, attention, attention_backward};

/// The largest difference, as a share of the gradient's largest element, or
/// of 1 if that is smaller.
fn distance(actual: &Array4<f32>, expected: &Array4<f64>) -> f64 {
    assert_eq!(actual.shape(), expected.shape());
    let size = expected.iter().fold(1.0, |max: f64, x| max.max(x.abs()));
    let errors = actual.iter().zip(expected).map(|(&a, e)| {
        let error = (f64::from(a) - e).abs();
        if error.is_nan() { f64::INFINITY } else { error }
    });
    errors.fold(0.0, f64::max) / size
}

fn d_o(q: &Array4<f32>) -> Array4<f32> {
    tensor(q.raw_dim(), 77, normal)
}

fn compare(name: &str, actual: &Gradients, expected: &[Array4<f64>; 3], tolerance: f64) {
    let Gradients { dq, dk, dv } = actual;
    for ((tensor, actual), expected) in [("dq", dq), ("dk", dk), ("dv", dv)]
        .into_iter()
        .zip(expected)
    {
        let distance = distance(actual, expected);
        assert!(
            distance <= tolerance,
            "{name}: {tensor} is {distance:.1e} off"
        );
    }
}

#[rstest]
fn both_agree_with_central_differences(#[values(None, Some(0.3))] probability: Option<f32>) {
    let q = tensor((2, 2, 5, 3), 1, normal);
    let [k, v] = [2, 3].map(|seed| tensor((2, 1, 7, 3), seed, normal));
    let mask = tensor((1, 2, 5, 7), 4, |seed, i| {
        if i.is_multiple_of(4) {
            f32::NEG_INFINITY
        } else {
            normal(seed, i)
        }
    });
    let mut options = Options::default()
        .causal()
        .key_lengths(vec![7, 5])
        .mask(mask)
        .scale(-0.7);
    options.dropout = probability.map(|probability| Dropout {
        probability,
        seed: 5,
        offset: 1 << 40,
    });
    let d_o = d_o(&q);
    let exact = d_o.mapv(f64::from);

    let mut dense = Dense::new(&q, &k, &v, &options);
    let by_hand = dense.gradients(&exact);
    let step = 1e-5;
    let inputs: [for<'a> fn(&'a mut Dense<'_>) -> &'a mut Array4<f64>; 3] =
        [|x| &mut x.q, |x| &mut x.k, |x| &mut x.v];
    let differences = inputs.map(|input| {
        let mut gradient = Array4::zeros(input(&mut dense).raw_dim());
        for (index, slope) in gradient.indexed_iter_mut() {
            let value = input(&mut dense)[index];
            input(&mut dense)[index] = value + step;
            let above = dense.loss(&exact);
            input(&mut dense)[index] = value - step;
            let below = dense.loss(&exact);
            input(&mut dense)[index] = value;
            *slope = (above - below) / (2.0 * step);
        }
        gradient
    });
    for (by_hand, differences) in by_hand.iter().zip(&differences) {
        let worst = (by_hand - differences).mapv(f64::abs);
        assert!(worst.iter().all(|&error| error < 1e-8), "{worst}");
        assert!(differences.iter().any(|x| x.abs() > 0.1));
    }

    let output = attention(q.view(), k.view(), v.view(), &options).unwrap();
    let actual =
        attention_backward(q.view(), k.view(), v.view(), &options, &output, d_o.view()).unwrap();
    compare("central differences", &actual, &differences, 1e-6);
}

/// Without queries of any head, keys have no part in the loss.
#[test]
fn keys_without_query_heads_have_no_gradient() {
    let q = Array4::<f32>::zeros((2, 0, 5, 16));
    let [k, v] = [1, 2].map(|seed| tensor((2, 2, 7, 16), seed, normal));
    let options = Options::default();
    let output = attention(q.view(), k.view(), v.view(), &options).unwrap();
    let gradients = attention_backward(q.view(), k.view(), v.view(), &options, &output, q.view());
    let Gradients { dq, dk, dv } = gradients.unwrap();
    assert_eq!(dq.dim(), q.dim());
    assert_eq!((dk, dv), (Array4::zeros(k.dim()), Array4::zeros(k.dim())));
}
