//! Wall time of each kernel of stage 2, and of attention at the assignment's shapes (hidden 128, 8
//! heads).
//!
//! `cargo bench -p stage2-naive-cuda`. The device is part of each benchmark's name: on the
//! simulator these are times of the simulator, and say nothing about a GPU. A kernel's result is
//! checked against the oracle before it is timed. What is timed is launches back to back, and one
//! wait at the end.

use std::cell::RefCell;
use std::time::Instant;

use conformance::compare::{Comparison, Tolerance};
use conformance::device::Device;
use conformance::inputs::{normal, tensor};
use conformance::oracle;
use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use cudarc::driver::CudaSlice;
use ndarray::{Array1, Array4, ArrayD, Dimension};
use stage1_reference::{Options, Sizes};
use stage2_naive_cuda::{
    AttentionInputs, AttentionOutputs, AttentionShape, Axis, Call, Error, Gemm, GemmRung, Kernels,
    Ladder, Product, ScaleAndMask, Softmax, SoftmaxRung, SoftmaxShape, Steps, Variant,
};

/// A device, and the kernels on it.
struct Rig {
    device: Device,
    kernels: Kernels,
}

impl Rig {
    fn open() -> Result<Self, Error> {
        let device = Device::open();
        let kernels = Kernels::new(&device.stream)?;
        Ok(Self { device, kernels })
    }

    fn ladder(&self, gemm: GemmRung, softmax: SoftmaxRung) -> Ladder {
        Ladder {
            stream: self.device.stream.clone(),
            gemm,
            softmax,
        }
    }

    fn upload<D: Dimension>(&self, array: &ndarray::Array<f32, D>) -> CudaSlice<f32> {
        self.device.upload(array)
    }

    /// Launches once, stops unless `output` then holds what the oracle says, and times further
    /// launches.
    ///
    /// `length` is that of the sums in an element, for the tolerance.
    fn measure<D: Dimension>(
        &self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: &str,
        output: &mut CudaSlice<f32>,
        (expected, length): (&ndarray::Array<f64, D>, usize),
        launch: impl Fn(&mut CudaSlice<f32>) -> Result<(), Error>,
    ) {
        launch(output).expect("it launches");
        let values = self.device.download(output);
        let expected = expected.view().into_dyn();
        let actual = ArrayD::from_shape_vec(expected.shape(), values)
            .expect("as many elements as the oracle has");
        let tolerance =
            Tolerance::of_sum(f32::EPSILON.into(), length).floor((length as f64).sqrt());
        let comparison = Comparison::new("result", actual.view(), expected, tolerance);
        assert!(
            comparison.passed(),
            "{name} is not timed, because it is wrong: {comparison}"
        );

        group.bench_function(BenchmarkId::new(name, &self.device.name), |bencher| {
            bencher.iter_custom(|iterations| {
                let start = Instant::now();
                for _ in 0..iterations {
                    launch(output).expect("it was launched before");
                }
                self.device.stream.synchronize().expect("the kernels ran");
                start.elapsed()
            });
        });
    }
}

fn gemm(criterion: &mut Criterion, device: &Rig) {
    let (m, n, k) = (256, 256, 256);
    let a = tensor((1, 1, m, k), 61, normal);
    let b = tensor((1, 1, k, n), 62, normal);
    let b_transposed = b
        .view()
        .permuted_axes([0, 1, 3, 2])
        .as_standard_layout()
        .into_owned();
    let expected = oracle::gemm(&a, &b);
    let (a, b, b_transposed) = (
        device.upload(&a),
        device.upload(&b),
        device.upload(&b_transposed),
    );
    let mut c = device
        .device
        .stream
        .alloc_zeros::<f32>(m * n)
        .expect("256 KiB of device memory");

    let mut group = criterion.benchmark_group("gemm_m256_n256_k256");
    group.throughput(Throughput::Elements((m * n * k) as u64)); // multiply-adds
    for rung in GemmRung::ALL {
        let ladder = device.ladder(rung, SoftmaxRung::Tree);
        for (product, b) in [(Product::Nt, &b_transposed), (Product::Nn, &b)] {
            let name = format!("{product:?}_{rung}");
            device.measure(&mut group, &name, &mut c, (&expected, k), |c| {
                ladder.run(Call::Gemm {
                    a: a.as_view(),
                    b: b.as_view(),
                    c: c.as_view_mut(),
                    shape: Gemm {
                        product,
                        batch: 1,
                        m,
                        n,
                        k,
                    },
                })
            });
        }
    }
}

