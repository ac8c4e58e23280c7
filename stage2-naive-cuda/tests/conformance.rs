//! Every kernel, and both variants of attention, through the tables of stage 1.

mod support;

use conformance::problems::gemm::Product;
use conformance::{Implementation, Report};
use stage2_naive_cuda::{
    Additive, AttentionInputs, AttentionOutputs, AttentionShape, Axis, Error, Gemm, LACKS, Softmax,
    Strides, Variant,
};
use support::Device;

#[test]
fn softmax() -> Result<(), Report> {
    let device = Device::open();
    let who = Implementation {
        name: "stage 2 softmax",
        device: &device.name,
        lacks: &LACKS,
    };
    let report = conformance::run(
        &who,
        conformance::problems::softmax::problems(),
        |problem, output| {
            let mut x = device.upload(&problem.x);
            let mut lse = device.upload(&output.lse);
            let (batch, rows, columns) = problem.x.dim();
            let axis = match problem.axis {
                conformance::problems::softmax::Axis::Last => Axis::Last,
                conformance::problems::softmax::Axis::NextToLast => Axis::NextToLast,
            };
            let shape = Softmax {
                batch,
                rows,
                columns,
                axis,
            };
            device
                .kernels
                .softmax(x.as_view_mut(), Some(lse.as_view_mut()), &shape)?;
            device.download(&x, &mut output.y)?;
            device.download(&lse, &mut output.lse)
        },
    );
    report.into_result()
}

#[test]
fn gemm_nt_naive() -> Result<(), Report> {
    judge_gemm("stage 2 GEMM_NT, naive", Product::Nt, Variant::Naive)
}

#[test]
fn gemm_nt_tiled() -> Result<(), Report> {
    judge_gemm("stage 2 GEMM_NT, tiled", Product::Nt, Variant::Tiled)
}

#[test]
fn gemm_nn_naive() -> Result<(), Report> {
    judge_gemm("stage 2 GEMM_NN, naive", Product::Nn, Variant::Naive)
}

#[test]
fn gemm_nn_tiled() -> Result<(), Report> {
    judge_gemm("stage 2 GEMM_NN, tiled", Product::Nn, Variant::Tiled)
}

fn judge_gemm(name: &str, product: Product, variant: Variant) -> Result<(), Report> {
    let device = Device::open();
    let who = Implementation {
        name,
        device: &device.name,
        lacks: &LACKS,
    };
    let report = conformance::run(
        &who,
        conformance::problems::gemm::problems(product),
        |problem, output| {
            let (a, b) = (device.upload(&problem.a), device.upload(&problem.b));
            let mut c = device.upload(&*output);
            let (batch, heads, m, k) = problem.a.dim();
            let (_, b_heads, b_rows, b_columns) = problem.b.dim();
            let n = output.dim().3;
            let shape = Gemm {
                batch,
                heads,
                b_heads,
                a: Strides::packed(heads, m, k),
                b: Strides::packed(b_heads, b_rows, b_columns),
                c: Strides::packed(heads, m, n),
                ..Gemm::nn(m, n, k)
            };
            let (a, b) = (a.as_view(), b.as_view());
            match product {
                Product::Nt => device
                    .kernels
                    .gemm_nt(variant, a, b, c.as_view_mut(), &shape)?,
                Product::Nn => device
                    .kernels
                    .gemm_nn(variant, a, b, c.as_view_mut(), &shape)?,
            }
            device.download(&c, output)
        },
    );
    report.into_result()
}

#[test]
fn attention_naive() -> Result<(), Report> {
    judge_attention("stage 2 attention, naive", Variant::Naive)
}

#[test]
fn attention_tiled() -> Result<(), Report> {
    judge_attention("stage 2 attention, tiled", Variant::Tiled)
}

fn judge_attention(name: &str, variant: Variant) -> Result<(), Report> {
    let device = Device::open();
    let who = Implementation {
        name,
        device: &device.name,
        lacks: &LACKS,
    };
    let report =
        conformance::run(
            &who,
            conformance::problems::attention::problems(),
            |problem, output| {
                let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| device.upload(x));
                let mask = problem
                    .options
                    .mask
                    .as_ref()
                    .map(|mask| device.upload(mask));
                let (mut o, mut lse) = (device.upload(&output.o), device.upload(&output.lse));
                let inputs =
                    AttentionInputs {
                        q: q.as_view(),
                        k: k.as_view(),
                        v: v.as_view(),
                        mask: problem.options.mask.as_ref().zip(mask.as_ref()).map(
                            |(host, mask)| {
                                let (batch, heads, nq, nk) = host.dim();
                                let packed = Strides::packed(heads, nq, nk);
                                let strides = Strides {
                                    batch: if batch == 1 { 0 } else { packed.batch },
                                    head: if heads == 1 { 0 } else { packed.head },
                                    ..packed
                                };
                                Additive {
                                    values: mask.as_view(),
                                    strides,
                                }
                            },
                        ),
                    };
                let outputs = AttentionOutputs {
                    o: o.as_view_mut(),
                    lse: Some(lse.as_view_mut()),
                };
                let shape = AttentionShape {
                    scale: problem.options.scale,
                    causal: problem.options.causal,
                    ..AttentionShape::packed(problem.sizes())
                };
                device.kernels.attention(variant, inputs, outputs, &shape)?;
                device.download(&o, &mut output.o)?;
                device.download(&lse, &mut output.lse)
            },
        );
    report.into_result()
}

#[test]
fn attention_from_host_arrays() -> Result<(), Report> {
    let device = Device::open();
    let who = Implementation {
        name: "stage 2 attention, host arrays",
        device: &device.name,
        lacks: &LACKS,
    };
    // The large ones are above; here it is the copying, the broadcasting and the empty cases.
    let problems = conformance::problems::attention::problems()
        .into_iter()
        .filter(|problem| problem.q.len() <= 10_000);
    let report = conformance::run(&who, problems, |problem, output| {
        // Head and sequence swapped in memory: views that are not contiguous.
        let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| {
            let swapped = x
                .view()
                .permuted_axes([0, 2, 1, 3])
                .as_standard_layout()
                .into_owned();
            swapped.permuted_axes([0, 2, 1, 3])
        });
        let (q, k, v) = (q.view(), k.view(), v.view());
        *output = device
            .kernels
            .attention_host(Variant::Naive, q, k, v, &problem.options)?;
        Ok::<_, Error>(())
    });
    report.into_result()
}
