//! Task `swizzle` (1 point, a bonus): the tile of `kernels/swizzle.cu`.

#![allow(unused)] // remove this line when nothing is left to do

use stage4_flash_cuda::library::Tile;

/// The tile for a head dimension of 16, 64 or 128.
///
/// The kernel's shared arrays must fit: 48 KiB is the most for arrays of fixed size.
pub fn tile(head_dim: usize) -> Tile {
    // `Tile::new(queries, keys, threads)`: BLOCK_Q, BLOCK_KV and THREADS in the kernel.
    todo!("TODO, task 4/swizzle: the tile")
}
