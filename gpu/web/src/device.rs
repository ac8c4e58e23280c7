//! The simulated device as kernel files are launched on it.

use std::rc::Rc;

use cuda_sim::{
    LaunchProfile, LaunchShape, LoadedModule, Simulator, SimulatorError, TensorDescription,
};
use gpu_launch::{Config, Device, Tensor, TensorMap};

/// A simulated device.
pub(crate) struct WebDevice<'s> {
    pub(crate) simulator: &'s Simulator,
}

/// Memory that is freed when it is dropped.
pub(crate) struct Memory<'s> {
    simulator: &'s Simulator,
    address: u64,
    bytes: usize,
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // Allocated by `allocate`, and only this frees it: it cannot fail.
        let _ = self.simulator.free(self.address);
    }
}

/// A kernel, ready to be launched.
pub(crate) struct Kernel<'s> {
    module: Rc<LoadedModule<'s>>,
    name: String,
    shape: LaunchShape,
}

impl<'s> Device for WebDevice<'s> {
    type Error = SimulatorError;
    type Memory = Memory<'s>;
    type Module = Rc<LoadedModule<'s>>;
    type Kernel = Kernel<'s>;
    type Launched = LaunchProfile;

    fn load(&self, ptx: &str) -> Result<Self::Module, SimulatorError> {
        Ok(Rc::new(self.simulator.load(ptx)?))
    }

    fn kernel(
        &self,
        module: &Self::Module,
        name: &str,
        config: Config,
    ) -> Result<Kernel<'s>, SimulatorError> {
        Ok(Kernel {
            module: Rc::clone(module),
            name: name.to_owned(),
            shape: LaunchShape {
                dynamic_shared: config.shared,
                cooperative: config.cooperative,
                ..LaunchShape::new(config.grid, config.block)
            },
        })
    }

    fn allocate(&self, bytes: usize) -> Result<Memory<'s>, SimulatorError> {
        Ok(Memory {
            simulator: self.simulator,
            address: self.simulator.allocate(bytes as u64)?,
            bytes,
        })
    }

    fn address(&self, memory: &Memory<'s>) -> u64 {
        memory.address
    }

    fn write(&self, memory: &mut Memory<'s>, bytes: &[u8]) -> Result<(), SimulatorError> {
        self.simulator.write(memory.address, bytes)
    }

    fn read(&self, memory: &Memory<'s>) -> Result<Vec<u8>, SimulatorError> {
        let mut bytes = vec![0; memory.bytes];
        self.simulator.read(memory.address, &mut bytes)?;
        Ok(bytes)
    }

    fn tensor_map(&self, tensor: &Tensor<'_>) -> Result<[u8; TensorMap::BYTES], SimulatorError> {
        let map = tensor.map;
        let description = TensorDescription {
            element: tensor.element as u32,
            address: tensor.address,
            sizes: &map.sizes,
            strides: &tensor.strides,
            element_strides: &tensor.every,
            interleave: map.interleave as u32,
            swizzle: map.swizzle as u32,
            l2_promotion: map.l2 as u32,
            fill: map.fill as u32,
        };
        self.simulator.tensor_map(&description, &map.box_sizes)
    }

    unsafe fn launch(
        &self,
        kernel: &Kernel<'s>,
        parameters: &[&[u8]],
    ) -> Result<LaunchProfile, SimulatorError> {
        let Kernel {
            module,
            name,
            shape,
        } = kernel;
        self.simulator.launch(module, name, shape, parameters)
    }
}
