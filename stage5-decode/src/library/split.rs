//! `kernels/library/split.cu`: a block for each row of q and part of the keys.

use super::{Grid, Kernel, PerSm, Rows, Sizes, THREADS, head_max};
use crate::Dtype;

/// The most columns that it is compiled for.
pub(super) const MAX_COLUMNS: usize = 128;

pub(super) struct Split;

impl Kernel for Split {
    fn file(&self) -> &'static str {
        "library/split.cu"
    }

    fn name(&self) -> &'static str {
        "split"
    }

    /// A row is filled up to 128 bytes or more, the size of a cache line.
    fn columns(&self, rows: Rows) -> usize {
        head_max(rows.head_dim).max(128 / rows.dtype.bytes())
    }

    /// Each group of lanes that share a row has 4 rows in flight.
    fn tile(&self, rows: Rows) -> usize {
        let lanes = self.columns(rows) * rows.dtype.bytes() / 16;
        4 * THREADS / lanes.min(32)
    }

    fn grid(&self, sizes: &Sizes) -> Grid {
        Grid {
            blocks: sizes.queries(),
            threads: THREADS,
            shared: 0,
        }
    }

    /// Registers leave room for so many. A block has few loads in flight: from 4096 tokens on, an
    /// H200 was fastest in f16 with all places taken, and busy in f32 with fewer.
    fn per_sm(&self, sizes: &Sizes) -> PerSm {
        let (places, busy) = match sizes.dtype {
            Dtype::F32 => (8, 4),
            Dtype::F16 => (6, 6),
            Dtype::Bf16 => (4, 4),
        };
        PerSm { places, busy }
    }
}
