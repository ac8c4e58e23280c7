//! The simulator's speed on one core, beside native loops that do the same work.
//!
//! `cargo bench -p cuda-sim` prints two tables. Speed is in instructions of one thread per second,
//! and in multiply-adds of matrix products per second. The speed of a machine cancels out of the
//! last column: the time of the simulated kernel over that of a loop in Rust with the same
//! arithmetic and memory traffic. Times are processor time of this thread, so that other programs
//! do not count, and medians over rounds in which the native loop and the kernel in each of its two
//! ways alternate.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use cuda_sim::{Counters, MmaMode};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

mod fragments;
mod native;

/// Rows and columns of the matrices.
const N: usize = 256;
/// Columns of the matrix whose rows are normalised.
const COLUMNS: usize = 1024;
/// Blocks of matrix products, of a warp each, and how often a block adds its products.
const WARPS: usize = 16;
const TIMES: usize = 128;
/// Rounds; a launch and a native loop before them warm up.
const ROUNDS: usize = 101;
/// Number of times that a product of two elements is added in f16: sums stay below 2048, so that
/// they are exact.
const HALF_TIMES: usize = 32;

fn main() {
    let mut gpu = Gpu::open();
    let checks: [(&str, fn()); 2] = [
        ("all", || cuda_sim::set_checks(Some(true))),
        ("bounds only", || cuda_sim::set_checks(Some(false))),
    ];
    let gemm = Case {
        label: "tiled GEMM, 256 × 256",
        kernel: gpu.kernel("tiled_gemm", include_str!("../../ptx/tiled_gemm.ptx")),
        launch: Gpu::tiled_gemm,
        native: |data| native::tiled_gemm(&data.a, &data.b, &mut data.c, N),
        result: Gpu::matrix,
        ways: checks,
        work: |counters| counters.lane_instructions,
    };
    let softmax = Case {
        label: "row softmax, 64 × 1024",
        kernel: gpu.kernel("row_softmax", include_str!("../../ptx/row_softmax.ptx")),
        launch: Gpu::row_softmax,
        native: |data| native::row_softmax(&data.a, &mut data.c, COLUMNS),
        ..gemm.clone()
    };
    let products = Case {
        label: "mma.sync m16n8k16, f16",
        kernel: gpu.kernel(
            "matrix_products",
            include_str!("../../ptx/matrix_products.ptx"),
        ),
        launch: Gpu::matrix_products,
        native: |data| native::matrix_products(&data.a, &data.b, &mut data.c, WARPS, TIMES),
        result: Gpu::products,
        ways: [
            ("exact", || cuda_sim::set_mma(Some(MmaMode::Exact))),
            ("fast", || cuda_sim::set_mma(Some(MmaMode::Fast))),
        ],
        work: |counters| counters.flops_tensor / 2,
    };
    let half = Case {
        label: "fma.rn.f16x2",
        kernel: gpu.kernel("half_fma", include_str!("../../ptx/half_fma.ptx")),
        launch: Gpu::half_fma,
        native: |data| native::half_fma(&data.a, &data.b, &mut data.c, HALF_TIMES),
        work: |counters| counters.flops_half / 2,
        ..gemm.clone()
    };
    println!(
        "| kernel | checks | 10⁹ instructions/s | simulated, ms | native, ms | simulated / native |"
    );
    println!("|---|---|---|---|---|---|");
    gemm.measure(&mut gpu);
    softmax.measure(&mut gpu);
    println!(
        "\n| product | mode, or checks | 10⁹ multiply-adds/s | simulated, ms | native, ms | simulated / native |"
    );
    println!("|---|---|---|---|---|---|");
    products.measure(&mut gpu);
    half.measure(&mut gpu);
}

