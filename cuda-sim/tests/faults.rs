//! Each kind of mistake gives its own fault at the line where it is, and the next launch works.

use std::sync::Arc;

use cuda_sim::{Fault, FaultKind};
use cudarc::driver::sys::CUresult;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

const SOURCE: &str = include_str!("../kernels/faults.cu");

struct Kernels {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
}

impl Kernels {
    fn new() -> Kernels {
        cuda_sim::install().unwrap();
        let context = CudaContext::new(0).unwrap();
        let stream = context.default_stream();
        Kernels { context, stream }
    }

    fn kernel(&self, name: &str) -> CudaFunction {
        let module = self
            .context
            .load_module(Ptx::from_src(include_str!("../ptx/faults.ptx")))
            .unwrap();
        module.load_function(name).unwrap()
    }

    /// The fault behind `error`, after a check that it is `code`, stands at `line` and that a correct launch works.
    fn fault(&self, error: DriverError, code: CUresult, kernel: &str, line: &str) -> Fault {
        assert_eq!(error.0, code);
        let shown = error.to_string();
        let fault = cuda_sim::take_fault().expect("a fault was reported");
        assert_eq!(fault.kernel, kernel);
        let number = 1 + SOURCE.lines().position(|l| l.contains(line)).unwrap() as u32;
        assert_eq!(
            fault.source,
            Some(("cuda-sim/kernels/faults.cu".to_string(), number))
        );
        assert!(
            shown.contains(&format!("faults.cu:{number}")),
            "cudarc's error shows the report: {shown}"
        );
        self.correct_launch();
        fault
    }

    fn correct_launch(&self) {
        let kernel = self.kernel("reads_first");
        let input = self.stream.clone_htod(&[2.5f32]).unwrap();
        let mut out = self.stream.alloc_zeros::<f32>(32).unwrap();
        let mut launch = self.stream.launch_builder(&kernel);
        launch.arg(&input).arg(&mut out);
        // SAFETY: one element is read, 32 are written.
        unsafe { launch.launch(ONE_WARP) }.unwrap();
        assert_eq!(self.stream.clone_dtoh(&out).unwrap(), [2.5; 32]);
    }
}

const ONE_WARP: LaunchConfig = LaunchConfig {
    grid_dim: (1, 1, 1),
    block_dim: (32, 1, 1),
    shared_mem_bytes: 0,
};

#[test]
fn out_of_bounds_store() {
    let kernels = Kernels::new();
    let kernel = kernels.kernel("out_of_bounds_store");
    let mut out = kernels.stream.alloc_zeros::<f32>(40).unwrap();
    let mut launch = kernels.stream.launch_builder(&kernel);
    launch.arg(&mut out).arg(&40i32);
    // SAFETY: the simulator catches the store behind the end; that is the test.
    let error = unsafe { launch.launch(ONE_WARP) }.unwrap_err();
    let fault = kernels.fault(
        error,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        "out_of_bounds_store",
        "out[i] = 1.0f",
    );
    assert_eq!(fault.thread, [31, 0, 0]);
    let FaultKind::OutOfBounds(access) = &fault.kind else {
        panic!("{fault}")
    };
    let near = access.nearest.as_ref().unwrap();
    assert!(access.write && access.bytes == 4 && access.space == "global");
    assert_eq!((near.bytes, access.address - near.start), (160, 160));
    assert!(
        fault
            .to_string()
            .contains("0 bytes past the end of allocation"),
        "{fault}"
    );
}

#[test]
fn misaligned_load() {
    let kernels = Kernels::new();
    let kernel = kernels.kernel("misaligned_load");
    let input = kernels.stream.alloc_zeros::<f32>(8).unwrap();
    let mut out = kernels.stream.alloc_zeros::<f32>(32).unwrap();
    let mut launch = kernels.stream.launch_builder(&kernel);
    launch.arg(&input).arg(&mut out);
    // SAFETY: the access is in bounds; the simulator catches its alignment.
    let error = unsafe { launch.launch(ONE_WARP) }.unwrap_err();
    let fault = kernels.fault(
        error,
        CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        "misaligned_load",
        "reinterpret_cast",
    );
    let FaultKind::Misaligned(access) = &fault.kind else {
        panic!("{fault}")
    };
    assert!(
        !access.write && access.bytes == 16 && access.address % 16 == 4,
        "{fault}"
    );
}

