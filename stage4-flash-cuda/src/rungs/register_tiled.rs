//! Rung 3, `kernels/3_register_tiled.cu`: a square of scores and of outputs in the registers of each thread.

use cudarc::driver::DriverError;

use super::{Launch, Rung, Shared, options};
use crate::tiles::Tile;

/// Queries of a thread.
const ROWS: usize = 8;

/// Compiled for exactly `D` columns.
pub(super) struct RegisterTiled;

/// Threads that share a row of scores.
fn threads_per_row(tile: Tile) -> usize {
    tile.threads * ROWS / tile.block_q.max(1)
}

impl Rung for RegisterTiled {
    fn file(&self) -> &'static str {
        "3_register_tiled.cu"
    }

    fn kernel(&self) -> &'static str {
        "register_tiled"
    }

    fn constants(&self, head_dim: usize) -> Vec<(&'static str, usize)> {
        vec![("HEAD_DIM", head_dim)]
    }

    fn shared(&self, head_dim: usize, tile: Tile) -> Shared {
        let chunks = head_dim.div_ceil(4);
        let row = 4 * (chunks | 1);
        let (q, k) = (tile.block_q * row, tile.block_kv * row);
        let p = tile.block_q * (tile.block_kv + threads_per_row(tile) % 32);
        let v = tile.block_kv * 4 * chunks;
        Shared::Dynamic((q + k.max(p) + v) * size_of::<f32>())
    }

    fn suits(&self, tile: Tile) -> bool {
        let row = threads_per_row(tile);
        tile.block_q.is_multiple_of(ROWS)
            && [8, 16, 32].contains(&row)
            && row * tile.block_q == tile.threads * ROWS
            && tile.block_kv.is_multiple_of(row.max(4))
    }

    /// Large ones first. None has more queries than a block of the block mask: such a tile could be skipped only where two
    /// blocks are hidden.
    fn candidates(&self) -> Vec<Tile> {
        let mut tiles = Vec::new();
        for block_q in [64, 32] {
            for block_kv in [64, 32, 16] {
                for threads_per_row in [8, 16, 32] {
                    tiles.push(Tile::new(
                        block_q,
                        block_kv,
                        block_q / ROWS * threads_per_row,
                    ));
                }
            }
        }
        tiles
    }

    fn launch(&self, launch: Launch<'_>) -> Result<(), DriverError> {
        options::with_options(launch)
    }
}
