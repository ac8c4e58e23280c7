//! The simulator's speed: lane-instructions per second of one core on a tiled GEMM.
//!
//! `cargo bench -p cuda-sim` prints it as throughput, in elements: one element is one instruction of one thread.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

/// Rows and columns of the matrices.
const N: usize = 256;

fn tiled_gemm(criterion: &mut Criterion) {
    // The figure is per core.
    // SAFETY: nothing else runs yet.
    unsafe { std::env::set_var("CUDA_SIM_THREADS", "1") };
    cuda_sim::install().expect("the simulated driver");
    let context = CudaContext::new(0).expect("device 0");
    let stream = context.default_stream();
    let module = context
        .load_module(Ptx::from_src(include_str!("../ptx/tiled_gemm.ptx")))
        .expect("valid PTX");
    let kernel = module.load_function("tiled_gemm").expect("the kernel");
    let values: Vec<f32> = (0..N * N).map(|i| (i % 13) as f32 - 6.0).collect();
    let (a, b) = (
        stream.clone_htod(&values).expect("a"),
        stream.clone_htod(&values).expect("b"),
    );
    let mut c = stream.alloc_zeros::<f32>(N * N).expect("c");
    let n = N as i32;
    let shape = LaunchConfig {
        grid_dim: (N as u32 / 16, N as u32 / 16, 1),
        block_dim: (16, 16, 1),
        shared_mem_bytes: 0,
    };
    let mut launch = || {
        // SAFETY: the kernel reads and writes n × n elements, which all three buffers have.
        unsafe {
            stream
                .launch_builder(&kernel)
                .arg(&a)
                .arg(&b)
                .arg(&mut c)
                .arg(&n)
                .launch(shape)
        }
        .expect("no fault");
    };
    launch();
    let stats = cuda_sim::last_launch().expect("a launch has just ended");
    let mut group = criterion.benchmark_group("cuda-sim, one core");
    group.throughput(Throughput::Elements(stats.total.lane_instructions));
    group.bench_function(format!("tiled GEMM {N}"), |bencher| {
        bencher.iter(&mut launch)
    });
    group.finish();
}

criterion_group!(benches, tiled_gemm);
criterion_main!(benches);