#[test]
fn use_after_free() {
    let kernels = Kernels::new();
    let kernel = kernels.kernel("reads_first");
    let mut out = kernels.stream.alloc_zeros::<f32>(32).unwrap();
    let freed = {
        let input = kernels.stream.clone_htod(&[1.0f32]).unwrap();
        let (address, _sync) = cudarc::driver::DevicePtr::device_ptr(&input, &kernels.stream);
        address
    };
    let mut launch = kernels.stream.launch_builder(&kernel);
    launch.arg(&freed).arg(&mut out);
    // SAFETY: the simulator catches the read of freed memory.
    let error = unsafe { launch.launch(ONE_WARP) }.unwrap_err();
    let fault = kernels.fault(
        error,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        "reads_first",
        "out[threadIdx.x] = in[0]",
    );
    let FaultKind::UseAfterFree(access) = &fault.kind else {
        panic!("{fault}")
    };
    assert_eq!(access.address, freed);
}

#[test]
fn endless_loop() {
    let kernels = Kernels::new();
    let kernel = kernels.kernel("endless_loop");
    let flag = kernels.stream.alloc_zeros::<i32>(1).unwrap();
    let mut launch = kernels.stream.launch_builder(&kernel);
    launch.arg(&flag);
    cuda_sim::set_budget(Some(1 << 20));
    // SAFETY: one element is read.
    let error = unsafe { launch.launch(ONE_WARP) }.unwrap_err();
    cuda_sim::set_budget(None);
    let fault = kernels.fault(
        error,
        CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        "endless_loop",
        "while (*flag == 0)",
    );
    assert_eq!(fault.kind, FaultKind::Runaway { budget: 1 << 20 });
}

#[test]
fn unknown_instruction() {
    let kernels = Kernels::new();
    let kernel = kernels.kernel("unknown_instruction");
    let mut out = kernels.stream.alloc_zeros::<u32>(32).unwrap();
    let mut launch = kernels.stream.launch_builder(&kernel);
    launch.arg(&mut out);
    // SAFETY: 32 elements are written.
    let error = unsafe { launch.launch(ONE_WARP) }.unwrap_err();
    let fault = kernels.fault(
        error,
        CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        "unknown_instruction",
        "asm volatile",
    );
    let FaultKind::UnknownInstruction { text } = &fault.kind else {
        panic!("{fault}")
    };
    assert!(text.starts_with("vmad.u32.u32.u32"), "{text}");
}

#[test]
fn divergent_barrier() {
    let kernels = Kernels::new();
    let kernel = kernels.kernel("divergent_barrier");
    let mut out = kernels.stream.alloc_zeros::<i32>(32).unwrap();
    let mut launch = kernels.stream.launch_builder(&kernel);
    launch.arg(&mut out);
    // SAFETY: 32 elements are written.
    let error = unsafe { launch.launch(ONE_WARP) }.unwrap_err();
    let fault = kernels.fault(
        error,
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
        "divergent_barrier",
        "__syncthreads();",
    );
    let FaultKind::DivergentBarrier {
        other: Some((_, line)),
    } = &fault.kind
    else {
        panic!("{fault}")
    };
    assert!(*line > fault.source.as_ref().unwrap().1);
}

#[test]
fn missing_lane() {
    let kernels = Kernels::new();
    let kernel = kernels.kernel("missing_lane");
    let mut out = kernels.stream.alloc_zeros::<i32>(32).unwrap();
    let mut launch = kernels.stream.launch_builder(&kernel);
    launch.arg(&mut out);
    // SAFETY: 32 elements are written.
    let error = unsafe { launch.launch(ONE_WARP) }.unwrap_err();
    let fault = kernels.fault(
        error,
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
        "missing_lane",
        "__shfl_xor_sync",
    );
    assert_eq!(
        fault.kind,
        FaultKind::MissingLanes {
            members: u32::MAX,
            present: !(1 << 5)
        }
    );
}
