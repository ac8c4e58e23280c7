//! The peaks of a device, from what its driver says.

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, DriverError};
use serde::Serialize;

/// Peak rates of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Peaks {
    /// f32 operations per second: two for each lane and clock.
    pub flops: f64,
    /// Bytes per second between the device and its memory.
    pub bytes: f64,
}

impl Peaks {
    /// The peaks of the device of `context`.
    ///
    /// # Errors
    ///
    /// The driver's, if it does not tell.
    pub fn of(context: &CudaContext) -> Result<Self, DriverError> {
        let value = |attribute| context.attribute(attribute).map(f64::from);
        let multiprocessors = value(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let clock = 1e3 * value(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        // CUDA C++ Programming Guide, "Arithmetic Instructions": results per
        // clock and multiprocessor.
        let lanes = match context.compute_capability()? {
            (7, _) | (8, 0) => 64.0,
            _ => 128.0,
        };
        // Two transfers a clock on each bit of the bus.
        let memory_clock = 1e3 * value(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let bus = value(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)? / 8.0;
        Ok(Self {
            flops: 2.0 * lanes * multiprocessors * clock,
            bytes: 2.0 * memory_clock * bus,
        })
    }

    /// Attainable f32 operations per second, for work of so many operations per byte.
    pub fn at(&self, intensity: f64) -> f64 {
        self.flops.min(intensity * self.bytes)
    }

    /// Lower bound of the time of so many operations and bytes, in seconds.
    pub fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.flops).max(bytes / self.bytes)
    }
}
