//! Errors of the stages as Python's exceptions.

use cudarc::driver::DriverError;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    attention_kernels,
    DeviceError,
    PyRuntimeError,
    "The driver refused a call, or a kernel failed. The text is the driver's report."
);

/// Why a computation has no result.
#[derive(Debug)]
pub enum Error {
    /// An argument does not fit. The text names it.
    Argument(String),
    /// A kernel needs what is not there: the compiler, or a newer device.
    Load(String),
    /// The driver refused a call, or a kernel failed.
    Device(String),
}

impl From<stage3_flash_cpu::Error> for Error {
    fn from(error: stage3_flash_cpu::Error) -> Self {
        Self::Argument(error.to_string())
    }
}

impl From<stage4_flash_cuda::Error> for Error {
    /// Call it right after the error: the report of a fault has source lines as long as no other
    /// launch fails.
    fn from(error: stage4_flash_cuda::Error) -> Self {
        let text = gpu::report(&error);
        match error {
            stage4_flash_cuda::Error::Load(_) => Self::Load(text),
            stage4_flash_cuda::Error::Driver(_) => Self::Device(text),
            _ => Self::Argument(text),
        }
    }
}

impl From<stage5_decode::Error> for Error {
    /// As for stage 4.
    fn from(error: stage5_decode::Error) -> Self {
        let text = gpu::report(&error);
        match error {
            stage5_decode::Error::Load(_) => Self::Load(text),
            stage5_decode::Error::Driver(_) => Self::Device(text),
            _ => Self::Argument(text),
        }
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        stage4_flash_cuda::Error::from(error).into()
    }
}

impl From<gpu::Error> for Error {
    fn from(error: gpu::Error) -> Self {
        Self::Load(gpu::report(&error))
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Argument(text) => PyValueError::new_err(text),
            Error::Load(text) => PyRuntimeError::new_err(text),
            Error::Device(text) => DeviceError::new_err(text),
        }
    }
}
