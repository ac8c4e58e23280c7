//! `kernels/library/grouped_mma.cu`: a block for 16 of the rows of q that see the same keys, and
//! part of the keys, on tensor cores.

use super::{Grid, Kernel, PerSm, Rows, Sizes, THREADS, head_max};
use crate::Dtype;

/// Rows of `q` of a block, at most.
const ROWS: usize = 16;

/// The most columns that it is compiled for.
pub(super) const MAX_COLUMNS: usize = 128;

/// Elements behind each row in shared memory.
const PADDING: usize = 8;

/// Keys that the warps of a block multiply at a time.
const KEYS: usize = 64;

/// Columns that the kernel is compiled for: 64 or 128.
fn columns(head_dim: usize) -> usize {
    head_max(head_dim).max(64)
}

pub(super) struct GroupedMma;

impl Kernel for GroupedMma {
    fn file(&self) -> &'static str {
        "library/grouped_mma.cu"
    }

    fn name(&self) -> &'static str {
        "grouped_mma"
    }

    fn columns(&self, rows: Rows) -> usize {
        columns(rows.head_dim)
    }

    fn tile(&self, _: Rows) -> usize {
        KEYS
    }

    fn grid(&self, sizes: &Sizes) -> Grid {
        // An element of q is the sum of so many, as in `tensor_cores.cuh`.
        let terms = if sizes.dtype == Dtype::F16 { 2 } else { 3 };
        let rows = 2 * KEYS + terms * ROWS; // of k, v and q
        let matrices = sizes.batch.saturating_mul(sizes.kv_heads);
        Grid {
            blocks: matrices.saturating_mul(sizes.rows().div_ceil(ROWS)),
            threads: THREADS,
            shared: rows * (columns(sizes.head_dim) + PADDING) * sizes.dtype.bytes(),
        }
    }

    /// Each of its warps has loads in flight while it computes.
    fn per_sm(&self, _: &Sizes) -> PerSm {
        PerSm { places: 2, busy: 1 }
    }
}
