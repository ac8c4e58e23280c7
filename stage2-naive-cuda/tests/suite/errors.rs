//! The words of refusals; the suite has all that is refused.

use conformance::device::Device;
use ndarray::Array4;
use stage1_reference::Options;
use stage2_naive_cuda::{
    Axis, Call, Gemm, GemmRung, GemmShape, Kernels, Ladder, Product, ScaleAndMaskShape,
    SoftmaxRung, SoftmaxShape, Steps, Variant,
};

#[test]
fn a_refusal_names_operation_argument_and_limit() {
    let device = Device::open();
    let kernels = Kernels::new(&device.stream).unwrap();
    let [a, b, mut c] = [7.0f32; 3].map(|x| device.upload(&[x]));
    let (a, b) = (|| a.as_view(), || b.as_view());
    let many = GemmShape::nt(1 << 30, 1, 1);
    let nt = kernels.gemm(a(), b(), c.as_view_mut(), &many);
    let two = GemmShape::nn(1, 2, 1);
    let nn = kernels.gemm(a(), b(), c.as_view_mut(), &two);
    let ladder = Ladder {
        stream: device.stream.clone(),
        gemm: GemmRung::Plain,
        softmax: SoftmaxRung::Tree,
    };
    let wide = ladder.run(Call::Gemm {
        a: a(),
        b: b(),
        c: c.as_view_mut(),
        shape: Gemm {
            product: Product::Nn,
            batch: 1,
            m: 0,
            n: 1 << 28,
            k: 0,
        },
    });
    let vectors = SoftmaxShape {
        batch: 1 << 20,
        rows: 1 << 20,
        columns: 0,
        axis: Axis::Last,
    };
    let softmax = kernels.softmax(c.as_view_mut(), None, &vectors);
    let scores = ScaleAndMaskShape {
        batch: 1,
        heads: 1,
        nq: 2,
        nk: 3,
        scale: 1.0,
        causal: false,
    };
    let scale_and_mask = kernels.scale_and_mask(c.as_view_mut(), None, &scores);
    let (q, k) = (Array4::zeros((1, 1, 3, 4)), Array4::zeros((1, 1, 5, 6)));
    let (q, k, options) = (q.view(), k.view(), Options::default());
    let attention = kernels.attention_host(Variant::Tiled, q, k, k, &options);
    let grouped = Array4::zeros((1, 2, 3, 4));
    let grouped = kernels.attention_host(Variant::Naive, grouped.view(), q, q, &options);
    for (result, message) in [
        (nt, "gemm: `m`: expected at most 1073741823, got 1073741824"),
        (nn, "gemm: `b`: expected at least 2 elements, got 1"),
        (wide, "gemm: `grid`: expected at most 65535, got 8388608"),
        (
            softmax,
            "softmax: `grid`: expected at most 2147483647, got 1099511627776",
        ),
        (
            scale_and_mask,
            "scale_and_mask: `scores`: expected at least 6 elements, got 1",
        ),
        (
            attention.map(|_| ()),
            "attention: `k` has shape [1, 1, 5, 6], but needs [1, H_kv, nk, 4] to fit `q`",
        ),
        (
            grouped.map(|_| ()),
            "attention: grouped heads not supported by this implementation",
        ),
    ] {
        assert_eq!(result.unwrap_err().to_string(), message);
    }
}
