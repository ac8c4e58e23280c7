//! The simulated device: every access of its kernels is checked and counted.
//!
//! - `attention`: stage 4's library, forward and backward, with profiles.
//! - `decode`: stage 5's library.
//! - `launch`: any kernel, on a device of its own.

mod attention;
mod decode;
mod launch;

use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::CudaStream;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use stage4_flash_cuda::{Attention, Backward};

use crate::error::Error;
use crate::job::{self, Place};
pub use attention::{sim_backward, sim_forward};
pub use decode::sim_decode;
pub use launch::sim_launch;

/// The simulated device of this process, with the kernels that it has loaded.
struct Device {
    stream: Arc<CudaStream>,
    attention: Attention,
    backward: Backward,
}

/// Runs `work` on the device, after the work of earlier calls. The first call opens it.
fn on_device<I: Send + 'static, R: Send + 'static>(
    py: Python<'_>,
    inputs: I,
    work: impl FnOnce(&Device, &I) -> Result<R, Error> + Send + 'static,
) -> PyResult<R> {
    /// The process that has the simulator's threads.
    static OWNER: OnceLock<u32> = OnceLock::new();
    static DEVICE: Mutex<Option<Device>> = Mutex::new(None);
    let process = process::id();
    if *OWNER.get_or_init(|| process) != process {
        return Err(PyRuntimeError::new_err(
            "the simulated device belongs to the process that this one was forked from: start \
             processes by `spawn`, or use the device after the fork only",
        ));
    }
    let result = job::run(py, Place::Thread, inputs, move |inputs| {
        // Work that panicked has left the handles whole: they change in single steps.
        let mut device = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
        let device = match &mut *device {
            Some(device) => device,
            none => none.insert(Device::open()?),
        };
        work(device, inputs)
    })?;
    Ok(result?)
}

impl Device {
    fn open() -> Result<Self, Error> {
        gpu::simulate().map_err(|error| match error {
            gpu::Error::WrongDriver { .. } => Error::Load(
                "`device` is \"sim\", but this process has used CUDA tensors: it has one driver"
                    .to_owned(),
            ),
            error => error.into(),
        })?;
        let context = gpu::context(0)?;
        Ok(Self {
            stream: context.default_stream(),
            attention: Attention::new(&context)?,
            backward: Backward::new(&context)?,
        })
    }
}
