//! `gpu::report`: errors as a program shows them.

use std::error::Error;
use std::fmt;

use cudarc::driver::{DriverError, LaunchConfig, PushKernelArg};

use crate::child::in_child;

/// Adds vectors of 1000 elements, the sum into a buffer of 992.
fn too_short() -> Result<(), DriverError> {
    let ctx = gpu::context(0).unwrap();
    let module = gpu::KERNELS.load(&ctx, "vector_add.cu", &[]).unwrap();
    let kernel = module.load_function("vector_add")?;
    let stream = ctx.default_stream();
    let (a, b) = (
        stream.alloc_zeros::<f32>(1000)?,
        stream.alloc_zeros::<f32>(1000)?,
    );
    let mut c = stream.alloc_zeros::<f32>(992)?;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&a).arg(&b).arg(&mut c).arg(&1000i32);
    let config = LaunchConfig {
        grid_dim: (4, 1, 1),
        block_dim: (256, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel goes beyond the last buffer, which the simulator reports.
    unsafe { launch.launch(config) }?;
    stream.synchronize()
}

/// An error with a cause, which its text repeats or not.
#[derive(Debug)]
struct Caused<E> {
    text: &'static str,
    repeats: bool,
    cause: E,
}

impl<E: Error> fmt::Display for Caused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.repeats {
            true => write!(f, "{}: {}", self.text, self.cause),
            false => f.write_str(self.text),
        }
    }
}

impl<E: Error + 'static> Error for Caused<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

#[test]
fn a_fault_is_reported_over_several_lines_with_its_source() {
    let name = "report::a_fault_is_reported_over_several_lines_with_its_source";
    if !in_child(name, &[("GPU", "sim")]) {
        return;
    }
    let cause = too_short().unwrap_err();
    let report = gpu::report(&cause);
    let begin = "CUDA_ERROR_ILLEGAL_ADDRESS: out-of-bounds store of 4 bytes at 0x";
    assert!(report.starts_with(begin), "{report}");
    let lines = "\n  kernel  vector_add\n  source  gpu/kernels/vector_add.cu:18\n  block   (3, 0, 0), thread (224, 0, 0)";
    assert!(report.contains(lines), "{report}");
    let quoted = "\ngpu/kernels/vector_add.cu:18\n    16 |                                       int n) {\n    17 |     int i = \
                  blockIdx.x * BLOCK + threadIdx.x;\n>   18 |     if (i < n) c[i] = a[i] + b[i];\n    19 | }\n";
    assert!(report.ends_with(quoted), "{report}");
    assert!(!report.contains("\\n"), "{report}");
    // The same as the cause of another error.
    let caused = Caused {
        text: "adding",
        repeats: false,
        cause,
    };
    assert_eq!(gpu::report(&caused), format!("adding: {report}"));
}

#[test]
fn an_error_that_repeats_its_cause_is_said_once() {
    let caused = |repeats| Caused {
        text: "reading x",
        repeats,
        cause: std::io::Error::other("it is empty"),
    };
    for repeats in [false, true] {
        assert_eq!(gpu::report(&caused(repeats)), "reading x: it is empty");
    }
    let without_cause = gpu::KERNELS.ptx("nothing.cu", &[]).unwrap_err();
    assert_eq!(gpu::report(&without_cause), without_cause.to_string());
}