/// A kernel and the loop that it is compared with.
#[derive(Clone)]
struct Case {
    label: &'static str,
    kernel: CudaFunction,
    launch: fn(&mut Gpu, &CudaFunction),
    native: fn(&mut Data),
    /// Results of the kernel, in the order of the native loop.
    result: fn(&Gpu) -> Vec<f32>,
    /// Name of a mode, and the settings for it.
    ways: [(&'static str, fn()); 2],
    /// The work of a launch, whose speed is printed.
    work: fn(&Counters) -> u64,
}

impl Case {
    /// Prints the case's rows of the table.
    fn measure(&self, gpu: &mut Gpu) {
        let mut data = Data::new();
        (self.native)(&mut data);
        (self.launch)(gpu, &self.kernel);
        let launch = cuda_sim::last_launch().expect("a launch has just ended");
        let work = (self.work)(&launch.total);
        for (_, set) in self.ways {
            set();
            (self.launch)(gpu, &self.kernel);
            assert_result(&(self.result)(gpu), &data.c);
        }

        let mut native = Vec::with_capacity(ROUNDS);
        let mut simulated = [Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS)];
        for _ in 0..ROUNDS {
            native.push(seconds(|| (self.native)(black_box(&mut data))));
            for (times, (_, set)) in simulated.iter_mut().zip(self.ways) {
                set();
                times.push(seconds(|| (self.launch)(gpu, &self.kernel)));
            }
        }
        let native = median(native);
        for (times, (way, _)) in simulated.into_iter().zip(self.ways) {
            let simulated = median(times);
            println!(
                "| {} | {way} | {:.2} | {:.2} | {:.2} | {:.1} × |",
                self.label,
                work as f64 * 1e-9 / simulated,
                simulated * 1e3,
                native * 1e3,
                simulated / native,
            );
        }
        cuda_sim::set_checks(None);
    }
}

/// Processor time of this thread that `work` takes.
fn seconds(work: impl FnOnce()) -> f64 {
    let start = thread_time();
    work();
    (thread_time() - start).as_secs_f64()
}

fn thread_time() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a `timespec` to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Matrices in memory of the host.
struct Data {
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Data {
    fn new() -> Data {
        let a: Vec<f32> = (0..N * N).map(|i| (i % 13) as f32 - 6.0).collect();
        let b = a.clone();
        let c = vec![0.0; N * N];
        Data { a, b, c }
    }
}

/// The same matrices on the device.
struct Gpu {
    stream: Arc<CudaStream>,
    a: CudaSlice<f32>,
    b: CudaSlice<f32>,
    c: CudaSlice<f32>,
    /// Fragments of the first rows of `a`, and of the first columns of `b`, in f16.
    left: CudaSlice<u32>,
    right: CudaSlice<u32>,
    /// `a` and `b` in f16.
    a_half: CudaSlice<u32>,
    b_half: CudaSlice<u32>,
}

impl Gpu {
    fn open() -> Gpu {
        // The figure is per core.
        // SAFETY: nothing else runs yet.
        unsafe { std::env::set_var("CUDA_SIM_THREADS", "1") };
        cuda_sim::install().expect("the simulated driver");
        let context = CudaContext::new(0).expect("device 0");
        let stream = context.default_stream();
        let data = Data::new();
        let a = stream.clone_htod(&data.a).expect("a");
        let b = stream.clone_htod(&data.b).expect("b");
        let c = stream.clone_htod(&data.c).expect("c");
        let left = stream.clone_htod(&fragments::left(&data.a)).expect("left");
        let right = stream
            .clone_htod(&fragments::right(&data.b))
            .expect("right");
        let half = |numbers| stream.clone_htod(&fragments::pairs(numbers)).expect("f16");
        let (a_half, b_half) = (half(&data.a), half(&data.b));
        Gpu {
            stream,
            a,
            b,
            c,
            left,
            right,
            a_half,
            b_half,
        }
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

    fn matrix_products(&mut self, kernel: &CudaFunction) {
        let times = TIMES as i32;
        let shape = LaunchConfig {
            grid_dim: (WARPS as u32, 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(&self.left).arg(&self.right);
        launch.arg(&mut self.c).arg(&times);
        // SAFETY: the kernel reads all fragments, and writes 1024 elements for each block, which
        // `c` has.
        unsafe { launch.launch(shape) }.expect("no fault");
    }

    fn half_fma(&mut self, kernel: &CudaFunction) {
        let times = HALF_TIMES as i32;
        let shape = LaunchConfig {
            grid_dim: ((N * N / 8 / 128) as u32, 1, 1),
            block_dim: (128, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(&self.a_half).arg(&self.b_half);
        launch.arg(&mut self.c).arg(&times);
        // SAFETY: each of N · N / 8 threads reads 8 elements of both, and writes 8 of `c`.
        unsafe { launch.launch(shape) }.expect("no fault");
    }

    fn matrix(&self) -> Vec<f32> {
        self.stream.clone_dtoh(&self.c).expect("c")
    }

    fn products(&self) -> Vec<f32> {
        fragments::sums(&self.matrix()[..WARPS * 1024])
    }
}

/// Asserts that the kernel and the native loop computed the same.
fn assert_result(simulated: &[f32], native: &[f32]) {
    for (i, (found, expected)) in simulated.iter().zip(native).enumerate() {
        let error = (found - expected).abs();
        assert!(
            error <= 1e-5 * expected.abs(),
            "element {i}: {found}, and {expected} by the native loop"
        );
    }
}
