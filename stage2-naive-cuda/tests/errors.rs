//! Arguments that do not fit are refused by name, and nothing is launched: outputs keep their values.

mod support;

use ndarray::Array4;
use rstest::rstest;
use stage1_reference::{Feature, Options, Sizes};
use stage2_naive_cuda::{
    Additive, AttentionInputs, AttentionOutputs, AttentionShape, Axis, Error, Gemm, ScaleAndMask,
    Softmax, Strides, Variant,
};
use support::Device;

/// The operation and argument that an error names.
fn named(error: &Error) -> (&'static str, &'static str) {
    match error {
        Error::TooShort {
            operation,
            argument,
            ..
        }
        | Error::TooLarge {
            operation,
            argument,
            ..
        }
        | Error::Overlap {
            operation,
            argument,
        } => (operation, argument),
        Error::HeadGroups { operation, .. } => (operation, "heads"),
        Error::Attention(stage1_reference::Error::HeadGroups { operation, .. }) => {
            (operation, "heads")
        }
        Error::Attention(stage1_reference::Error::Shape {
            operation,
            argument,
            ..
        }) => (operation, argument),
        Error::Attention(stage1_reference::Error::Scale { operation, .. }) => (operation, "scale"),
        other => panic!("another error: {other}"),
    }
}

const HUGE: usize = usize::MAX / 2;

/// Elements of the buffers: enough for `a` [2, 4, 6, 5], `b` [2, 2, 5, 3] and `c` [2, 4, 6, 3], and no more.
const LENGTHS: [usize; 3] = [240, 60, 144];

#[rstest]
#[case::fits("", |_: &mut Gemm| {})]
#[case::a_rows("a", |shape: &mut Gemm| shape.a.row = 6)]
#[case::a_heads("a", |shape: &mut Gemm| shape.a.head += 1)]
#[case::a_batches("a", |shape: &mut Gemm| shape.a.batch = HUGE)]
#[case::b_rows("b", |shape: &mut Gemm| shape.b.row = 4)]
#[case::b_heads("b", |shape: &mut Gemm| shape.b_heads = 4)]
#[case::c_rows("c", |shape: &mut Gemm| shape.c.row = 4)]
#[case::c_overlapping_rows("c", |shape: &mut Gemm| shape.c.row = 2)]
#[case::c_overlapping_heads("c", |shape: &mut Gemm| shape.c.head = 17)]
#[case::c_the_same_for_all_batches("c", |shape: &mut Gemm| shape.c.batch = 0)]
#[case::m("a", |shape: &mut Gemm| shape.m = 7)]
#[case::n("b", |shape: &mut Gemm| shape.n = 4)]
#[case::k("a", |shape: &mut Gemm| shape.k = 6)]
#[case::huge_m("m", |shape: &mut Gemm| shape.m = HUGE)]
#[case::huge_batch("batch", |shape: &mut Gemm| shape.batch = HUGE)]
#[case::group("heads", |shape: &mut Gemm| shape.b_heads = 3)]
#[case::no_heads_of_b("heads", |shape: &mut Gemm| shape.b_heads = 0)]
fn gemm_names_what_does_not_fit(#[case] name: &str, #[case] spoil: fn(&mut Gemm)) {
    let device = Device::open();
    let [a, b, mut c] = LENGTHS.map(|length| device.upload(&vec![7.0; length]));
    let mut shape = Gemm {
        batch: 2,
        heads: 4,
        b_heads: 2,
        a: Strides::packed(4, 6, 5),
        b: Strides::packed(2, 5, 3),
        c: Strides::packed(4, 6, 3),
        ..Gemm::nn(6, 3, 5)
    };
    spoil(&mut shape);
    for variant in [Variant::Naive, Variant::Tiled] {
        let result =
            device
                .kernels
                .gemm_nn(variant, a.as_view(), b.as_view(), c.as_view_mut(), &shape);
        let mut after = [0.0; LENGTHS[2]];
        device.download(&c, &mut after).unwrap();
        if name.is_empty() {
            result.unwrap();
            assert_eq!(after, [5.0 * 49.0; LENGTHS[2]]);
        } else {
            assert_eq!(named(&result.unwrap_err()), ("gemm_nn", name));
            assert_eq!(after, [7.0; LENGTHS[2]]);
        }
    }
}

