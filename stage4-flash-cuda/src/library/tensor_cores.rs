//! Tiles and shared memory of the library's kernel in half precision, `attention_mma.cu`, and what
//! those of the backward pass share with it.

use super::Tile;

/// The kernel file.
pub(crate) const FILE: &str = "library/attention_mma.cu";

/// The kernel's name.
pub(crate) const KERNEL: &str = "attention_mma";

/// Head dimensions for which a kernel is always committed, so that any other can be padded.
pub const PADDED: [usize; 3] = [64, 128, 256];

/// The tile for a head dimension: the largest whose accumulators leave registers for the rest. Two
/// blocks of it fit in the shared memory of a multiprocessor from compute capability 8.0 on.
pub const fn tile(head_dim: usize) -> Tile {
    match head_dim {
        0..=128 => Tile::new(64, 64, 64),
        _ => Tile::new(32, 32, 64),
    }
}

/// Vectors of 8 elements of a row that are multiplied.
const fn vectors(columns: usize) -> usize {
    columns.div_ceil(16) * 2
}

/// Vectors from row to row in shared memory: `STRIDE` of `half_rows.cuh`.
pub(crate) const fn stride(columns: usize) -> usize {
    match vectors(columns) {
        vectors if vectors.is_multiple_of(8) => vectors,
        vectors => vectors | 1,
    }
}

/// Dynamic shared memory of a block, in bytes.
pub(crate) const fn shared_bytes(columns: usize, tile: Tile) -> usize {
    (tile.block_q + 2 * tile.block_kv) * stride(columns) * 16
}

/// True if the kernel can be compiled with this tile, none of whose sizes is 0.
pub(crate) fn suits(columns: usize, tile: Tile) -> bool {
    let rows = tile.threads / vectors(columns).next_power_of_two(); // that the threads copy at a time
    let tiles = 2 * tile.block_q / tile.threads; // of 16 queries, of a warp
    tile.threads.is_multiple_of(32)
        && [1, 2].contains(&tiles)
        && tiles * tile.threads == 2 * tile.block_q
        && [16, 32, 64].contains(&tile.block_kv)
        && rows > 0
        && tile.block_q.is_multiple_of(rows)
        && tile.block_kv.is_multiple_of(rows)
}
