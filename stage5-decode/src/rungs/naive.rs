//! Rung 1, `kernels/1_naive.cu`: a block for each sequence and head.

use super::{Grid, Rows, Rung, Sizes, THREADS};

pub(super) struct Naive;

impl Rung for Naive {
    fn file(&self) -> &'static str {
        "1_naive.cu"
    }

    fn kernel(&self) -> &'static str {
        "naive"
    }

    fn splits(&self) -> bool {
        false
    }

    fn constants(&self, _: Rows) -> Vec<(&'static str, usize)> {
        vec![]
    }

    fn tile(&self, _: Rows) -> usize {
        THREADS / 32
    }

    fn grid(&self, sizes: &Sizes) -> Grid {
        Grid {
            blocks: sizes.batch.saturating_mul(sizes.heads),
            threads: THREADS,
            shared: 0,
        }
    }
}
