//! Wall time of attention on the CPU: stage 3, forward and backward, and stage 1 beside it.
//!
//! `cargo bench -p stage3-flash-cpu`. The instruction set and the number of threads are part of
//! each benchmark's name. The throughput counts floating-point operations, 4 B H N N D, and half of
//! that under the causal mask: criterion's `Gelem/s` are GFLOP/s. (2.5 times that for the backward
//! pass, which has five products where the forward pass has two.) Stage 3's results at every shape
//! are checked before it is timed, on some rows; stage 1's are not, it has tests of its own. How
//! much memory a call needs beyond its results is printed once per shape, for stage 3.
//! `bench/compare.py` sets the same shapes beside PyTorch.

mod check;

use std::hint::black_box;
use std::time::Duration;

use conformance::inputs::{normal, tensor};
use conformance::memory;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use stage3_flash_cpu::{Options, attention, attention_backward, instruction_set};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

const HEADS: usize = 8;

/// N and D.
fn shapes() -> Vec<(usize, usize)> {
    let long = [64, 128].into_iter();
    let long = long.flat_map(|d| [128, 256, 512, 1024, 2048, 4096].map(|n| (n, d)));
    let odd = [48, 72, 80, 96, 160].map(|d| (2048, d));
    long.chain(odd).collect()
}

fn both_passes(criterion: &mut Criterion) {
    let device = format!(
        "{}_{}_threads",
        instruction_set(),
        rayon::current_num_threads()
    );
    for (n, d) in shapes() {
        let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, HEADS, n, d), seed, normal));
        for (mask, options) in [
            ("full", Options::default()),
            ("causal", Options::default().causal()),
        ] {
            let (q, k, v) = (q.view(), k.view(), v.view());
            let results = size_of::<f32>() * (q.len() + HEADS * n);
            let (extra, output) = memory::extra(results, || attention(q, k, v, &options));
            let output = output.expect("the shapes fit");
            let d_o = output.o.view(); // any will do
            let results = 3 * size_of::<f32>() * q.len();
            let (backward, gradients) = memory::extra(results, || {
                attention_backward(q, k, v, &options, &output, d_o)
            });
            let computed = check::Computed {
                q,
                k,
                v,
                d_o,
                causal: options.causal,
                output: &output,
                gradients: &gradients.expect("the shapes fit"),
            };
            computed.check();
            println!(
                "n{n}_d{d}_{mask}: {} KiB beyond the results, backward {} KiB",
                extra / 1024,
                backward / 1024
            );

            let flops = (4 * HEADS * n * n * d) as u64 / if options.causal { 2 } else { 1 };
            let mut group = criterion.benchmark_group(format!("b1_h{HEADS}_n{n}_d{d}_{mask}"));
            group
                .sample_size(10)
                .warm_up_time(Duration::from_millis(300));
            group.measurement_time(Duration::from_secs(1));
            group.throughput(Throughput::Elements(flops));
            group.bench_function(BenchmarkId::new("stage3", &device), |bencher| {
                bencher.iter(|| black_box(attention(q, k, v, &options)));
            });
            group.bench_function(BenchmarkId::new("stage1", "one_thread"), |bencher| {
                bencher.iter(|| black_box(stage1_reference::attention(q, k, v, &options)));
            });
            group.throughput(Throughput::Elements(flops / 2 * 5));
            group.bench_function(BenchmarkId::new("stage3_backward", &device), |bencher| {
                bencher.iter(|| black_box(attention_backward(q, k, v, &options, &output, d_o)));
            });
        }
    }
}

criterion_group!(benches, both_passes);
criterion_main!(benches);