#[test]
fn sizes_beyond_the_limits_are_refused() {
    let device = Device::open();
    let [a, b, mut c] = [1, 1, 1].map(|length| device.upload(&vec![7.0; length]));
    let shape = Gemm::nt(1 << 30, 1, 1);
    let (a, b) = (a.as_view(), b.as_view());
    let error = device
        .kernels
        .gemm_nt(Variant::Naive, a, b, c.as_view_mut(), &shape)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "gemm_nt: `m` is 1073741824, above the limit of 1073741823"
    );

    // Vectors without elements need no memory, but a block each.
    let shape = Softmax {
        batch: 1 << 20,
        rows: 1 << 20,
        columns: 0,
        axis: Axis::Last,
    };
    let error = device
        .kernels
        .softmax(c.as_view_mut(), None, &shape)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "softmax: `blocks` is 1099511627776, above the limit of 2147483647"
    );
}

#[rstest]
#[case::x("x", 119, 8, [2, 4, 15], Axis::Last)]
#[case::lse("lse", 120, 7, [2, 4, 15], Axis::Last)]
#[case::lse_over_rows("lse", 120, 29, [2, 4, 15], Axis::NextToLast)]
#[case::rows("rows", 120, 8, [1, HUGE, 1], Axis::Last)]
#[case::product("x", 120, 8, [(1 << 30) - 1; 3], Axis::NextToLast)]
fn softmax_names_what_does_not_fit(
    #[case] name: &str,
    #[case] x: usize,
    #[case] lse: usize,
    #[case] sizes: [usize; 3],
    #[case] axis: Axis,
) {
    let device = Device::open();
    let [mut x, mut lse] = [x, lse].map(|length| device.upload(&vec![7.0; length]));
    let [batch, rows, columns] = sizes;
    let shape = Softmax {
        batch,
        rows,
        columns,
        axis,
    };
    let error = device
        .kernels
        .softmax(x.as_view_mut(), Some(lse.as_view_mut()), &shape)
        .unwrap_err();
    assert_eq!(named(&error), ("softmax", name));
    for buffer in [&x, &lse] {
        assert!(
            device
                .stream
                .clone_dtoh(buffer)
                .unwrap()
                .iter()
                .all(|&x| x == 7.0)
        );
    }
}

#[rstest]
#[case::scores("scores", 119, 20)]
#[case::mask("mask", 120, 19)]
fn scale_and_mask_names_what_does_not_fit(
    #[case] name: &str,
    #[case] scores: usize,
    #[case] mask: usize,
) {
    let device = Device::open();
    let [mut scores, mask] = [scores, mask].map(|length| device.upload(&vec![7.0; length]));
    let shape = ScaleAndMask {
        batch: 2,
        heads: 3,
        nq: 4,
        nk: 5,
        scale: 2.0,
        causal: false,
    };
    let mask = Additive {
        values: mask.as_view(),
        strides: Strides {
            batch: 0,
            head: 0,
            row: 5,
        },
    };
    let error = device
        .kernels
        .scale_and_mask(scores.as_view_mut(), Some(mask), &shape)
        .unwrap_err();
    assert_eq!(named(&error), ("scale_and_mask", name));
    assert!(
        device
            .stream
            .clone_dtoh(&scores)
            .unwrap()
            .iter()
            .all(|&x| x == 7.0)
    );
}

/// Elements of q, k, v, o and lse for [2, 4, 3, 8] and [2, 2, 5, 8].
const ATTENTION_LENGTHS: [usize; 5] = [192, 160, 160, 192, 24];

