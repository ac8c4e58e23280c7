//! Errors of stated launches, and of a device that launches them.

use std::path::PathBuf;

use crate::fields::Position;

/// Errors of a stated launch, of its arguments, or of the files that they name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvocationError {
    /// A comment of the format cannot be read.
    #[error("line {line}: {reason}\n  {text}")]
    BadLine {
        /// The line's number, from 1.
        line: usize,
        /// The line.
        text: String,
        /// The reason.
        reason: String,
    },

    /// Neither the file nor the caller says how many blocks or threads there are.
    #[error("the {what} is not stated: write `// launch: grid=… block=…` into the file")]
    Unstated {
        /// `grid` or `block`.
        what: &'static str,
    },

    /// The PTX has a zero byte, at which the driver would stop reading.
    #[error("the PTX has a zero byte in line {line}")]
    ZeroByteInPtx {
        /// The line, from 1.
        line: usize,
    },

    /// The PTX has no such kernel.
    #[error("there is no kernel {name:?}; the file has {}", listed(available))]
    NoSuchKernel {
        /// The name asked for.
        name: String,
        /// The kernels there are.
        available: Vec<String>,
    },

    /// No kernel is named, and the file does not have just one.
    #[error("name the kernel to launch; the file has {}", listed(available))]
    WhichKernel {
        /// The kernels there are.
        available: Vec<String>,
    },

    /// A launch passes an argument that is not stated.
    #[error("kernel {kernel} is passed argument {number}; {arguments} are stated, numbered from 0")]
    NoSuchArgument {
        /// The kernel.
        kernel: String,
        /// The argument's number.
        number: usize,
        /// Number of stated arguments.
        arguments: usize,
    },

    /// The kernel has another number of parameters.
    #[error(
        "kernel {kernel} needs {parameters} arguments; passed: {arguments}{}",
        hint_of_count(*parameters, *arguments)
    )]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// Number of its parameters.
        parameters: usize,
        /// Number of passed arguments.
        arguments: usize,
    },

    /// An argument has not the size, the kind or the alignment of the kernel's parameter.
    #[error("argument {number} ({argument}) {misfit}")]
    DoesNotFit {
        /// The argument's number, from 0.
        number: usize,
        /// The argument.
        argument: String,
        /// What it is, what the kernel's parameter is, and how such an argument is written.
        misfit: String,
    },

    /// The parameters of a kernel are larger than CUDA allows.
    #[error("the parameters of kernel {kernel} have {bytes} bytes, of at most {most}")]
    TooManyParameters {
        /// The kernel.
        kernel: String,
        /// The size of all parameters in bytes.
        bytes: usize,
        /// The most that CUDA allows.
        most: usize,
    },

    /// A parameter is larger than this program passes.
    #[error(
        "parameter {number} of kernel {kernel} has {bytes} bytes; more than {most} are not passed"
    )]
    ParameterTooLarge {
        /// The kernel.
        kernel: String,
        /// The parameter's number, from 0.
        number: usize,
        /// Its size in bytes.
        bytes: usize,
        /// The most that can be passed.
        most: usize,
    },

    /// A tensor map does not fit the arguments.
    #[error("argument {number} ({argument}): {reason}")]
    BadTensorMap {
        /// The argument's number, from 0.
        number: usize,
        /// The argument.
        argument: String,
        /// The reason.
        reason: String,
    },

    /// A buffer is larger than memory can be.
    #[error("argument {position} ({argument}) does not fit into memory")]
    TooLarge {
        /// Which argument, or field of one.
        position: Position,
        /// The argument.
        argument: String,
    },

    /// A `.npy` file cannot be read or written, or does not hold what is asked of it.
    #[error("{}: {reason}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Errors of preparing a launch on a device, whose errors are `E`, and of launching.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError<E> {
    /// What is stated is wrong, or does not fit the kernel.
    #[error(transparent)]
    Stated(#[from] InvocationError),

    /// The device refuses, or the kernel faults.
    #[error("{operation}: {error}")]
    Device {
        /// The operation, like `launching kernel scale`.
        operation: String,
        /// The device's error.
        error: E,
    },
}

impl<E> LaunchError<E> {
    /// Makes the error of an operation out of the device's.
    pub(crate) fn of(operation: impl FnOnce() -> String) -> impl FnOnce(E) -> LaunchError<E> {
        |error| LaunchError::Device {
            operation: operation(),
            error,
        }
    }
}

/// Without `pass=`, a launch passes all arguments of a file.
fn hint_of_count(parameters: usize, arguments: usize) -> &'static str {
    if arguments > parameters {
        "; `pass=0,2` in its launch passes arguments 0 and 2 alone, `pass=` none"
    } else {
        ""
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
