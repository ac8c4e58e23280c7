//! The device that a CUDA driver has, NVIDIA's or the simulated one, for stated launches: plain
//! cudarc.

mod tensor_map;

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute_enum::{
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr,
    LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use gpu::Refusal;
use gpu_launch::{Config, Device, MAX_PARAMETER, Tensor, TensorMap, readable_report};

/// If a block has more shared memory than this, in bytes, the dynamic part must be asked for before
/// the launch.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// A CUDA device, whose default stream has all copies and launches.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (stated, ptx): (gpu_launch::Invocation, &str) = unimplemented!();
/// let device = gpu_tool::CudaDevice::new(&gpu::context(0)?);
/// let buffers = stated.run(&device, ptx)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CudaDevice {
    stream: Arc<CudaStream>,
}

impl CudaDevice {
    /// The device of a context.
    pub fn new(ctx: &Arc<CudaContext>) -> CudaDevice {
        CudaDevice {
            stream: ctx.default_stream(),
        }
    }
}

/// A kernel, ready to be launched.
#[derive(Debug)]
pub struct Kernel {
    function: CudaFunction,
    /// Its name in the PTX.
    name: String,
    config: Config,
}

impl Device for CudaDevice {
    type Error = Refusal;
    type Memory = CudaSlice<u8>;
    type Module = Arc<CudaModule>;
    type Kernel = Kernel;
    type Launched = ();

    fn load(&self, ptx: &str) -> Result<Arc<CudaModule>, Refusal> {
        Ok(self.stream.context().load_module(Ptx::from_src(ptx))?)
    }

    fn kernel(
        &self,
        module: &Arc<CudaModule>,
        name: &str,
        config: Config,
    ) -> Result<Kernel, Refusal> {
        let function = module.load_function(name)?;
        let fixed = function.get_attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        if config.shared.saturating_add_signed(fixed) > SHARED_WITHOUT_ASKING {
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(config.shared).unwrap_or(i32::MAX); // refused either way
            function.set_attribute(attribute, bytes)?;
        }
        Ok(Kernel {
            function,
            name: name.to_owned(),
            config,
        })
    }

    fn allocate(&self, bytes: usize) -> Result<CudaSlice<u8>, Refusal> {
        // SAFETY: what is read before it is written is what `uninit` asks for; all else is written
        // first.
        Ok(unsafe { self.stream.alloc::<u8>(bytes) }?)
    }

    fn address(&self, memory: &CudaSlice<u8>) -> u64 {
        memory.device_ptr(&self.stream).0
    }

    fn write(&self, memory: &mut CudaSlice<u8>, bytes: &[u8]) -> Result<(), Refusal> {
        self.stream.memcpy_htod(bytes, memory)?;
        Ok(self.stream.synchronize()?) // the caller may drop the bytes now
    }

    fn read(&self, memory: &CudaSlice<u8>) -> Result<Vec<u8>, Refusal> {
        let bytes = self.stream.clone_dtoh(memory)?;
        self.stream.synchronize()?;
        Ok(bytes)
    }

    fn tensor_map(&self, tensor: &Tensor<'_>) -> Result<[u8; TensorMap::BYTES], Refusal> {
        Ok(tensor_map::encode(tensor)?)
    }

    unsafe fn launch(&self, kernel: &Kernel, parameters: &[&[u8]]) -> Result<(), Refusal> {
        let parameters = parameters.iter().map(|bytes| Parameter::new(bytes));
        let parameters: Vec<Parameter> = parameters.collect();
        let mut launch = self.stream.launch_builder(&kernel.function);
        for parameter in &parameters {
            launch.arg(parameter);
        }
        let config = LaunchConfig {
            grid_dim: kernel.config.grid.into(),
            block_dim: kernel.config.block.into(),
            shared_mem_bytes: kernel.config.shared,
        };
        // SAFETY: the caller passes the kernel's parameters.
        let launched = unsafe {
            match kernel.config.cooperative {
                true => launch.launch_cooperative(config),
                false => launch.launch(config),
            }
        };
        launched
            .and_then(|_| self.stream.synchronize())
            .map_err(|error| {
                let mut refusal = Refusal::from(error);
                refusal.message = readable_report(&refusal.message, &kernel.name);
                refusal
            })
    }
}

/// An argument as it is passed, and zeros: the driver reads as many bytes as the kernel's parameter
/// has.
#[repr(C)]
struct Parameter([u8; MAX_PARAMETER]);

// SAFETY: plain bytes, which the device may read as anything.
unsafe impl DeviceRepr for Parameter {}

impl Parameter {
    fn new(bytes: &[u8]) -> Parameter {
        let mut parameter = Parameter([0; MAX_PARAMETER]);
        parameter.0[..bytes.len()].copy_from_slice(bytes);
        parameter
    }
}
