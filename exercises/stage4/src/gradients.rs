//! Host side of the bonus task `backward`: the gradients of attention, on tensors of f32.
//!
//! This file is done: it checks the arguments, computes delta by the course's kernel, loads your
//! kernels with their tiles, and launches them.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::Checks;
use stage4_flash_cuda::library::Tile;
use stage4_flash_cuda::{
    BackwardInputs, BackwardMode, Error, FusedBackward, Gradients, Rung, Shape, Sizes,
};

use crate::backward;

static KERNELS: gpu::Bundle = gpu::bundle!();

/// The launch of a kernel.
#[derive(Debug)]
pub struct Plan {
    /// BLOCK_Q, BLOCK_KV and THREADS in the kernel.
    pub tile: Tile,
    /// Blocks of the grid.
    pub blocks: usize,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: usize,
}

/// Your implementation of the bonus task.
#[derive(Debug)]
pub struct Backward {
    stream: Arc<CudaStream>,
}

impl Backward {
    /// Launches on `stream`.
    pub fn new(stream: &Arc<CudaStream>) -> Self {
        let stream = stream.clone();
        Self { stream }
    }

    /// The sum of `d_o · o` over each row, `[B, H, nq]`.
    fn delta(&self, inputs: &BackwardInputs<'_>, sizes: &Sizes) -> Result<CudaSlice<f32>, Error> {
        let context = self.stream.context();
        let module = stage4_flash_cuda::KERNELS.load(context, "backward/row_dots.cu", &[])?;
        let row_dots = module.load_function("row_dots")?;
        let rows = sizes.batch * sizes.heads * sizes.nq;
        // SAFETY: `row_dots` writes every element before another kernel reads one.
        let mut delta = unsafe { self.stream.alloc::<f32>(rows) }?;
        let config = LaunchConfig {
            grid_dim: (rows.div_ceil(8) as u32, 1, 1), // a warp has a row
            block_dim: (256, 1, 1),
            shared_mem_bytes: 0,
        };
        let (rows, columns) = (rows as i64, sizes.head_dim as i32);
        let mut builder = self.stream.launch_builder(&row_dots);
        builder.arg(&inputs.d_o).arg(&inputs.o).arg(&mut delta);
        builder.arg(&rows).arg(&columns);
        // SAFETY: these are the kernel's parameters, in order. The tensors are packed and lie in
        // the views; a warp writes a number of its own.
        unsafe { builder.launch(config) }?;
        Ok(delta)
    }

    /// A kernel, compiled for a plan and a head dimension, and its launch.
    fn load(
        &self,
        checks: &Checks,
        name: &str,
        plan: &Plan,
        head_dim: usize,
    ) -> Result<(CudaFunction, LaunchConfig), Error> {
        let constants = [
            ("HEAD_DIM", head_dim),
            ("BLOCK_Q", plan.tile.block_q),
            ("BLOCK_KV", plan.tile.block_kv),
            ("THREADS", plan.tile.threads),
        ];
        let constants = constants.map(|(name, value)| (name, value.to_string()));
        let constants = constants.each_ref().map(|(name, value)| (*name, &**value));
        let file = format!("{name}.cu");
        let module = KERNELS.load(self.stream.context(), &file, &constants)?;
        let kernel = module.load_function(name)?;
        let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        kernel.set_attribute(dynamic, plan.shared_bytes as i32)?;
        let config = LaunchConfig {
            grid_dim: (checks.grid(plan.blocks)?, 1, 1),
            block_dim: (plan.tile.threads as u32, 1, 1),
            shared_mem_bytes: plan.shared_bytes as u32,
        };
        Ok((kernel, config))
    }
}

impl FusedBackward for Backward {
    type Error = Error;

    fn backward(
        &self,
        inputs: BackwardInputs<'_>,
        gradients: Gradients<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let (sizes, stream) = (&shape.sizes, &self.stream);
        let checks = Checks::new("backward", stream.context());
        let rung = BackwardMode::Recompute;
        inputs.check(&checks, stream, &gradients, shape, rung)?;
        let heads = sizes.batch * sizes.heads;
        let delta = match heads * sizes.nq {
            0 => stream.alloc_zeros(1)?,
            _ => self.delta(&inputs, sizes)?,
        };
        let BackwardInputs {
            forward, lse, d_o, ..
        } = &inputs;
        let Gradients {
            mut dq,
            mut dk,
            mut dv,
        } = gradients;
        let (nq, nk) = (sizes.nq as i32, sizes.nk as i32);
        let (scale, causal) = (shape.scale(), i32::from(shape.causal));
        if heads * sizes.nk > 0 {
            let plan = backward::keys_and_values(sizes);
            let name = "recompute_dk_dv";
            let (kernel, config) = self.load(&checks, name, &plan, sizes.head_dim)?;
            let mut builder = stream.launch_builder(&kernel);
            builder.arg(&forward.q).arg(&forward.k).arg(&forward.v);
            builder
                .arg(d_o)
                .arg(lse)
                .arg(&delta)
                .arg(&mut dk)
                .arg(&mut dv);
            builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
            // SAFETY: these are the kernel's parameters, in order. The tensors are packed and lie
            // inside the views; every block writes rows of its own.
            unsafe { builder.launch(config) }?;
        }
        if heads * sizes.nq > 0 {
            let plan = backward::queries(sizes);
            let name = "recompute_dq";
            let (kernel, config) = self.load(&checks, name, &plan, sizes.head_dim)?;
            let mut builder = stream.launch_builder(&kernel);
            builder.arg(&forward.q).arg(&forward.k).arg(&forward.v);
            builder.arg(d_o).arg(lse).arg(&delta).arg(&mut dq);
            builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
            // SAFETY: as before.
            unsafe { builder.launch(config) }?;
        }
        Ok(())
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        Rung::HEAD_DIMS.contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
