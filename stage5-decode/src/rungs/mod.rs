//! The ladder: a file for each kernel file, with what the host has to know of it.

mod grouped;
mod naive;
mod split;

use crate::{CacheShape, Dtype, Mode, Shape};

/// Threads of a block, where a rung does not choose.
const THREADS: usize = 128;

/// Head dimensions that the vector kernels are compiled for: a row is filled up with zeros to one of them.
pub(crate) const HEAD_MAX: [usize; 4] = [32, 64, 128, 256];

/// A kernel file.
pub(crate) trait Rung: Sync {
    /// The kernel file.
    fn file(&self) -> &'static str;

    /// The kernel's name.
    fn kernel(&self) -> &'static str;

    /// Whether it can take a part of a sequence.
    fn splits(&self) -> bool;

    /// The `-D` constants besides the element type.
    fn constants(&self, rows: Rows) -> Vec<(&'static str, usize)>;

    /// Keys that a block takes at a time.
    fn tile(&self, rows: Rows) -> usize;

    /// The launch of one part of every sequence.
    fn grid(&self, sizes: &Sizes) -> Grid;
}

/// The rows of a cache, as far as a kernel is compiled for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rows {
    pub dtype: Dtype,
    pub head_dim: usize,
    /// Whether each row begins at a multiple of 16 bytes.
    pub aligned: bool,
}

/// The least of [`HEAD_MAX`] that is not less than D.
fn head_max(head_dim: usize) -> usize {
    let [.., largest] = HEAD_MAX;
    let mut fitting = HEAD_MAX.into_iter().filter(|&max| max >= head_dim);
    fitting.next().unwrap_or(largest)
}

/// The sizes of a problem.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub nq: usize,
    pub head_dim: usize,
}

impl Sizes {
    pub(crate) fn new(cache: &CacheShape, shape: &Shape) -> Self {
        Self {
            batch: cache.batch,
            heads: shape.heads,
            kv_heads: cache.kv_heads,
            nq: shape.nq,
            head_dim: cache.head_dim,
        }
    }

    /// Rows of `q` that see the same keys: the queries of the heads that share a head of keys.
    pub(crate) fn rows(&self) -> usize {
        (self.heads / self.kv_heads.max(1)).saturating_mul(self.nq)
    }

    /// Rows of `q`. Saturates at `usize::MAX`.
    pub(crate) fn queries(&self) -> usize {
        self.batch
            .saturating_mul(self.heads)
            .saturating_mul(self.nq)
    }
}

/// A launch: blocks of one part, and what a block needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    pub blocks: usize,
    pub threads: usize,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
}

impl Mode {
    /// The rung for this many rows of `q` that see the same keys.
    pub(crate) fn rung(self, rows: usize) -> &'static dyn Rung {
        match self {
            Self::Naive => &naive::Naive,
            Self::Split => &split::Split,
            Self::Grouped => &grouped::Grouped,
            Self::Auto if rows > 1 => &grouped::Grouped,
            Self::Auto => &split::Split,
        }
    }
}
