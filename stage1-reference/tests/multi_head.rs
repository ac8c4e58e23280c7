//! The multi-head layer against `torch.nn.MultiheadAttention`: see `conformance/fixtures/multi_head.py`.

use conformance::compare::{Comparison, Tolerance};
use conformance::inputs::{tensor, uniform};
use ndarray::{Array1, Array2, Array3, ArrayView2, Axis};
use rstest::rstest;
use safetensors::SafeTensors;
use stage1_reference::{Error, Linear, MultiHeadAttention, Options};

static FIXTURE: &[u8] = include_bytes!("../../conformance/fixtures/multi_head.safetensors");

fn fixture(name: &str) -> Array2<f64> {
    let file = SafeTensors::deserialize(FIXTURE).expect("the fixture is a safetensors file");
    let tensor = file.tensor(name).expect("the fixture has the tensor");
    let values = tensor
        .data()
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().expect("4 bytes")));
    let shape = (tensor.shape()[0], tensor.shape()[1]);
    Array2::from_shape_vec(shape, values.map(f64::from).collect()).expect("the fixture's shape")
}

fn layer(hidden: usize, heads: usize, biases: bool) -> MultiHeadAttention {
    let linear = |seed| Linear {
        weight: tensor((hidden, hidden), seed, |seed, i| uniform(seed, i) / 4.0),
        bias: biases.then(|| tensor(hidden, seed + 4, uniform)),
    };
    MultiHeadAttention {
        w_q: linear(1),
        w_k: linear(2),
        w_v: linear(3),
        w_o: linear(4),
        heads,
    }
}

fn input(batch: usize, n: usize, hidden: usize) -> Array3<f32> {
    tensor((batch, n, hidden), 9, uniform)
}

#[rstest]
#[case::assignment_b4_n10("assignment_b4_n10", [128, 8, 4, 10], false, false, 1)]
#[case::assignment_b4_n10_causal("assignment_b4_n10_causal", [128, 8, 4, 10], false, true, 1)]
#[case::assignment_b16_n100("assignment_b16_n100", [128, 8, 16, 100], true, false, 7)]
#[case::assignment_b16_n100_causal("assignment_b16_n100_causal", [128, 8, 16, 100], true, true, 7)]
#[case::one_token("one_token", [8, 1, 1, 1], true, true, 1)]
#[case::narrow_heads("narrow_heads_b3_n7", [48, 6, 3, 7], true, false, 1)]
#[case::one_head("one_head_b2_n65_causal", [40, 1, 2, 65], true, true, 5)]
#[case::heads_of_one("heads_of_one_b1_n33", [16, 16, 1, 33], false, true, 1)]
fn agrees_with_torch(
    #[case] name: &str,
    #[case] sizes: [usize; 4],
    #[case] biases: bool,
    #[case] causal: bool,
    #[case] stride: usize,
) {
    let [hidden, heads, batch, n] = sizes;
    let mut options = Options::default();
    options.causal = causal;
    let y = layer(hidden, heads, biases)
        .forward(input(batch, n, hidden).view(), &options)
        .unwrap();
    assert_eq!(y.dim(), (batch, n, hidden));
    let y = y.into_shape_with_order((batch * n, hidden)).unwrap();

    let rows: Vec<usize> = (0..batch * n).step_by(stride).collect();
    // Four chained sums: projection, scores, weighted values, projection.
    let tolerance = Tolerance::of_sum(f32::EPSILON.into(), 3 * hidden + n).floor(1.0);
    check(
        "rows",
        y.select(Axis(0), &rows).view(),
        &fixture(&format!("{name}.rows")),
        tolerance,
    );
    let eighth = hidden / 8;
    let sums = Array2::from_shape_fn((batch * n, 8), |(i, j)| {
        y.row(i).iter().skip(j * eighth).take(eighth).sum()
    });
    let tolerance = tolerance.floor(eighth as f64);
    check(
        "sums",
        sums.view(),
        &fixture(&format!("{name}.sums")),
        tolerance,
    );
}

fn check(
    tensor: &'static str,
    actual: ArrayView2<'_, f32>,
    expected: &Array2<f64>,
    tolerance: Tolerance,
) {
    let comparison = Comparison::new(tensor, actual, expected.view(), tolerance);
    assert!(comparison.passed(), "{comparison}");
}

#[test]
fn the_fixture_sees_a_transposed_weight_and_swapped_heads() {
    let expected = fixture("narrow_heads_b3_n7.rows");
    let x = input(3, 7, 48);
    let tolerance = Tolerance::of_sum(f32::EPSILON.into(), 200).floor(1.0);
    let wrong = |layer: MultiHeadAttention| {
        let y = layer.forward(x.view(), &Options::default()).unwrap();
        let y = y.into_shape_with_order((21, 48)).unwrap();
        Comparison::new("rows", y.view(), expected.view(), tolerance).wrong
    };
    assert_eq!(wrong(layer(48, 6, true)), 0);
    let mut transposed = layer(48, 6, true);
    transposed.w_k.weight = transposed.w_k.weight.t().as_standard_layout().into_owned();
    assert!(wrong(transposed) > 900);
    assert!(
        wrong(MultiHeadAttention {
            heads: 8,
            ..layer(48, 6, true)
        }) > 900
    );
    assert!(wrong(layer(48, 6, false)) > 900);
}

#[test]
fn empty_batches_and_sequences_give_empty_outputs() {
    for (batch, n) in [(0, 5), (3, 0), (0, 0)] {
        let y = layer(16, 4, true)
            .forward(input(batch, n, 16).view(), &Options::default().causal())
            .unwrap();
        assert_eq!(y.dim(), (batch, n, 16));
    }
}

#[rstest]
#[case::hidden_not_a_multiple(|layer: &mut MultiHeadAttention| layer.heads = 5, "x")]
#[case::no_heads(|layer: &mut MultiHeadAttention| layer.heads = 0, "x")]
#[case::w_q(|layer: &mut MultiHeadAttention| layer.w_q.weight = Array2::zeros((16, 15)), "w_q.weight")]
#[case::w_k(|layer: &mut MultiHeadAttention| layer.w_k.weight = Array2::zeros((15, 16)), "w_k.weight")]
#[case::w_v(|layer: &mut MultiHeadAttention| layer.w_v.weight = Array2::zeros((0, 0)), "w_v.weight")]
#[case::w_o(|layer: &mut MultiHeadAttention| layer.w_o.weight = Array2::zeros((32, 16)), "w_o.weight")]
#[case::b_v(|layer: &mut MultiHeadAttention| layer.w_v.bias = Some(Array1::zeros(1)), "w_v.bias")]
#[case::b_o(|layer: &mut MultiHeadAttention| layer.w_o.bias = Some(Array1::zeros(17)), "w_o.bias")]
fn a_wrong_shape_is_named(#[case] spoil: fn(&mut MultiHeadAttention), #[case] name: &str) {
    let mut layer = layer(16, 4, true);
    spoil(&mut layer);
    let error = layer
        .forward(input(2, 3, 16).view(), &Options::default())
        .unwrap_err();
    assert!(
        matches!(error, Error::Shape { argument, .. } if argument == name),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .starts_with(&format!("MultiHeadAttention::forward: `{name}` has shape")),
        "{error}"
    );
}

#[test]
fn a_mask_that_does_not_fit_is_named() {
    let options = Options::default().mask(ndarray::Array4::zeros((2, 4, 3, 4)));
    let error = layer(16, 4, true)
        .forward(input(2, 3, 16).view(), &options)
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Shape {
                argument: "mask",
                ..
            }
        ),
        "{error}"
    );
}