#[rstest]
#[case::q_short("q", [191, 160, 160, 192, 24], |_: &mut AttentionShape| {})]
#[case::k_short("k", [192, 159, 160, 192, 24], |_: &mut AttentionShape| {})]
#[case::v_short("v", [192, 160, 159, 192, 24], |_: &mut AttentionShape| {})]
#[case::o_short("o", [192, 160, 160, 191, 24], |_: &mut AttentionShape| {})]
#[case::lse_short("lse", [192, 160, 160, 192, 23], |_: &mut AttentionShape| {})]
#[case::o_overlaps("o", ATTENTION_LENGTHS, |shape: &mut AttentionShape| shape.o.head = 23)]
#[case::more_keys_than_cached("k", ATTENTION_LENGTHS, |shape: &mut AttentionShape| shape.sizes.nk = 6)]
#[case::heads("heads", ATTENTION_LENGTHS, |shape: &mut AttentionShape| shape.sizes.kv_heads = 3)]
#[case::no_kv_heads("heads", ATTENTION_LENGTHS, |shape: &mut AttentionShape| shape.sizes.kv_heads = 0)]
#[case::no_head_dim("q", ATTENTION_LENGTHS, |shape: &mut AttentionShape| shape.sizes.head_dim = 0)]
#[case::huge_nk("nk", ATTENTION_LENGTHS, |shape: &mut AttentionShape| shape.sizes.nk = HUGE)]
#[case::scale("scale", ATTENTION_LENGTHS, |shape: &mut AttentionShape| shape.scale = Some(f32::NAN))]
fn attention_names_what_does_not_fit(
    #[case] name: &str,
    #[case] lengths: [usize; 5],
    #[case] spoil: fn(&mut AttentionShape),
) {
    let device = Device::open();
    let [q, k, v, mut o, mut lse] = lengths.map(|length| device.upload(&vec![7.0; length]));
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        nq: 3,
        nk: 5,
        head_dim: 8,
    };
    let mut shape = AttentionShape::packed(sizes);
    spoil(&mut shape);
    let inputs = AttentionInputs {
        q: q.as_view(),
        k: k.as_view(),
        v: v.as_view(),
        mask: None,
    };
    let outputs = AttentionOutputs {
        o: o.as_view_mut(),
        lse: Some(lse.as_view_mut()),
    };
    let error = device
        .kernels
        .attention(Variant::Tiled, inputs, outputs, &shape)
        .unwrap_err();
    assert_eq!(named(&error), ("attention", name));
    for buffer in [&o, &lse] {
        assert!(
            device
                .stream
                .clone_dtoh(buffer)
                .unwrap()
                .iter()
                .all(|&x| x == 7.0)
        );
    }
}

type Shape = [usize; 4];

#[rstest]
#[case::batch("k", [2, 4, 3, 8], [3, 4, 5, 8], [3, 4, 5, 8], None)]
#[case::head_dimension("k", [2, 4, 3, 8], [2, 4, 5, 7], [2, 4, 5, 7], None)]
#[case::values("v", [2, 4, 3, 8], [2, 4, 5, 8], [2, 4, 6, 8], None)]
#[case::heads("heads", [2, 4, 3, 8], [2, 3, 5, 8], [2, 3, 5, 8], None)]
#[case::mask("mask", [2, 4, 3, 8], [2, 4, 5, 8], [2, 4, 5, 8], Some([2, 4, 5, 3]))]
fn host_arrays_that_do_not_fit_are_named(
    #[case] name: &str,
    #[case] q: Shape,
    #[case] k: Shape,
    #[case] v: Shape,
    #[case] mask: Option<Shape>,
) {
    let device = Device::open();
    let [q, k, v] = [q, k, v].map(Array4::zeros);
    let mut options = Options::default();
    options.mask = mask.map(Array4::zeros);
    let error = device
        .kernels
        .attention_host(Variant::Naive, q.view(), k.view(), v.view(), &options)
        .unwrap_err();
    assert_eq!(named(&error), ("attention", name));
}

#[rstest]
#[case::window(Options::default().window(1, 1), Feature::Window)]
#[case::key_lengths(Options::default().key_lengths([5]), Feature::KeyLengths)]
#[case::blocks(Options::default().blocks(Array4::from_elem((1, 1, 1, 1), true)), Feature::BlockSparse)]
fn what_the_kernels_lack_is_refused(#[case] options: Options, #[case] lacking: Feature) {
    let device = Device::open();
    let x = Array4::zeros((1, 1, 5, 8));
    let error = device
        .kernels
        .attention_host(Variant::Naive, x.view(), x.view(), x.view(), &options)
        .unwrap_err();
    assert!(
        matches!(error, Error::Attention(stage1_reference::Error::Unsupported { feature, .. }) if feature == lacking),
        "{error}"
    );
}
