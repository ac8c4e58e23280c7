//! What the tests share: a device, and copies to and from it that allow for empty arrays.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use stage2_naive_cuda::{Error, Kernels};

/// A device, with the kernels loaded.
pub struct Device {
    pub stream: Arc<CudaStream>,
    pub kernels: Kernels,
    pub name: String,
}

impl Device {
    pub fn open() -> Self {
        // The errors' own words: they say what to do, for example to fetch the compiler.
        let context = gpu::context(0).unwrap_or_else(|error| panic!("{error}"));
        let name = gpu::device_label(&context).unwrap_or_else(|error| panic!("{error}"));
        let stream = context.default_stream();
        let kernels = Kernels::new(&stream).unwrap_or_else(|error| panic!("{error}"));
        Self {
            stream,
            kernels,
            name,
        }
    }

    /// Copies values to the device. A driver allocates no 0 bytes, so an empty array becomes one NaN.
    pub fn upload<'a>(&self, values: impl IntoIterator<Item = &'a f32>) -> CudaSlice<f32> {
        let mut values: Vec<f32> = values.into_iter().copied().collect();
        if values.is_empty() {
            values.push(f32::NAN);
        }
        self.stream
            .clone_htod(&values)
            .expect("a copy to the device")
    }

    /// Copies the first `into.len()` values back, in row-major order, and waits.
    pub fn download<'a>(
        &self,
        from: &CudaSlice<f32>,
        into: impl IntoIterator<Item = &'a mut f32>,
    ) -> Result<(), Error> {
        let values = self.stream.clone_dtoh(from)?;
        self.stream.synchronize()?;
        for (x, value) in into.into_iter().zip(values) {
            *x = value;
        }
        Ok(())
    }
}
