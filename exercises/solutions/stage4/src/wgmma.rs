//! Task `wgmma`, solved: the tile of `kernels/wgmma.cu`, and its shared memory.

use stage4_flash_cuda::library::Tile;

/// The tile for a head dimension of 64 or 128.
///
/// A warpgroup of 128 threads has 64 queries, and the producer is a warp more. `wgmma_rows` takes
/// 128 keys.
pub fn tile(_: usize) -> Tile {
    // Two warpgroups read the same tile of k and v.
    Tile::new(128, 128, 288)
}

/// Bytes of dynamic shared memory of a block: a tile of q, and two of k and of v. With the barriers
/// 227 KiB are the most.
pub fn shared_bytes(head_dim: usize, tile: Tile) -> usize {
    (tile.block_q + 4 * tile.block_kv) * head_dim * size_of::<u16>()
}
