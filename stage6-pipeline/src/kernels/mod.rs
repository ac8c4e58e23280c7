//! This crate's own kernels: linear layers, norms, rotation, embedding and the choice of a token.
//!
//! | file | what it holds |
//! |---|---|
//! | `linear.rs`, beside this folder | `y = x · weightᵀ` with bias, activation or residual addition |
//! | `kernels/norm.rs` | layer norm and RMS norm |
//! | `kernels/rope.rs` | rotary position embedding |
//! | `kernels/embed.rs` | rows of tables: token and position embedding |
//! | `kernels/token.rs` | the choice of the next token, and the counts of a step |
//!
//! Each method checks that its arrays have the right length and are on the right device
//! ([`Error::Argument`]), launches one kernel on the stream and does not wait. Activations are
//! row-major matrices, f32 or in half precision ([`Activation`]). Nothing that a kernel does
//! depends on values that the host has copied, so a CUDA graph of these launches can be replayed.
//!
//! A kernel is loaded when it is launched for the first time. A stream that is being captured
//! cannot load kernels: launch a step once before it is captured.

mod embed;
mod norm;
mod rope;
mod token;

pub use rope::Heads;
/// An element type of activations.
pub use stage5_decode::Element as Activation;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig};
use gpu::arguments::Checks;
use stage5_decode::Dtype;

use crate::Error;

static KERNELS: gpu::Bundle = gpu::bundle!(stage4_flash_cuda::KERNELS, stage5_decode::KERNELS);

/// The kernels of one device, and the stream that they are launched on.
#[derive(Debug)]
pub struct Kernels {
    pub(crate) stream: Arc<CudaStream>,
    /// SMs of the device.
    pub(crate) sms: usize,
    /// The device has compute capability 8.0, and so the tensor cores that `gemm_mma.cu` needs.
    pub(crate) tensor_cores: bool,
    loaded: Mutex<HashMap<Variant, CudaFunction>>,
}

/// A kernel, named like its file, and its `-D` constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Variant {
    pub(crate) kernel: &'static str,
    /// `ELEMENT`, if the kernel reads parameters in any dtype.
    pub(crate) element: Option<Dtype>,
    /// The others.
    pub(crate) sizes: &'static [(&'static str, &'static str)],
    /// Dynamic shared memory of a block, in bytes.
    pub(crate) shared: usize,
}

impl Variant {
    /// A kernel without constants.
    pub(crate) const fn of(kernel: &'static str) -> Self {
        Self {
            kernel,
            element: None,
            sizes: &[],
            shared: 0,
        }
    }
}

impl Kernels {
    /// Kernels on the device of `stream`.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if a kernel cannot be compiled, [`Error::Driver`] if the driver refuses it.
    pub fn new(stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let sms = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        Ok(Self {
            stream: stream.clone(),
            sms: usize::try_from(stream.context().attribute(sms)?).unwrap_or(1),
            tensor_cores: stream.context().compute_capability()?.0 >= 8,
            loaded: Mutex::default(),
        })
    }

    pub(crate) fn checks(&self, operation: &'static str) -> Checks {
        Checks::new(operation, self.stream.context())
    }

    /// A compiled kernel, loaded once.
    pub(crate) fn function(&self, variant: Variant) -> Result<CudaFunction, Error> {
        // Held while loading, so that no two threads load the same kernel. A panic
        // cannot leave it half changed.
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = loaded.get(&variant) {
            return Ok(function.clone());
        }
        let file = format!("{}.cu", variant.kernel);
        let element = variant.element.map(|dtype| ("ELEMENT", dtype.name()));
        let constants = Vec::from_iter(element.into_iter().chain(variant.sizes.iter().copied()));
        let module = KERNELS.load(self.stream.context(), &file, &constants)?;
        let function = module.load_function(variant.kernel)?;
        if variant.shared > 0 {
            let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(dynamic, variant.shared as i32)?;
        }
        loaded.insert(variant, function.clone());
        Ok(function)
    }
}

/// The most threads of a block that has one row.
const THREADS: usize = 256;

/// A block for each of `n` rows, with a thread for each column up to [`THREADS`].
pub(crate) fn block_per_row(
    checks: &Checks,
    n: usize,
    columns: usize,
) -> Result<LaunchConfig, Error> {
    Ok(LaunchConfig {
        grid_dim: (checks.grid(n)?, 1, 1),
        block_dim: (columns.next_multiple_of(32).min(THREADS) as u32, 1, 1),
        shared_mem_bytes: 0,
    })
}
