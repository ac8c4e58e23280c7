//! Task `tune`, solved: the tile of a kernel that is given, for each shape.

use stage4_flash_cuda::Sizes;
use stage4_flash_cuda::library::Tile;

/// Multiprocessors of an H100.
pub const MULTIPROCESSORS: usize = 132;

// ANCHOR: tile
/// The tile for a shape of any size with D = 64 or 128.
///
/// 128 keys: few steps, with barriers each. As few threads as do not spill. Of two numbers of
/// queries the one that gives the busiest multiprocessor less to do: its queries, and 10 more for
/// each of its blocks, because a block reads all of k and v.
pub fn tile(sizes: &Sizes) -> Tile {
    if sizes.head_dim > 64 {
        return Tile::new(64, 128, 128);
    }
    let [few, many] = [Tile::new(32, 128, 128), Tile::new(128, 128, 256)];
    let cost = |tile: Tile| {
        let blocks = sizes.nq.div_ceil(tile.block_q) * sizes.batch * sizes.heads;
        blocks.div_ceil(MULTIPROCESSORS) * (tile.block_q + 10)
    };
    if cost(few) < cost(many) { few } else { many }
}
// ANCHOR_END: tile
