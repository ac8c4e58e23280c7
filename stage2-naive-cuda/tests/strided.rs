//! Attention on tensors that are not packed, as a text generator has them.

mod support;

use conformance::compare::{Comparison, Tolerance};
use conformance::inputs::{normal, tensor};
use conformance::oracle;
use ndarray::{Array4, s};
use rstest::rstest;
use stage1_reference::{Options, Sizes};
use stage2_naive_cuda::{AttentionInputs, AttentionOutputs, AttentionShape, Strides, Variant};
use support::Device;

/// `q` and `o` are `[B, N, H, D]`; keys and values are the first rows of caches `[B, H_kv, capacity, D]`, whose other
/// rows are NaN. Nothing but the rows of `o` is written.
#[rstest]
#[case::prefill(5, 5)]
#[case::decode(1, 5)]
#[case::second_prompt(3, 12)]
fn attends_within_caches(
    #[case] nq: usize,
    #[case] nk: usize,
    #[values(Variant::Naive, Variant::Tiled)] variant: Variant,
) {
    let device = Device::open();
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        nq,
        nk,
        head_dim: 24,
    };
    let Sizes {
        batch,
        heads,
        kv_heads,
        head_dim,
        ..
    } = sizes;
    let capacity = 40;
    let q = tensor([batch, nq, heads, head_dim], 51, normal);
    let cache = |seed| {
        let mut cache = tensor([batch, kv_heads, capacity, head_dim], seed, normal);
        cache.slice_mut(s![.., .., nk.., ..]).fill(f32::NAN);
        cache
    };
    let (k, v) = (cache(52), cache(53));
    // Two rows more than needed: they must keep their values.
    let mut o = Array4::from_elem([batch, nq + 2, heads, head_dim], 7.0);

    let device_q = device.upload(&q);
    let (device_k, device_v) = (device.upload(&k), device.upload(&v));
    let mut device_o = device.upload(&o);
    let width = heads * head_dim;
    let cached = Strides {
        batch: kv_heads * capacity * head_dim,
        head: capacity * head_dim,
        row: head_dim,
    };
    let shape = AttentionShape {
        causal: true,
        q: Strides {
            batch: nq * width,
            head: head_dim,
            row: width,
        },
        k: cached,
        v: cached,
        o: Strides {
            batch: (nq + 2) * width,
            head: head_dim,
            row: width,
        },
        ..AttentionShape::packed(sizes)
    };
    let inputs = AttentionInputs {
        q: device_q.as_view(),
        k: device_k.as_view(),
        v: device_v.as_view(),
        mask: None,
    };
    let outputs = AttentionOutputs {
        o: device_o.as_view_mut(),
        lse: None,
    };
    device
        .kernels
        .attention(variant, inputs, outputs, &shape)
        .unwrap();
    device.download(&device_o, &mut o).unwrap();

    let q = q
        .permuted_axes([0, 2, 1, 3])
        .as_standard_layout()
        .into_owned();
    let first = |cache: Array4<f32>| cache.slice(s![.., .., ..nk, ..]).to_owned();
    let (expected, _) = oracle::attention(&q, &first(k), &first(v), &Options::default().causal());
    let o = o.permuted_axes([0, 2, 1, 3]);
    let tolerance = Tolerance::of_sum(f32::EPSILON.into(), nk + head_dim).floor(1.0);
    let comparison = Comparison::new(
        "o",
        o.slice(s![.., .., ..nq, ..]),
        expected.view(),
        tolerance,
    );
    assert!(comparison.passed(), "{}: {comparison}", device.name);
    assert!(o.slice(s![.., .., nq.., ..]).iter().all(|&x| x == 7.0));
}
