//! What the tests share: a device.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use stage4_flash_cuda::{Attention, Mode};

/// A device.
pub struct Device {
    pub stream: Arc<CudaStream>,
    pub name: String,
}

impl Device {
    pub fn open() -> Self {
        // The errors' own words: they say what to do, for example to fetch the compiler.
        let context = gpu::context(0).unwrap_or_else(|error| panic!("{error}"));
        let name = gpu::device_label(&context).unwrap_or_else(|error| panic!("{error}"));
        let stream = context.default_stream();
        Self { stream, name }
    }

    pub fn attention(&self, mode: Mode) -> Attention {
        let attention = Attention::new(self.stream.context());
        attention
            .unwrap_or_else(|error| panic!("{error}"))
            .with_mode(mode)
    }

    /// Copies values to the device. A driver allocates no 0 bytes, so an empty array becomes one default value.
    pub fn upload<'a, T: DeviceRepr + Default + Copy + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a T>,
    ) -> CudaSlice<T> {
        let mut values: Vec<T> = values.into_iter().copied().collect();
        if values.is_empty() {
            values.push(T::default());
        }
        self.stream
            .clone_htod(&values)
            .expect("a copy to the device")
    }

    pub fn download(&self, values: &CudaSlice<f32>) -> Vec<f32> {
        let values = self.stream.clone_dtoh(values);
        values.unwrap_or_else(|error| panic!("{}", gpu::explanation(&error)))
    }
}
