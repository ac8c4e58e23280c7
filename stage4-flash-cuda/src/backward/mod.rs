//! The backward pass: the gradients of attention by q, k and v. But for the naive way, scores are
//! computed again, tile by tile, so memory grows with N as in the forward pass.

mod arguments;
mod kernel;
mod launch;
mod mode;
mod naive;

use std::collections::HashMap;
use std::iter;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig};
use gpu::arguments::{ArgumentError, Checks};
use stage1_reference::Sizes;

pub use arguments::{BackwardInputs, Gradients};
pub use kernel::BackwardKernel;
pub use mode::BackwardMode;

use crate::{Error, Format, Half, KERNELS, Shape};
use launch::{Sums, launch_library, launch_rung};

/// The operation's name in errors.
const OPERATION: &str = "attention backward";

/// The head dimension that kernels are compiled for, and the kernels.
type Loaded = (usize, [CudaFunction; 3]);

/// The backward pass of attention on one device, by one [`BackwardMode`]: a handle that keeps the
/// kernels it has loaded.
#[derive(Debug)]
pub struct Backward {
    context: Arc<CudaContext>,
    mode: BackwardMode,
    /// The device has those that the library's kernels in half precision need.
    tensor_cores: bool,
    /// Shared memory that a block can have, in bytes.
    shared: usize,
    /// By the second of the kernels, which tells the type of the tensors and whether there is
    /// dropout, and the head dimension.
    functions: Mutex<HashMap<(BackwardKernel, usize), Loaded>>,
}

