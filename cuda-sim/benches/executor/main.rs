//! The simulator's speed on one core, beside native loops that do the same work.
//!
//! `cargo bench -p cuda-sim` prints one table. Speed is in instructions of one thread per second. The speed of a machine
//! cancels out of the last column: the time of the simulated kernel over that of a loop in Rust with the same arithmetic
//! and memory traffic. Times are processor time of this thread, so that other programs do not count, and medians over
//! rounds in which the native loop, the kernel with all checks and the kernel without alternate.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

mod native;

/// Rows and columns of the matrices.
const N: usize = 256;
/// Columns of the matrix whose rows are normalised.
const COLUMNS: usize = 1024;
/// Rounds; a launch and a native loop before them warm up.
const ROUNDS: usize = 101;

fn main() {
    let mut gpu = Gpu::open();
    let gemm = Case {
        label: "tiled GEMM, 256 × 256",
        kernel: gpu.kernel("tiled_gemm", include_str!("../../ptx/tiled_gemm.ptx")),
        launch: Gpu::tiled_gemm,
        native: |data| native::tiled_gemm(&data.a, &data.b, &mut data.c, N),
    };
    let softmax = Case {
        label: "row softmax, 64 × 1024",
        kernel: gpu.kernel("row_softmax", include_str!("../../ptx/row_softmax.ptx")),
        launch: Gpu::row_softmax,
        native: |data| native::row_softmax(&data.a, &mut data.c, COLUMNS),
    };
    println!(
        "| kernel | checks | 10⁹ instructions/s | simulated, ms | native, ms | simulated / native |"
    );
    println!("|---|---|---|---|---|---|");
    for case in [gemm, softmax] {
        case.measure(&mut gpu);
    }
}

/// A kernel and the loop that it is compared with.
struct Case {
    label: &'static str,
    kernel: CudaFunction,
    launch: fn(&mut Gpu, &CudaFunction),
    native: fn(&mut Data),
}

impl Case {
    /// Prints the case's rows of the table.
    fn measure(&self, gpu: &mut Gpu) {
        let mut data = Data::new();
        (self.native)(&mut data);
        (self.launch)(gpu, &self.kernel);
        let instructions = cuda_sim::last_launch()
            .expect("a launch has just ended")
            .total
            .lane_instructions;
        gpu.assert_result(&data.c);

        let mut native = Vec::with_capacity(ROUNDS);
        let mut simulated = [Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS)];
        for _ in 0..ROUNDS {
            native.push(seconds(|| (self.native)(black_box(&mut data))));
            for (times, checks) in simulated.iter_mut().zip([true, false]) {
                cuda_sim::set_checks(Some(checks));
                times.push(seconds(|| (self.launch)(gpu, &self.kernel)));
            }
        }
        let native = median(native);
        for (times, checks) in simulated.into_iter().zip(["all", "bounds only"]) {
            let simulated = median(times);
            println!(
                "| {} | {checks} | {:.2} | {:.2} | {:.2} | {:.1} × |",
                self.label,
                instructions as f64 * 1e-9 / simulated,
                simulated * 1e3,
                native * 1e3,
                simulated / native,
            );
        }
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

    /// Asserts that the kernel and the native loop computed the same.
    fn assert_result(&self, native: &[f32]) {
        let simulated = self.stream.clone_dtoh(&self.c).expect("c");
        for (i, (found, expected)) in simulated.iter().zip(native).enumerate() {
            let error = (found - expected).abs();
            assert!(
                error <= 1e-5 * expected.abs(),
                "element {i}: {found}, and {expected} by the native loop"
            );
        }
    }
}
