use stage1_reference::Sizes;

use crate::Error;

/// The size of a tile of scores.
///
/// The result does not depend on it, but for rounding. The time does: a tile that is too small
/// spends its time between tiles, one that is too large does not stay in the cache. The default is
/// what measured best; `README.md` has the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// Rows: queries, the paper's `B_r`. Best a multiple of 32.
    pub queries: usize,
    /// Columns: keys, the paper's `B_c`.
    pub keys: usize,
}

impl Default for Tiles {
    fn default() -> Self {
        Self {
            queries: 128,
            keys: 128,
        }
    }
}

impl Tiles {
    /// The tiles that [`attention()`](crate::attention()) takes for a problem of these sizes.
    ///
    /// The more queries to a tile, the less often keys and values come from memory; but
    /// tiles are what threads share out. So it is 256 queries where that makes 32 tiles,
    /// else 128 where that does, else 64. The number of threads has no part in it, so that
    /// the result does not depend on it.
    pub fn for_sizes(sizes: &Sizes) -> Self {
        let Self { keys, .. } = Self::default();
        let heads = sizes.batch.saturating_mul(sizes.heads);
        let tiles = |queries: &usize| heads.saturating_mul(sizes.nq.div_ceil(*queries));
        let queries = [256, 128].into_iter().find(|size| tiles(size) >= 32);
        let queries = queries.unwrap_or(64);
        Self { queries, keys }
    }

    /// The tiles that measured best for the backward pass.
    pub const BACKWARD: Self = Self {
        queries: 64,
        keys: 128,
    };

    /// Tiles no larger than the problem.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyTile`]. `operation` is the caller's name, for the message.
    pub(crate) fn fit(self, operation: &'static str, nq: usize, nk: usize) -> Result<Self, Error> {
        for (argument, size) in [("queries", self.queries), ("keys", self.keys)] {
            if size == 0 {
                return Err(Error::EmptyTile {
                    operation,
                    argument,
                });
            }
        }
        Ok(Self {
            queries: self.queries.min(nq.max(1)),
            keys: self.keys.min(nk.max(1)),
        })
    }
}
