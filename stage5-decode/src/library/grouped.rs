//! `kernels/library/grouped.cu`: a block for the rows of q that see the same
//! keys, and part of the keys.

use super::{Grid, Kernel, PerSm, Rows, Sizes, THREADS, head_max};

/// Rows of `q` of a warp, at most.
const ROWS: usize = 4;

/// Lanes of a warp.
const WARP: usize = 32;

/// Bytes of the tiles of k and v.
const TILES: usize = 16_384;

/// Columns that the kernel is compiled for: 64 or more.
fn columns(head_dim: usize) -> usize {
    head_max(head_dim).max(64)
}

pub(super) struct Grouped;

impl Kernel for Grouped {
    fn file(&self) -> &'static str {
        "library/grouped.cu"
    }

    fn name(&self) -> &'static str {
        "grouped"
    }

    fn columns(&self, rows: Rows) -> usize {
        columns(rows.head_dim)
    }

    fn tile(&self, rows: Rows) -> usize {
        TILES / 2 / (columns(rows.head_dim) * rows.dtype.bytes())
    }

    fn per_sm(&self, sizes: &Sizes) -> PerSm {
        let places = 4 * THREADS / self.grid(sizes).threads;
        PerSm { places, busy: 1 }
    }

    /// Four warps, or as many more as the rows need: 16 at most, and 8 where D is large, so that q,
    /// k and v fit into 48 KiB.
    fn grid(&self, sizes: &Sizes) -> Grid {
        let rows = sizes.rows();
        let head_max = columns(sizes.head_dim);
        let most = if head_max > 128 { 8 } else { 16 };
        let warps = (rows.div_ceil(ROWS).next_power_of_two()).clamp(THREADS / WARP, most);
        let row_blocks = rows.div_ceil(warps * ROWS);
        let matrices = sizes.batch.saturating_mul(sizes.kv_heads);
        Grid {
            blocks: matrices.saturating_mul(row_blocks),
            threads: warps * WARP,
            shared: TILES + rows.min(warps * ROWS).max(1) * head_max * size_of::<f32>(),
        }
    }
}
