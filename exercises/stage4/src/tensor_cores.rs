//! Host side of the bonus tasks `mma`, `swizzle`, `pipeline` and `wgmma`: attention on tensors of
//! f16.
//!
//! This file is done: it checks the arguments, loads the kernel of the task with your tile, and
//! launches it. The kernel of `wgmma` gets tensor maps of q, k and v.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::{Checks, OptionalArg};
use half::f16;
use stage4_flash_cuda::tensor_map::tensor_maps;
use stage4_flash_cuda::{Error, Fused, Inputs, Outputs, Rung, Shape};

use crate::{mma, pipeline, swizzle, wgmma};

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
            let expected = format!("one of {:?}", self.rung.head_dims());
            return Err(checks.error("head_dim", expected, sizes.head_dim).into());
        }
        let (tile, shared_bytes) = match self.rung {
            Rung::Mma => (mma::tile(sizes.head_dim), 0),
            Rung::Swizzle => (swizzle::tile(sizes.head_dim), 0),
            Rung::Pipeline => (pipeline::tile(sizes.head_dim), 0),
            Rung::Wgmma => {
                let tile = wgmma::tile(sizes.head_dim);
                (tile, wgmma::shared_bytes(sizes.head_dim, tile))
            }
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
        let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        kernel.set_attribute(dynamic, shared_bytes as i32)?;
        let blocks = sizes.nq.div_ceil(tile.block_q) * sizes.batch * sizes.heads;
        let config = LaunchConfig {
            grid_dim: (checks.grid(blocks)?, 1, 1),
            block_dim: (tile.threads as u32, 1, 1),
            shared_mem_bytes: shared_bytes as u32,
        };
        let Outputs { mut o, mut lse } = outputs;
        let (nq, nk) = (sizes.nq as i32, sizes.nk as i32);
        let (scale, causal) = (shape.scale(), i32::from(shape.causal));
        let maps;
        let mut builder = self.stream.launch_builder(&kernel);
        if self.rung == Rung::Wgmma {
            maps = tensor_maps(&self.stream, &inputs, &sizes, tile)?;
            let ([q, k, v], _) = &maps;
            builder.arg(q).arg(k).arg(v);
        } else {
            builder.arg(&inputs.q).arg(&inputs.k).arg(&inputs.v);
        }
        builder.arg(&mut o).optional(lse.as_mut());
        builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
        // SAFETY: these are the parameters of the kernel, in order. The tensors are packed and lie
        // inside the views; `lse` is not touched if it is null; every block writes rows of its own.
        unsafe { builder.launch(config) }?;
        Ok(())
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        self.rung.head_dims().contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
