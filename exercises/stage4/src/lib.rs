//! Exercise 4, task `flash` (4 points in 4 steps): FlashAttention as one CUDA kernel.
//!
//! `o = softmax(scale · q kᵀ) v` and the log-sum-exp of each row, in one launch, which writes
//! each element of both once; no score is ever in global memory. Tensors are packed f32,
//! `[B, H, N, D]`, with as many heads of `k` and `v` as of `q`.
//!
//! You write two files:
//!
//! - `kernels/flash.cu`: the kernel. The comment in it says what a block does.
//! - `src/launch.rs`: how many queries, keys and threads a block has, for each head dimension;
//!   grid, block and arguments.
//!
//! The steps are graded one by one, a point each. Each has problems of its own, scores of ±10,000
//! among them:
//!
//! | step | `nq` and `nk` | `D` | mask |
//! |---|---|---|---|
//! | `flash/tile` | 32 | 64, 128 | none |
//! | `flash/online` | multiples of 64 | 64, 128 | none |
//! | `flash/ragged` | any | all four | none |
//! | `flash/causal` | any | all four | causal; hidden tiles are skipped, as up to 256 queries a block allow |
//!
//! This file is done: it checks the arguments, loads the kernel and calls your launch.
//! `cargo grade watch 4/flash` judges the steps up to the first that lacks more than speed, at
//! every save; `cargo grade hint 4/flash` helps with it.
//!
//! Four bonus tasks, 1 point each, go on from there to tensor cores, on tensors of f16:
//!
//! | task | you write |
//! |---|---|
//! | `mma` | `kernels/mma.cu`, both products by `mma.sync`; its tile in `src/mma.rs` |
//! | `swizzle` | `kernels/swizzle.cu`, without bank conflicts; `src/swizzle.rs` |
//! | `pipeline` | `kernels/pipeline.cu`, with `cp.async`; `src/pipeline.rs` |
//! | `wgmma` | the products and the softmax of `kernels/wgmma.cu`, by `wgmma`; `src/wgmma.rs` |
//!
//! `src/tensor_cores.rs` is their host side, and `kernels/mma.cuh`, `hopper.cuh` and `wgmma.cuh`
//! have the instructions. All are done.
//!
//! Another one is about the gradients, in f32: `backward`. You write `kernels/recompute_dk_dv.cu`
//! and `kernels/recompute_dq.cu`; their tiles and grids in `src/backward.rs`. `src/gradients.rs` is
//! their host side, and `kernels/tile.cuh` has products of tiles. Both are done.
//!
//! The last one has no kernel of yours: in `tune` you choose the tile of the course's, for each
//! shape, in `src/tune.rs`. `cargo grade tune` shows what each tile costs.

mod launch;

use std::sync::Arc;

use cudarc::driver::CudaStream;
use gpu::arguments::Checks;
use stage1_reference::Feature;
use stage4_flash_cuda::{Error, Fused, Inputs, Outputs, Shape};

static KERNELS: gpu::Bundle = gpu::bundle!();

/// The options that the task does not ask for. It does ask for scale and causal mask.
pub const LACKS: [Feature; 7] = [
    Feature::Window,
    Feature::KeyLengths,
    Feature::AdditiveMask,
    Feature::BlockSparse,
    Feature::Dropout,
    Feature::GroupedHeads,
    Feature::Strides,
];

/// The head dimensions that are asked for. 40 is no multiple of a warp.
pub const HEAD_DIMS: [usize; 4] = [16, 40, 64, 128];

/// The part of the scores that a block computes at a time: it has a tile of queries, and takes
/// tiles of keys one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Tile {
    /// Queries of a block, `BLOCK_Q` in the kernel.
    pub block_q: usize,
    /// Keys of a tile, `BLOCK_KV` in the kernel.
    pub block_kv: usize,
    /// Threads of a block, `THREADS` in the kernel.
    pub threads: usize,
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
        let tile = launch::tile(sizes.head_dim);
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
        launch::launch(&self.stream, &flash, tile, inputs, outputs, shape)
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        HEAD_DIMS.contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
