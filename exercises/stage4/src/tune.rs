//! Task `tune` (1 point, a bonus): the tile of a kernel that is given, for each shape.
//!
//! The kernel is `stage4-flash-cuda/kernels/library/attention.cu`; its first lines say how a block
//! shares its work among threads. It takes any of these tiles:
//!
//! - BLOCK_Q queries and BLOCK_KV keys: 16, 32, 64 or 128 each;
//! - THREADS: 1, 2 or 4 times BLOCK_Q, at least 32, so that 8, 16 or 32 threads share 8 rows of
//!   scores; no more of them than BLOCK_KV.
//!
//! `cargo grade tune` compiles each tile and shows registers, spills, shared memory, blocks on a
//! multiprocessor, waves and the modelled time on an H100, for the three shapes that are judged.
//! All points are up to 1.1 times the best time at each; a tile that spills does not count.

#![allow(unused)] // remove this line when nothing is left to do

use stage4_flash_cuda::Sizes;
use stage4_flash_cuda::library::Tile;

/// Multiprocessors of an H100.
pub const MULTIPROCESSORS: usize = 132;

/// The tile for a shape of any size with D = 64 or 128. `sizes` has `batch`, `heads`, `nq`, `nk`
/// and `head_dim`. A launch has `nq.div_ceil(block_q) * batch * heads` blocks.
pub fn tile(sizes: &Sizes) -> Tile {
    // `Tile::new(queries, keys, threads)`: BLOCK_Q, BLOCK_KV and THREADS in the kernel.
    todo!("TODO, task 4/tune: the tile")
}
