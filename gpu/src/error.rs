//! Errors of opening devices and of compiling and loading kernels.

use std::path::PathBuf;

use cudarc::driver::DriverError;

use crate::{checkout, explanation};

/// Why a device could not be opened or a kernel not be compiled or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The environment variable `GPU` has a value that names no device.
    #[error("GPU={value} names no device; use GPU=cuda, GPU=sim, or leave it unset")]
    UnknownBackend {
        /// The variable's value.
        value: String,
    },

    /// `GPU=cuda` asks for an NVIDIA GPU and there is none.
    #[error("GPU=cuda, but there is no NVIDIA GPU to use: {reason}")]
    NoGpu {
        /// The failure of the probe of the NVIDIA driver.
        reason: String,
    },

    /// The process has loaded another driver library than the one chosen, because cudarc was called
    /// before this crate, or because a folder of link-time stubs is in `LD_LIBRARY_PATH`.
    #[error(
        "this process already uses another driver library than {expected}: call gpu::context before any other use \
         of cudarc, and keep folders of link-time stubs out of LD_LIBRARY_PATH"
    )]
    WrongDriver {
        /// The driver that was chosen: `libcuda.so.1`, or `the simulator`.
        expected: &'static str,
    },

    /// The simulated driver could not be put in place.
    #[error("the simulated driver could not be installed: {0}")]
    Simulator(cuda_sim::InstallError),

    /// There is no device with this number.
    #[error("no device {ordinal}: {label} has {count} (numbered from 0)")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// Number of devices.
        count: usize,
        /// The driver that was asked.
        label: &'static str,
    },

    /// The driver refused a call.
    #[error("{operation}: {refusal}")]
    Driver {
        /// The operation.
        operation: String,
        /// The driver's answer.
        refusal: Refusal,
    },

    /// Profiles need the simulator, and this process uses a GPU.
    #[error(
        "profiles are the simulator's, and this process uses a GPU: set GPU=sim, or use Nsight Compute (ncu)"
    )]
    NoProfile,

    /// The package has no kernel file of this name.
    #[error("{package} has no kernel file {file:?}; it has {}", available.join(", "))]
    NoSuchKernel {
        /// The package whose bundle was asked.
        package: String,
        /// The file asked for.
        file: String,
        /// The `.cu` files there are.
        available: Vec<String>,
    },

    /// A kernel file includes a header of another package, and it is not there.
    #[error(
        "{file} includes {header:?}, which is not there: the package before the `/` must have that file in kernels/, and \
         the bundle of the kernel's own package must name that package's, as in gpu::bundle!(other_package::KERNELS)"
    )]
    NoSuchHeader {
        /// The file that includes it, from the workspace's root.
        file: String,
        /// The header as it is included: `<package>/<file>`.
        header: String,
    },

    /// A kernel file includes a header that its text does not name.
    #[error(
        "{file}({line}): write the name of the header in quotes or angle brackets, by `#include` alone"
    )]
    BadInclude {
        /// The file that includes it, from the workspace's root.
        file: String,
        /// The line of the directive, from 1.
        line: usize,
    },

    /// A kernel file includes too much.
    #[error("{file} includes more than {headers} headers or {bytes} bytes")]
    TooMuchText {
        /// The kernel file or the header that goes beyond it, from the workspace's root.
        file: String,
        /// The most headers.
        headers: usize,
        /// The most bytes of kernel file and headers together.
        bytes: usize,
    },

    /// A PTX text has a zero byte, at which the driver would stop reading.
    #[error("the PTX of {file} has a zero byte in line {line}")]
    ZeroByteInPtx {
        /// The kernel file.
        file: String,
        /// The line, from 1.
        line: usize,
    },

    /// A `-D` constant cannot be passed to the compiler.
    #[error("constant {name}={value} of {file}: {reason}")]
    BadConstant {
        /// The kernel file.
        file: String,
        /// The constant's name.
        name: String,
        /// The constant's value.
        value: String,
        /// The reason.
        reason: &'static str,
    },

    /// The `// arch:` line of a kernel file names no architecture.
    #[error(
        "{file}: `// arch: {value}` is not an architecture; write it like compute_80 or compute_90a"
    )]
    BadArchitecture {
        /// The kernel file.
        file: String,
        /// The value in the line.
        value: String,
    },

    /// The kernel needs a newer device.
    #[error("{file} needs {needs}; {device} has compute capability {}.{}", capability.0, capability.1)]
    DeviceTooOld {
        /// The kernel file.
        file: String,
        /// The architecture that the file declares.
        needs: String,
        /// The device's name.
        device: String,
        /// The device's compute capability, major and minor.
        capability: (i32, i32),
    },

    /// The kernel must be compiled, and NVRTC is nowhere.
    #[error(
        "{file} {constants}{} is not installed. Fetch it with\n\n    {} fetch-nvrtc\n\nor name one by NVRTC_PATH. \
         Looked in:{}",
        needs_nvrtc(*in_package),
        checkout::program(),
        listed(searched)
    )]
    NvrtcMissing {
        /// The kernel file.
        file: String,
        /// The constants asked for, like `-DBLOCK=256 `.
        constants: String,
        /// True for a kernel of a package, of which there could be committed PTX.
        in_package: bool,
        /// Where NVRTC was looked for.
        searched: Vec<PathBuf>,
    },

    /// A library that should be NVRTC cannot be used.
    #[error("{} is not a usable NVRTC: {reason}", path.display())]
    BadNvrtc {
        /// The library, or what `NVRTC_PATH` names.
        path: PathBuf,
        /// The reason.
        reason: String,
    },

    /// NVRTC failed otherwise than by an error in the source.
    #[error("{file}: {operation} of NVRTC reports {message}")]
    Nvrtc {
        /// The kernel file.
        file: String,
        /// The NVRTC function.
        operation: &'static str,
        /// NVRTC's message.
        message: String,
    },

    /// The kernel does not compile.
    #[error("{file} does not compile ({options}):\n{log}{}", advice.replace("{program}", &checkout::program()))]
    Compile {
        /// The kernel file, from the workspace's root.
        file: String,
        /// The options it was compiled with.
        options: String,
        /// The compiler's log; files are named from the workspace's root.
        log: String,
        /// Advice, with `{program}` for the command of [`checkout::program`]; empty if there is
        /// none.
        advice: String,
    },
}

/// A driver's answer to a call that it refuses, or to a kernel that faults.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the driver reports {:?}: {message}", code.0)]
pub struct Refusal {
    /// The driver's error code.
    pub code: DriverError,
    /// The driver's explanation, as [`explanation`](crate::explanation) gives it.
    pub message: String,
}

impl From<DriverError> for Refusal {
    /// The explanation is taken now: the next error may replace it.
    fn from(code: DriverError) -> Refusal {
        Refusal {
            code,
            message: explanation(&code),
        }
    }
}

fn listed(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| format!("\n  {}", path.display()))
        .collect()
}

/// The part of the message between a kernel that must be compiled and the compiler.
fn needs_nvrtc(in_package: bool) -> &'static str {
    if in_package {
        "is not among the committed PTX (was the kernel edited, or is the variant new?), and NVRTC, which would compile it,"
    } else {
        "needs a compiler, and NVRTC"
    }
}

/// The text of an error and of its causes: the dynamic loader's errors say what happened only in
/// their cause.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
