//! Task `wgmma` (1 point, a bonus): the tile of `kernels/wgmma.cu`, and its shared memory.
//!
//! The simulator multiplies at once, so it shows no wrong number where a GPU may. It keeps a record
//! of what a GPU would still be doing, and reports:
//!
//! | finding | meaning | in `cuda-sim/findings/` |
//! |---|---|---|
//! | missing wgmma.fence | a product may read a register from before it was written | `missing-wgmma-fence.md` |
//! | product in flight | sums or p are used before `wgmma_wait_group` | `product-in-flight.md` |
//! | race | a tile is read before it is there, or copied over while it is read | `asynchronous-race.md` |
//! | bad matrix descriptor | a factor is not all in shared memory | `bad-descriptor.md` |
//! | no proxy fence | a product reads what threads have stored | `proxy-fence.md` |
//! | warpgroup out of step | not all four warps start the same product | `warpgroup-out-of-step.md` |
//! | deadlock | arrivals or bytes of an mbarrier do not add up | `deadlock.md` |
//!
//! A descriptor of other elements in shared memory breaks no rule: the values are wrong.
//!
//! The kernel needs the pinned compiler, NVRTC, as in the other tasks: `cargo gpu fetch-nvrtc`.

#![allow(unused)] // remove this line when nothing is left to do

use stage4_flash_cuda::library::Tile;

/// The tile for a head dimension of 64 or 128.
///
/// A warpgroup of 128 threads has 64 queries, and the producer is a warp more. `wgmma_rows` takes
/// 128 keys.
pub fn tile(head_dim: usize) -> Tile {
    // `Tile::new(queries, keys, threads)`: BLOCK_Q, BLOCK_KV and THREADS in the kernel.
    todo!("TODO, task 4/wgmma: the tile")
}

/// Bytes of dynamic shared memory of a block: a tile of q, and two of k and of v. With the barriers
/// 227 KiB are the most.
pub fn shared_bytes(head_dim: usize, tile: Tile) -> usize {
    (tile.block_q + 4 * tile.block_kv) * head_dim * size_of::<u16>()
}
