//! The backward pass: the gradients of attention by q, k and v, on packed tensors in f32 or f16.
//! Scores are computed again, tile by tile, so memory grows with N as in the forward pass.

mod arguments;
mod kernel;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::{ArgumentError, Checks};
use half::f16;

pub use arguments::{BackwardInputs, Gradients};
pub use kernel::BackwardKernel;

use crate::{Error, KERNELS, Shape};

/// The operation's name in errors.
const OPERATION: &str = "attention backward";

/// The backward pass of attention on one device: a handle that keeps the kernels it has loaded.
#[derive(Debug)]
pub struct Backward {
    context: Arc<CudaContext>,
    /// Shared memory that a block can have, in bytes.
    shared: usize,
    /// By the first of the kernels, which tells the type of the tensors, and the head dimension.
    functions: Mutex<HashMap<(BackwardKernel, usize), [CudaFunction; 3]>>,
}

impl Backward {
    /// The backward pass on the device of `context`. Loads nothing yet.
    ///
    /// # Errors
    ///
    /// The driver's, if it does not tell what the device can do.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let shared = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        Ok(Self {
            context: context.clone(),
            shared: usize::try_from(context.attribute(shared)?).unwrap_or(0),
            functions: Mutex::default(),
        })
    }

    /// The gradients of a loss by q, k and v, given its gradient by o: launches the three
    /// [kernels](BackwardKernel) on `stream`, and does not wait.
    ///
    /// It takes the problems of a [`Rung`](crate::Rung) in f32: packed tensors without grouped
    /// heads, causal or not, with one of its head dimensions, at multiples of 16 bytes. A query
    /// that sees no key gets `dq = 0`, a key that no query sees `dk = dv = 0`. No operation is
    /// atomic, so every run gives the same bits. Allocates a float for each query.
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
        self.run(BackwardKernel::F32, stream, inputs, gradients, shape)
    }

    /// [`Backward::backward`] in f16, on tensor cores: all tensors are f16 but lse, and sums are
    /// f32. Weights and their gradients are rounded to f16 as multiples of 1/16. Needs compute
    /// capability 8.0.
    ///
    /// # Errors
    ///
    /// Those of [`Backward::backward`]; [`Error::Load`] on a device below compute capability 8.0.
    pub fn backward_half(
        &self,
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_, f16>,
        gradients: Gradients<'_, f16>,
        shape: &Shape,
    ) -> Result<(), Error> {
        self.run(BackwardKernel::F16, stream, inputs, gradients, shape)
    }

    /// Checks the arguments, and launches three kernels for tensors of `T`.
    fn run<T>(
        &self,
        kernels: [BackwardKernel; 3],
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_, T>,
        gradients: Gradients<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let checks = Checks::new(OPERATION, &self.context);
        checks.device("stream", stream.context())?;
        inputs.check(&checks, stream, &gradients, shape)?;
        let config = |kernel| self.config(&checks, kernel, shape);
        let [row_dots, keys, queries] = kernels;
        let configs = [config(row_dots)?, config(keys)?, config(queries)?];
        let functions = self.functions(kernels, shape.sizes.head_dim)?;
        launch(stream, &functions, configs, inputs, gradients, shape)
    }

    /// The launch of a kernel.
    fn config(
        &self,
        checks: &Checks,
        kernel: BackwardKernel,
        shape: &Shape,
    ) -> Result<LaunchConfig, ArgumentError> {
        let head_dim = shape.sizes.head_dim;
        let (bytes, available) = (kernel.shared_bytes(head_dim), self.shared);
        if bytes > available {
            let expected = format!("tiles of at most {available} bytes of shared memory");
            let actual = format!("{head_dim}, whose tiles take {bytes}");
            return Err(checks.error("head_dim", expected, actual));
        }
        Ok(LaunchConfig {
            grid_dim: (checks.grid(kernel.blocks(&shape.sizes))?, 1, 1),
            block_dim: (kernel.threads(head_dim) as u32, 1, 1),
            shared_mem_bytes: bytes as u32,
        })
    }

    /// The kernels for a head dimension, loaded once and allowed the shared memory that they need.
    fn functions(
        &self,
        kernels: [BackwardKernel; 3],
        head_dim: usize,
    ) -> Result<[CudaFunction; 3], Error> {
        // A panic cannot leave it half changed.
        let loaded = self.functions.lock();
        let mut loaded = loaded.unwrap_or_else(PoisonError::into_inner);
        if let Some(functions) = loaded.get(&(kernels[0], head_dim)) {
            return Ok(functions.clone());
        }
        let load = |kernel: BackwardKernel| {
            let constants = kernel.constants(head_dim);
            let constants = constants.iter().map(|(name, value)| (*name, &**value));
            let constants = Vec::from_iter(constants);
            let module = KERNELS.load(&self.context, kernel.file(), &constants)?;
            let function = module.load_function(kernel.name())?;
            let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(dynamic, kernel.shared_bytes(head_dim) as i32)?;
            Ok::<_, Error>(function)
        };
        let [row_dots, keys, queries] = kernels;
        let functions = [load(row_dots)?, load(keys)?, load(queries)?];
        loaded.insert((kernels[0], head_dim), functions.clone());
        Ok(functions)
    }
}

/// Launches the kernels one after the other, and does not wait. The arguments have been checked;
/// `T` is the type of the kernels' tensors.
fn launch<T>(
    stream: &Arc<CudaStream>,
    [row_dots, dk_dv, only_dq]: &[CudaFunction; 3],
    [of_rows, of_keys, of_queries]: [LaunchConfig; 3],
    inputs: BackwardInputs<'_, T>,
    gradients: Gradients<'_, T>,
    shape: &Shape,
) -> Result<(), Error> {
    let s = shape.sizes;
    let (rows, columns) = ((s.batch * s.heads * s.nq) as i64, s.head_dim as i32);
    let (nq, nk, scale, causal) = (s.nq as i32, s.nk as i32, shape.scale(), shape.causal as i32);
    let BackwardInputs {
        forward,
        o,
        lse,
        d_o,
    } = &inputs;
    let Gradients {
        mut dq,
        mut dk,
        mut dv,
    } = gradients;
    // SAFETY: `row_dots` writes every element before another kernel reads one.
    let mut delta = unsafe { stream.alloc::<f32>((rows as usize).max(1)) }?;
    if of_rows.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(row_dots);
        builder.arg(d_o).arg(o).arg(&mut delta);
        builder.arg(&rows).arg(&columns);
        // SAFETY: these are the kernel's parameters, in order, and `T` is the type
        // of its elements. Its tensors are packed and have as
        // many rows and columns; a warp writes a number of its own.
        unsafe { builder.launch(of_rows) }?;
    }
    if of_keys.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(dk_dv);
        builder.arg(&forward.q).arg(&forward.k).arg(&forward.v);
        builder
            .arg(d_o)
            .arg(lse)
            .arg(&delta)
            .arg(&mut dk)
            .arg(&mut dv);
        builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
        // SAFETY: these are the kernel's parameters, in order. The tensors are packed and lie
        // inside their views; a block writes rows of its own.
        unsafe { builder.launch(of_keys) }?;
    }
    if of_queries.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(only_dq);
        builder.arg(&forward.q).arg(&forward.k).arg(&forward.v);
        builder.arg(d_o).arg(lse).arg(&delta).arg(&mut dq);
        builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
        // SAFETY: as before.
        unsafe { builder.launch(of_queries) }?;
    }
    Ok(())
}
