//! Host side of the bonus tasks `mma`, `swizzle` and `pipeline`: attention on tensors of f16.
//!
//! This file is done: it checks the arguments, loads the kernel of the task with your tile, and
//! launches it.

use std::sync::Arc;

use cudarc::driver::{CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::{Checks, OptionalArg};
use half::f16;
use stage4_flash_cuda::library::Tile;
use stage4_flash_cuda::{Error, Fused, Inputs, Outputs, Rung, Shape};

use crate::{mma, pipeline, swizzle};

static KERNELS: gpu::Bundle = gpu::bundle!();

/// Your implementation of a bonus task.
#[derive(Debug)]
pub struct Bonus {
    stream: Arc<CudaStream>,
    /// The rung that solves the task. Task and kernel have its name.
    rung: Rung,
}

impl Bonus {
    /// Launches on `stream`.
    pub fn new(stream: &Arc<CudaStream>, rung: Rung) -> Self {
        let stream = stream.clone();
        Self { stream, rung }
    }
}

impl Fused<f16> for Bonus {
    type Error = Error;

    fn forward(
        &self,
        inputs: Inputs<'_, f16>,
        outputs: Outputs<'_, f16>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let (name, sizes) = (self.rung.name(), shape.sizes);
        let checks = Checks::new(name, self.stream.context());
        self.rung
            .check(&checks, &self.stream, &inputs, &outputs, shape)?;
        if [sizes.batch, sizes.heads, sizes.nq].contains(&0) {
            return Ok(());
        }
        if !self.has_head_dim(sizes.head_dim) {
            let expected = format!("one of {:?}", Rung::HEAD_DIMS);
            return Err(checks.error("head_dim", expected, sizes.head_dim).into());
        }
        let tile: Tile = match self.rung {
            Rung::Mma => mma::tile(sizes.head_dim),
            Rung::Swizzle => swizzle::tile(sizes.head_dim),
            Rung::Pipeline => pipeline::tile(sizes.head_dim),
            other => return Err(checks.error("rung", "that of a bonus task", other).into()),
        };
        let constants = [
            ("HEAD_DIM", sizes.head_dim),
            ("BLOCK_Q", tile.block_q),
            ("BLOCK_KV", tile.block_kv),
            ("THREADS", tile.threads),
        ];
        let constants = constants.map(|(name, value)| (name, value.to_string()));
        let constants = constants.each_ref().map(|(name, value)| (*name, &**value));
        let file = format!("{name}.cu");
        let module = KERNELS.load(self.stream.context(), &file, &constants)?;
        let kernel = module.load_function(name)?;
        let blocks = sizes.nq.div_ceil(tile.block_q) * sizes.batch * sizes.heads;
        let config = LaunchConfig {
            grid_dim: (checks.grid(blocks)?, 1, 1),
            block_dim: (tile.threads as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let Outputs { mut o, mut lse } = outputs;
        let (nq, nk) = (sizes.nq as i32, sizes.nk as i32);
        let (scale, causal) = (shape.scale(), i32::from(shape.causal));
        let mut builder = self.stream.launch_builder(&kernel);
        builder.arg(&inputs.q).arg(&inputs.k).arg(&inputs.v);
        builder.arg(&mut o).optional(lse.as_mut());
        builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
        // SAFETY: these are the parameters of the kernels, in order. The tensors are packed and lie
        // inside the views; `lse` is not touched if it is null; every block writes rows of its own.
        unsafe { builder.launch(config) }?;
        Ok(())
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        Rung::HEAD_DIMS.contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
