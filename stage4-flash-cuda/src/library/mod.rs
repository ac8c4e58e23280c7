//! Host side of the library's kernel, `kernels/library/attention.cu`: shared memory, the tiles
//! it can have, the launch.

mod problem;
pub mod tensor_cores;
pub mod tiles;
pub mod warpgroups;

use cudarc::driver::{
    CudaFunction, CudaStream, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
};
use gpu::arguments::OptionalArg;

pub use tiles::Tile;

use crate::{Inputs, Outputs, Shape};
pub(crate) use problem::Problem;

/// The kernel file.
pub(crate) const FILE: &str = "library/attention.cu";

/// The kernel's name.
pub(crate) const KERNEL: &str = "attention";

/// Queries of a thread.
const ROWS: usize = 8;

/// Head dimensions for which a kernel is always committed, so that any other can be padded: those
/// that FlashAttention is built for, but for 224, where the compiler keeps registers in memory.
pub const PADDED: [usize; 7] = [32, 64, 96, 128, 160, 192, 256];

/// Those of [`PADDED`] for which a kernel with dropout is committed.
pub const PADDED_WITH_DROPOUT: [usize; 2] = [64, 128];

/// The first of some head dimensions that another can be padded to; itself if there is none.
pub(crate) fn padded(head_dim: usize, among: &[usize]) -> usize {
    let next = among.iter().find(|&&padded| head_dim <= padded);
    next.copied().unwrap_or(head_dim)
}

/// Threads that share a row of scores.
fn threads_per_row(tile: Tile) -> usize {
    tile.threads * ROWS / tile.block_q.max(1)
}

/// Dynamic shared memory of a block, in bytes.
pub(crate) fn shared_bytes(columns: usize, tile: Tile) -> usize {
    let vectors = columns.div_ceil(4);
    let row = 4 * (vectors | 1);
    let (q, k) = (tile.block_q * row, tile.block_kv * row);
    let p = tile.block_q * (tile.block_kv + threads_per_row(tile) % 32);
    let v = tile.block_kv * 4 * vectors;
    (q + k.max(p) + v) * size_of::<f32>()
}

/// True if the kernel can be compiled with this tile, none of whose sizes is 0.
pub(crate) fn suits(tile: Tile) -> bool {
    let row = threads_per_row(tile);
    tile.threads.is_multiple_of(32)
        && tile.block_q.is_multiple_of(ROWS)
        && [8, 16, 32].contains(&row)
        && row * tile.block_q == tile.threads * ROWS
        && tile.block_kv.is_multiple_of(row.max(4))
}

/// The tiles that `tune` tries, large ones first. None has more queries than a block of the block
/// mask: such a tile could be skipped only where two blocks are hidden.
pub fn candidates() -> Vec<Tile> {
    let mut tiles = Vec::new();
    for block_q in [64, 32, 16] {
        for block_kv in [64, 32, 16] {
            for threads_per_row in [8, 16, 32] {
                let threads = block_q / ROWS * threads_per_row;
                tiles.push(Tile::new(block_q, block_kv, threads));
            }
        }
    }
    tiles.retain(|&tile| suits(tile));
    tiles
}

// ANCHOR: launch
/// Launches the kernel, and does not wait. Every element that the shape names lies inside its view.
pub(crate) fn launch<T: DeviceRepr>(
    stream: &CudaStream,
    function: &CudaFunction,
    config: LaunchConfig,
    inputs: Inputs<'_, T>,
    outputs: Outputs<'_, T>,
    shape: &Shape,
) -> Result<(), DriverError> {
    let problem = Problem::new(shape, &inputs);
    let Outputs { mut o, mut lse } = outputs;
    let mut builder = stream.launch_builder(function);
    builder.arg(&inputs.q).arg(&inputs.k).arg(&inputs.v);
    builder.optional(inputs.mask.as_ref().map(|mask| &mask.values));
    builder.optional(inputs.key_lengths.as_ref());
    builder.optional(inputs.blocks.as_ref().map(|blocks| &blocks.values));
    builder.arg(&mut o).optional(lse.as_mut()).arg(&problem);
    // SAFETY: these are the kernel's parameters, in order. Every element that the
    // problem names lies inside the views; an argument that is null is not touched;
    // every block writes rows of its own.
    unsafe { builder.launch(config) }?;
    Ok(())
}
// ANCHOR_END: launch
