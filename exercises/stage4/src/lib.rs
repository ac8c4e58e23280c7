//! Exercise 4, task `flash` (4 points): FlashAttention as one CUDA kernel.
//!
//! `o = softmax(scale · q kᵀ) v` and the log-sum-exp of each row, in one launch; no score is ever in global memory. Tensors are
//! packed f32, `[B, H, N, D]`, with as many heads of `k` and `v` as of `q`.
//!
//! You write three things:
//!
//! - `kernels/flash.cu`: the kernel. The comment in it says what a block does.
//! - [`tile`]: how many queries, keys and threads a block has, for each head dimension.
//! - [`launch`]: grid, block and arguments.
//!
//! Everything else is done. `cargo grade 4` judges it, `cargo grade hint 4/flash` helps.

#![allow(unused)] // remove this line when nothing is left to do

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::{Checks, OptionalArg};
use stage1_reference::Feature;
use stage4_flash_cuda::{Error, Fused, Inputs, Outputs, Shape};

static KERNELS: gpu::Bundle = gpu::bundle!();

/// What the task does not ask for. Scale and causal mask it does.
pub const LACKS: [Feature; 6] = [
    Feature::Window,
    Feature::KeyLengths,
    Feature::AdditiveMask,
    Feature::BlockSparse,
    Feature::GroupedHeads,
    Feature::Strides,
];

/// The head dimensions that are asked for. 40 is no multiple of a warp.
pub const HEAD_DIMS: [usize; 4] = [16, 40, 64, 128];

/// What a block computes: a tile of queries, with tiles of keys one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Tile {
    /// Queries of a block, `BLOCK_Q` in the kernel.
    pub block_q: usize,
    /// Keys of a tile, `BLOCK_KV` in the kernel.
    pub block_kv: usize,
    /// Threads of a block, `THREADS` in the kernel.
    pub threads: usize,
}

/// The tile for a head dimension of [`HEAD_DIMS`].
///
/// The kernel's shared arrays must fit: 48 KiB is the most for arrays of fixed size.
pub fn tile(head_dim: usize) -> Tile {
    // TODO, task 4/flash: does this fit your kernel, and every head dimension?
    Tile {
        block_q: 16,
        block_kv: 32,
        threads: 128,
    }
}

/// Launches `flash` on `stream`, and does not wait. All arguments have been checked, and `o` is not empty.
///
/// The parameters of the kernel, in order: q, k, v, o, lse (a null pointer if it is not wanted), nq, nk, scale, causal. Sizes are
/// `i32`, causal is 0 or 1.
fn launch(
    stream: &Arc<CudaStream>,
    flash: &CudaFunction,
    tile: Tile,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    // A `LaunchConfig`; `stream.launch_builder(flash)` with `arg` for each parameter, `optional(lse.as_mut())` for lse and
    // `shape.scale()` for the scale; `unsafe { builder.launch(config) }?`.
    todo!("TODO, task 4/flash: the launch")
}

/// Your implementation.
#[derive(Debug)]
pub struct Own {
    stream: Arc<CudaStream>,
}

impl Own {
    /// Launches on `stream`.
    pub fn new(stream: &Arc<CudaStream>) -> Self {
        let stream = stream.clone();
        Self { stream }
    }
}

impl Fused for Own {
    type Error = Error;

    fn forward(
        &self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let checks = Checks::new("flash", self.stream.context());
        shape.check(&checks, &inputs, &outputs)?;
        shape.refuse("flash", &inputs, &LACKS)?;
        let sizes = shape.sizes;
        if [sizes.batch, sizes.heads, sizes.nq].contains(&0) {
            return Ok(());
        }
        if !self.has_head_dim(sizes.head_dim) {
            let expected = format!("one of {HEAD_DIMS:?}");
            return Err(checks.error("head_dim", expected, sizes.head_dim).into());
        }
        let tile = tile(sizes.head_dim);
        let constants = [
            ("HEAD_DIM", sizes.head_dim),
            ("BLOCK_Q", tile.block_q),
            ("BLOCK_KV", tile.block_kv),
            ("THREADS", tile.threads),
        ];
        let constants = constants.map(|(name, value)| (name, value.to_string()));
        let constants = constants.each_ref().map(|(name, value)| (*name, &**value));
        let module = KERNELS.load(self.stream.context(), "flash.cu", &constants)?;
        let flash = module.load_function("flash")?;
        launch(&self.stream, &flash, tile, inputs, outputs, shape)
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        HEAD_DIMS.contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        match error {
            Error::Argument(error) => Some(error.argument),
            Error::Attention(error) => Some(error.argument()),
            _ => None,
        }
    }
}
