//! Rung 2, `kernels/2_split.cu`: blocks for parts of a sequence.

use super::{Grid, HEAD_MAX, Rows, Rung, Sizes, THREADS, head_max};

/// Columns that the kernel is compiled for: a row is filled up to 128 bytes or more, the size of a cache line.
fn columns(rows: Rows) -> usize {
    head_max(rows.head_dim).max(128 / rows.dtype.bytes())
}

pub(super) struct Split;

impl Rung for Split {
    fn file(&self) -> &'static str {
        "2_split.cu"
    }

    fn kernel(&self) -> &'static str {
        "split"
    }

    fn splits(&self) -> bool {
        true
    }

    /// Rows that are not aligned are read element by element, by one kernel for any D.
    fn constants(&self, rows: Rows) -> Vec<(&'static str, usize)> {
        let [.., largest] = HEAD_MAX;
        let (head_max, vector) = match rows.aligned {
            true => (columns(rows), 16),
            false => (largest, rows.dtype.bytes()),
        };
        vec![("HEAD_MAX", head_max), ("VECTOR", vector)]
    }

    /// Each group of lanes that share a row has 4 rows in flight.
    fn tile(&self, rows: Rows) -> usize {
        let lanes = columns(rows) * rows.dtype.bytes() / 16;
        4 * THREADS / lanes.min(32)
    }

    fn grid(&self, sizes: &Sizes) -> Grid {
        let rows = sizes.batch.saturating_mul(sizes.heads);
        Grid {
            blocks: rows.saturating_mul(sizes.nq),
            threads: THREADS,
            shared: 0,
        }
    }
}
