//! Task `flash`, solved: the tile and the launch of `kernels/flash.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;
use stage4_flash_cuda::{Error, Inputs, Outputs, Shape};

use crate::Tile;

/// The tile for a head dimension of [`HEAD_DIMS`](crate::HEAD_DIMS).
///
/// The kernel's shared arrays must fit: 48 KiB is the most for arrays of fixed size.
pub fn tile(head_dim: usize) -> Tile {
    // A warp has 4 queries, and a lane one key of a tile. At D = 128 tiles of k
    // and v alone take 32 KiB.
    let (block_q, threads) = if head_dim > 96 { (16, 128) } else { (32, 256) };
    Tile {
        block_q,
        block_kv: 32,
        threads,
    }
}

/// Launches `flash` on `stream`, and does not wait. All arguments have been
/// checked, and `o` is not empty.
///
/// The parameters of the kernel, in order: q, k, v, o, lse (a null pointer if it is not wanted),
/// nq, nk, scale, causal. Sizes are `i32`, causal is 0 or 1.
pub fn launch(
    stream: &Arc<CudaStream>,
    flash: &CudaFunction,
    tile: Tile,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    let sizes = shape.sizes;
    let blocks = sizes.nq.div_ceil(tile.block_q) * sizes.batch * sizes.heads;
    let config = LaunchConfig {
        grid_dim: (blocks as u32, 1, 1),
        block_dim: (tile.threads as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    let Outputs { mut o, mut lse } = outputs;
    let (nq, nk) = (sizes.nq as i32, sizes.nk as i32);
    let (scale, causal) = (shape.scale(), i32::from(shape.causal));
    let mut builder = stream.launch_builder(flash);
    builder.arg(&inputs.q).arg(&inputs.k).arg(&inputs.v);
    builder.arg(&mut o).optional(lse.as_mut());
    builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
    // SAFETY: these are the parameters of `flash`, in order. The tensors are packed and lie inside
    // the views; `lse` is not touched if it is null; every block writes rows of its own.
    unsafe { builder.launch(config) }?;
    Ok(())
}
