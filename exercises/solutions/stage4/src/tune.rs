//! Task `tune`, solved: the tile of a kernel that is given, for each shape.

use stage4_flash_cuda::Sizes;
use stage4_flash_cuda::library::Tile;

/// Multiprocessors of an H100.
pub const MULTIPROCESSORS: usize = 132;

/// The tile for a shape of any size with D = 64 or 128.
///
/// 128 keys, so that there are few steps with a barrier each. Many queries, so that k and v are read
/// by few blocks, but no more than leave a block for each multiprocessor. The registers decide on
/// the threads: with twice as many, each has half as many scores.
pub fn tile(sizes: &Sizes) -> Tile {
    let blocks = |block_q| sizes.nq.div_ceil(block_q) * sizes.batch * sizes.heads;
    match sizes.head_dim {
        65.. => Tile::new(64, 128, 128),
        _ if blocks(128) >= MULTIPROCESSORS => Tile::new(128, 128, 256),
        _ => Tile::new(32, 128, 128),
    }
}
