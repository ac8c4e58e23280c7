//! The simulator's speed: lane-instructions per second of one core, with all checks and without.
//!
//! `cargo bench -p cuda-sim` prints it as throughput, in elements: one element is one instruction of one thread. Time
//! is that of the processor, not of the clock on the wall, so that other programs do not count.

use std::sync::Arc;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

/// Rows and columns of the matrices.
const N: usize = 256;
/// Columns of the matrix whose rows are normalised.
const COLUMNS: usize = 1024;

/// Time that this thread spent computing.
struct ThreadTime(WallTime);

impl Measurement for ThreadTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `now` is a `timespec` to write to.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        self.0.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self.0.formatter()
    }
}

struct Gpu {
    stream: Arc<CudaStream>,
    a: CudaSlice<f32>,
    b: CudaSlice<f32>,
    c: CudaSlice<f32>,
}

impl Gpu {
    fn open() -> Gpu {
        // The figure is per core.
        // SAFETY: nothing else runs yet.
        unsafe { std::env::set_var("CUDA_SIM_THREADS", "1") };
        cuda_sim::install().expect("the simulated driver");
        let context = CudaContext::new(0).expect("device 0");
        let stream = context.default_stream();
        let values: Vec<f32> = (0..N * N).map(|i| (i % 13) as f32 - 6.0).collect();
        let a = stream.clone_htod(&values).expect("a");
        let b = stream.clone_htod(&values).expect("b");
        let c = stream.alloc_zeros::<f32>(N * N).expect("c");
        Gpu { stream, a, b, c }
    }

    fn kernel(&self, name: &str, ptx: &str) -> CudaFunction {
        let module = self.stream.context().load_module(Ptx::from_src(ptx));
        let kernel = module.expect("valid PTX").load_function(name);
        kernel.expect("the kernel")
    }

    fn tiled_gemm(&mut self, kernel: &CudaFunction) {
        let n = N as i32;
        let shape = LaunchConfig {
            grid_dim: (N as u32 / 16, N as u32 / 16, 1),
            block_dim: (16, 16, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(&self.a).arg(&self.b).arg(&mut self.c).arg(&n);
        // SAFETY: the kernel reads and writes n × n elements, which all three buffers have.
        unsafe { launch.launch(shape) }.expect("no fault");
    }

    fn row_softmax(&mut self, kernel: &CudaFunction) {
        let n = COLUMNS as i32;
        let shape = LaunchConfig {
            grid_dim: ((N * N / COLUMNS) as u32, 1, 1),
            block_dim: (128, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(&self.a).arg(&mut self.c).arg(&n);
        // SAFETY: the kernel reads and writes rows of n elements, N · N elements in all.
        unsafe { launch.launch(shape) }.expect("no fault");
    }
}

fn speed(criterion: &mut Criterion<ThreadTime>) {
    let mut gpu = Gpu::open();
    type Launch = fn(&mut Gpu, &CudaFunction);
    let gemm = include_str!("../ptx/tiled_gemm.ptx");
    let softmax = include_str!("../ptx/row_softmax.ptx");
    let kernels: [(&str, usize, &str, Launch); 2] = [
        ("tiled_gemm", N, gemm, Gpu::tiled_gemm),
        ("row_softmax", COLUMNS, softmax, Gpu::row_softmax),
    ];
    for (name, n, ptx, launch) in kernels {
        let kernel = gpu.kernel(name, ptx);
        launch(&mut gpu, &kernel);
        let profile = cuda_sim::last_launch().expect("a launch has just ended");
        let mut group = criterion.benchmark_group(format!("{name} {n}, one core"));
        group.throughput(Throughput::Elements(profile.total.lane_instructions));
        for (checks, on) in [("all checks", true), ("bounds only", false)] {
            cuda_sim::set_checks(Some(on));
            group.bench_function(checks, |bencher| bencher.iter(|| launch(&mut gpu, &kernel)));
        }
        group.finish();
    }
}

fn thread_time() -> Criterion<ThreadTime> {
    Criterion::default().with_measurement(ThreadTime(WallTime))
}

criterion_group!(name = benches; config = thread_time(); targets = speed);
criterion_main!(benches);
