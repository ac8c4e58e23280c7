//! Each kind of mistake gives its own fault at the line where it is, and the next launch works.

use std::sync::Arc;

use cuda_sim::{Fault, FaultKind};
use cudarc::driver::sys::CUresult;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg,
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

    fn zeros(&self, elements: usize) -> CudaSlice<f32> {
        self.stream.alloc_zeros(elements).unwrap()
    }

    fn address(&self, slice: &CudaSlice<f32>) -> u64 {
        slice.device_ptr(&self.stream).0
    }

    /// Launches one warp, and gives the fault that stopped it, after a check that the error is
    /// `code`, that the fault stands at `line` and that a correct launch works.
    ///
    /// `args` are addresses and integers; an `int` is the low half of its `u64`.
    fn fault_of(&self, kernel: &str, args: &[u64], code: CUresult, line: &str) -> Fault {
        let function = self.kernel(kernel);
        let mut launch = self.stream.launch_builder(&function);
        for arg in args {
            launch.arg(arg);
        }
        // SAFETY: the arguments are the kernel's; the simulator catches what it does wrong, and
        // that is the test.
        let error = unsafe { launch.launch(ONE_WARP) }.unwrap_err();
        assert_eq!(error.0, code);
        let shown = error.to_string();
        let fault = cuda_sim::take_fault().expect("a fault was reported");
        assert_eq!(fault.kernel, kernel);
        println!("{fault}\n");
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
    let out = kernels.zeros(40);
    let fault = kernels.fault_of(
        "out_of_bounds_store",
        &[kernels.address(&out), 40],
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        "out[i] = 1.0f",
    );
    assert_eq!(fault.thread, [31, 0, 0]);
    let FaultKind::OutOfBounds(access) = &fault.kind else {
        panic!("{fault}")
    };
    let near = access.nearest.as_ref().unwrap();
    assert!(access.write && access.bytes == 4 && access.space == cuda_sim::MemoryKind::Global);
    assert_eq!((near.bytes, access.address - near.start), (160, 160));
    assert!(
        fault
            .to_string()
            .contains("0 bytes past the end of argument 0, allocation"),
        "{fault}"
    );
}

#[test]
fn misaligned_load() {
    let kernels = Kernels::new();
    let input = kernels.zeros(8);
    let out = kernels.zeros(32);
    let fault = kernels.fault_of(
        "misaligned_load",
        &[kernels.address(&input), kernels.address(&out)],
        CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
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
    let out = kernels.zeros(32);
    let freed = kernels.address(&kernels.zeros(1));
    let fault = kernels.fault_of(
        "reads_first",
        &[freed, kernels.address(&out)],
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
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
    let flag = kernels.zeros(1);
    cuda_sim::set_budget(Some(1 << 20));
    let fault = kernels.fault_of(
        "endless_loop",
        &[kernels.address(&flag)],
        CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        "while (*flag == 0)",
    );
    cuda_sim::set_budget(None);
    assert_eq!(fault.kind, FaultKind::Runaway { budget: 1 << 20 });
}

#[test]
fn unknown_instruction() {
    let kernels = Kernels::new();
    let out = kernels.zeros(32);
    let fault = kernels.fault_of(
        "unknown_instruction",
        &[kernels.address(&out)],
        CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
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
    let out = kernels.zeros(32);
    let fault = kernels.fault_of(
        "divergent_barrier",
        &[kernels.address(&out)],
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
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
    let out = kernels.zeros(32);
    let fault = kernels.fault_of(
        "missing_lane",
        &[kernels.address(&out)],
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
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

#[test]
fn a_race_names_the_access_and_the_element() {
    let kernels = Kernels::new();
    let out = kernels.zeros(128);
    for bytes in [1, 2, 4, 8, 16] {
        let fault = kernels.fault_of(
            "unordered",
            &[kernels.address(&out), u64::from(bytes)],
            CUresult::CUDA_ERROR_LAUNCH_FAILED,
            "out[threadIdx.x] = row[31 - threadIdx.x]",
        );
        let FaultKind::Race(race) = &fault.kind else {
            panic!("{fault}")
        };
        let element = 31 - fault.thread[0];
        assert_eq!(race.access.bytes, bytes, "{fault}");
        assert_eq!(race.access.address, u64::from(element * bytes), "{fault}");
        assert_eq!(race.other.thread, Some([element, 0, 0]), "{fault}");
        let place = format!("[{element}] in elements of {bytes} bytes");
        assert!(fault.to_string().contains(&place), "{fault}");
    }
}