fn softmax(criterion: &mut Criterion, device: &Rig) {
    let (batch, vectors, length) = (4, 64, 1000);
    let x = tensor((batch, vectors, length), 63, normal);
    let (y, _) = oracle::softmax(&x);
    let mut group = criterion.benchmark_group("softmax_b4_64_vectors_of_1000");
    group.throughput(Throughput::Bytes((2 * x.len() * size_of::<f32>()) as u64)); // read once, written once
    // In place: all launches but the first get the softmax of a softmax, which is other numbers,
    // but the same work.
    let lse = RefCell::new(device.upload(&Array1::zeros(batch * vectors)));
    for rung in SoftmaxRung::ALL {
        let ladder = device.ladder(GemmRung::Plain, rung);
        let name = rung.to_string();
        let mut x = device.upload(&x);
        device.measure(&mut group, &name, &mut x, (&y, 1), |x| {
            ladder.run(Call::Softmax {
                x: x.as_view_mut(),
                lse: lse.borrow_mut().as_view_mut(),
                shape: Softmax {
                    rows: batch * vectors,
                    columns: length,
                },
            })
        });
    }
    let x = x.permuted_axes([0, 2, 1]).as_standard_layout().into_owned();
    let y = y.permuted_axes([0, 2, 1]);
    let by_column = SoftmaxShape {
        batch,
        rows: length,
        columns: vectors,
        axis: Axis::NextToLast,
    };
    device.measure(
        &mut group,
        "library_over_rows",
        &mut device.upload(&x),
        (&y, 1),
        |x| device.kernels.softmax(x.as_view_mut(), None, &by_column),
    );
}

fn scale_and_mask(criterion: &mut Criterion, device: &Rig) {
    let shape = ScaleAndMask {
        batch: 32,
        nq: 100,
        nk: 100,
        scale: 1.0,
        causal: true,
    };
    let ladder = device.ladder(GemmRung::Plain, SoftmaxRung::Tree);
    let scores = tensor((4, 8, 100, 100), 64, normal);
    let expected = Array4::from_shape_fn(scores.dim(), |(b, h, i, j)| {
        if j > i {
            f64::NEG_INFINITY
        } else {
            f64::from(scores[[b, h, i, j]])
        }
    });
    let mut group = criterion.benchmark_group("scale_and_mask_b4_h8_n100");
    group.throughput(Throughput::Bytes(
        (2 * scores.len() * size_of::<f32>()) as u64,
    ));
    device.measure(
        &mut group,
        "causal",
        &mut device.upload(&scores),
        (&expected, 1),
        |scores| {
            ladder.run(Call::ScaleAndMask {
                scores: scores.as_view_mut(),
                shape,
            })
        },
    );
}

fn attention(criterion: &mut Criterion, device: &Rig) {
    for (batch, n, d, causal) in [(4, 10, 16, true), (16, 100, 16, true), (1, 512, 64, false)] {
        let sizes = Sizes {
            batch,
            heads: 8,
            kv_heads: 8,
            nq: n,
            nk: n,
            head_dim: d,
        };
        let [q, k, v] = [65, 66, 67].map(|seed| tensor((batch, 8, n, d), seed, normal));
        let options = if causal {
            Options::default().causal()
        } else {
            Options::default()
        };
        let (expected, _) = oracle::attention(&q, &k, &v, &options);
        let [q, k, v] = [&q, &k, &v].map(|x| device.upload(x));
        let mut o = device
            .device
            .stream
            .alloc_zeros::<f32>(q.len())
            .expect("device memory");
        let shape = AttentionShape {
            causal,
            ..AttentionShape::packed(sizes)
        };
        let mut group = criterion.benchmark_group(format!(
            "attention_b{batch}_h8_n{n}_d{d}{}",
            if causal { "_causal" } else { "" }
        ));
        group.sample_size(if n > 100 { 10 } else { 100 });
        for (name, variant) in [("naive", Variant::Naive), ("tiled", Variant::Tiled)] {
            device.measure(&mut group, name, &mut o, (&expected, n + d), |o| {
                let inputs = AttentionInputs {
                    q: q.as_view(),
                    k: k.as_view(),
                    v: v.as_view(),
                    mask: None,
                };
                let outputs = AttentionOutputs {
                    o: o.as_view_mut(),
                    lse: None,
                };
                device.kernels.attention(variant, inputs, outputs, &shape)
            });
        }
    }
}

fn all(criterion: &mut Criterion) {
    let device = Rig::open().expect("a device, real or simulated");
    gemm(criterion, &device);
    softmax(criterion, &device);
    scale_and_mask(criterion, &device);
    attention(criterion, &device);
}

criterion_group!(benches, all);
criterion_main!(benches);
