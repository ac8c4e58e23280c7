//! A device that launches kernels.

use crate::tensor_map::{Tensor, TensorMap};

/// A device that runs PTX: a GPU by its driver, or a simulator.
///
/// [`Prepared`](crate::Prepared) calls it in this order: `load` once, `kernel` for each launch,
/// `allocate` and `write` for each buffer, `tensor_map`, then `launch` and `read`.
pub trait Device {
    /// The reason why a call fails, or the fault of a kernel.
    type Error;

    /// Memory of the device, freed when it is dropped.
    type Memory;

    /// A PTX text, loaded, with its `__device__` variables.
    type Module;

    /// A kernel of a module, ready to be launched.
    type Kernel;

    /// What a launch gives beside the contents of memory, such as its profile.
    type Launched;

    /// Loads a PTX text, which has no zero byte.
    ///
    /// # Errors
    ///
    /// The device's.
    fn load(&self, ptx: &str) -> Result<Self::Module, Self::Error>;

    /// The kernel called `name` in the PTX, to be launched as `config` says.
    ///
    /// # Errors
    ///
    /// The device's.
    fn kernel(
        &self,
        module: &Self::Module,
        name: &str,
        config: Config,
    ) -> Result<Self::Kernel, Self::Error>;

    /// Memory of `bytes` bytes, at least 1, with any content.
    ///
    /// # Errors
    ///
    /// The device's.
    fn allocate(&self, bytes: usize) -> Result<Self::Memory, Self::Error>;

    /// The address of memory.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// Fills all of a memory.
    ///
    /// # Errors
    ///
    /// The device's.
    fn write(&self, memory: &mut Self::Memory, bytes: &[u8]) -> Result<(), Self::Error>;

    /// The content of a memory.
    ///
    /// # Errors
    ///
    /// The device's.
    fn read(&self, memory: &Self::Memory) -> Result<Vec<u8>, Self::Error>;

    /// The `CUtensorMap` of a tensor, which kernels of this device can read.
    ///
    /// # Errors
    ///
    /// The device's: `cuTensorMapEncodeTiled` has rules for sizes, strides and the box.
    fn tensor_map(&self, tensor: &Tensor<'_>) -> Result<[u8; TensorMap::BYTES], Self::Error>;

    /// Launches a kernel, and waits for its end. `parameters` has the bytes of each parameter.
    ///
    /// # Errors
    ///
    /// The device refuses, or the kernel faults.
    ///
    /// # Safety
    ///
    /// Number and sizes of `parameters` are those of the kernel: a driver reads as much as the
    /// kernel declares.
    unsafe fn launch(
        &self,
        kernel: &Self::Kernel,
        parameters: &[&[u8]],
    ) -> Result<Self::Launched, Self::Error>;
}

/// Size and kind of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared: u32,
    /// All blocks run at the same time, and may wait for each other.
    pub cooperative: bool,
}