impl Backward {
    /// The backward pass on the device of `context`, by [`BackwardMode::Library`]. Loads nothing
    /// yet.
    ///
    /// # Errors
    ///
    /// The driver's, if it does not tell what the device can do.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let shared = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        Ok(Self {
            context: context.clone(),
            mode: BackwardMode::default(),
            tensor_cores: context.compute_capability()? >= (8, 0),
            shared: usize::try_from(context.attribute(shared)?).unwrap_or(0),
            functions: Mutex::default(),
        })
    }

    /// The same, by another mode.
    pub fn with_mode(self, mode: BackwardMode) -> Self {
        Self { mode, ..self }
    }

    /// The implementation that runs.
    pub fn mode(&self) -> BackwardMode {
        self.mode
    }

    /// The gradients of a loss by q, k and v, given its gradient by o: launches the
    /// [kernels](BackwardKernel) on `stream`, and does not wait.
    ///
    /// A query that sees no key gets `dq = 0`, a key that no query sees `dk = dv = 0`. Every run
    /// gives the same bits: where blocks add to one sum, they take turns. Allocates a float for
    /// each query, and by [`BackwardMode::Library`] a row of sums more, of D to D + 32 floats;
    /// [`BackwardMode::Naive`] allocates four for each score.
    ///
    /// # Errors
    ///
    /// Those of [`Attention::forward`](crate::Attention::forward), also for what only the backward
    /// pass has; a head dimension whose tiles do not fit in a block's shared memory.
    pub fn backward(
        &self,
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_>,
        gradients: Gradients<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        match self.mode {
            BackwardMode::Naive => self.by_stage2(stream, inputs, gradients, shape),
            BackwardMode::Library | BackwardMode::Recompute => {
                self.run(None, stream, inputs, gradients, shape)
            }
            BackwardMode::Mma => Err(self.lacks_type("f32")),
        }
    }

    /// [`Backward::backward`] in half precision: all tensors are `f16` or `bf16` but masks and lse,
    /// and sums are f32. By [`BackwardMode::Library`], on tensor cores from compute capability 8.0
    /// on, or in f16 by [`BackwardMode::Mma`], which needs it. Tensor cores multiply weights and
    /// gradients of scores that are rounded to `T`.
    ///
    /// # Errors
    ///
    /// Those of [`Backward::backward`]; a mode that has no kernel for `T`; [`Error::Load`] of
    /// [`BackwardMode::Mma`] on a device below compute capability 8.0.
    pub fn backward_half<T: Half>(
        &self,
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_, T>,
        gradients: Gradients<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        match (self.mode, T::FORMAT) {
            (BackwardMode::Library, _) | (BackwardMode::Mma, Format::F16) => {
                self.run(Some(T::FORMAT), stream, inputs, gradients, shape)
            }
            _ => Err(self.lacks_type(T::FORMAT.name())),
        }
    }

    /// The refusal of a mode that has no kernel for a type.
    fn lacks_type(&self, name: &str) -> Error {
        let checks = Checks::new(OPERATION, &self.context);
        let expected = format!("one in {name}");
        checks.error("mode", expected, self.mode).into()
    }

    /// Checks the arguments, and launches the kernels of the library or a rung for tensors of `T`.
    fn run<T>(
        &self,
        format: Option<Format>,
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_, T>,
        gradients: Gradients<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let checks = Checks::new(OPERATION, &self.context);
        checks.device("stream", stream.context())?;
        inputs.check(&checks, stream, &gradients, shape, self.mode)?;
        let s = shape.sizes;
        let (kernels, candidates) = match self.mode {
            BackwardMode::Library => {
                let kernels = match format {
                    Some(format) if self.tensor_cores => BackwardKernel::tensor_cores(format),
                    _ => BackwardKernel::library(format),
                };
                let kernels = match shape.drops() {
                    true => kernels.map(BackwardKernel::with_dropout),
                    false => kernels,
                };
                let padded = kernels[1].padded().iter().copied();
                let padded = padded.filter(|&columns| columns > s.head_dim);
                let candidates = iter::once(s.head_dim).chain(padded);
                (kernels, candidates.collect())
            }
            _ => {
                let kernels = match format {
                    None => BackwardKernel::RECOMPUTE,
                    Some(_) => BackwardKernel::MMA,
                };
                (kernels, vec![s.head_dim])
            }
        };
        let (columns, functions) = self.functions(&checks, kernels, &candidates)?;
        let config = |kernel| config(&checks, kernel, &s, columns);
        let [row_dots, keys, queries] = kernels;
        let configs = [config(row_dots)?, config(keys)?, config(queries)?];
        if self.mode != BackwardMode::Library {
            return launch_rung(stream, &functions, configs, &inputs, gradients, shape);
        }
        let sums = Sums {
            columns: keys.row_of_sums(columns),
            tiles: keys
                .tile(columns)
                .map_or(0, |tile| s.batch * s.heads * s.nq.div_ceil(tile.block_q)),
        };
        launch_library(stream, &functions, configs, &inputs, gradients, shape, sums)
    }

    /// [`BackwardMode::Naive`].
    fn by_stage2(
        &self,
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_>,
        gradients: Gradients<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let checks = Checks::new(OPERATION, &self.context);
        checks.device("stream", stream.context())?;
        inputs.check(&checks, stream, &gradients, shape, self.mode)?;
        let kernel = BackwardKernel::SoftmaxGradient;
        let config = config(&checks, kernel, &shape.sizes, shape.sizes.head_dim)?;
        // Modules stay loaded, so this costs a few look-ups.
        let module = KERNELS.load(&self.context, kernel.file(), &[])?;
        let function = module.load_function(kernel.name())?;
        naive::run(stream, &function, config, inputs, gradients, shape)
    }

    /// Kernels for the first of some head dimensions whose tiles fit, and whose kernels are
    /// committed or can be compiled. Loaded once, and allowed the shared memory that they need.
    fn functions(
        &self,
        checks: &Checks,
        kernels: [BackwardKernel; 3],
        candidates: &[usize],
    ) -> Result<Loaded, Error> {
        let wanted = (kernels[1], candidates[0]);
        // A panic cannot leave it half changed.
        let loaded = self.functions.lock();
        let mut loaded = loaded.unwrap_or_else(PoisonError::into_inner);
        if let Some(functions) = loaded.get(&wanted) {
            return Ok(functions.clone());
        }
        let bytes = |columns| {
            kernels
                .map(|kernel| kernel.shared_bytes(columns))
                .into_iter()
                .max()
        };
        let available = self.shared;
        let mut error = None;
        for &columns in candidates {
            let needed = bytes(columns).unwrap_or(0);
            if needed > available {
                let expected = format!("tiles of at most {available} bytes of shared memory");
                let actual = format!("{columns}, whose tiles take {needed}");
                error = Some(checks.error("head_dim", expected, actual).into());
                continue;
            }
            match self.load(kernels, columns) {
                Err(Error::Load(missing @ gpu::Error::NvrtcMissing { .. })) => {
                    error = Some(missing.into());
                }
                functions => {
                    let functions = (columns, functions?);
                    loaded.insert(wanted, functions.clone());
                    return Ok(functions);
                }
            }
        }
        Err(error.expect("there is a candidate"))
    }

    fn load(
        &self,
        kernels: [BackwardKernel; 3],
        columns: usize,
    ) -> Result<[CudaFunction; 3], Error> {
        let load = |kernel: BackwardKernel| {
            let constants = kernel.constants(columns);
            let constants = constants.iter().map(|(name, value)| (*name, &**value));
            let constants = Vec::from_iter(constants);
            let module = KERNELS.load(&self.context, kernel.file(), &constants)?;
            let function = module.load_function(kernel.name())?;
            let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(dynamic, kernel.shared_bytes(columns) as i32)?;
            Ok::<_, Error>(function)
        };
        let [row_dots, keys, queries] = kernels;
        Ok([load(row_dots)?, load(keys)?, load(queries)?])
    }
}

/// The launch of a kernel that is compiled for a head dimension.
fn config(
    checks: &Checks,
    kernel: BackwardKernel,
    sizes: &Sizes,
    columns: usize,
) -> Result<LaunchConfig, ArgumentError> {
    Ok(LaunchConfig {
        grid_dim: (checks.grid(kernel.blocks(sizes, columns))?, 1, 1),
        block_dim: (kernel.threads(columns) as u32, 1, 1),
        shared_mem_bytes: kernel.shared_bytes(columns) as u32,
    })
}
