use stage1_reference::Sizes;

use crate::library::Tile;

/// A kernel of the backward pass. They run in the order of [`BackwardKernel::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackwardKernel {
    /// `backward/row_dots.cu`: `delta = rowsum(dO ∘ o)`.
    RowDots,
    /// `backward/1_recompute_dk_dv.cu`: dk and dv of a tile of keys.
    KeysAndValues,
    /// `backward/1_recompute_dq.cu`: dq of a tile of queries.
    Queries,
}

impl BackwardKernel {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::RowDots, Self::KeysAndValues, Self::Queries];

    /// The kernel file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::RowDots => "backward/row_dots.cu",
            Self::KeysAndValues => "backward/1_recompute_dk_dv.cu",
            Self::Queries => "backward/1_recompute_dq.cu",
        }
    }

    /// The kernel's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RowDots => "row_dots",
            Self::KeysAndValues => "recompute_dk_dv",
            Self::Queries => "recompute_dq",
        }
    }

    /// The tile for a head dimension, of kernels that have one.
    pub const fn tile(self, head_dim: usize) -> Option<Tile> {
        match self {
            Self::RowDots => None,
            Self::KeysAndValues | Self::Queries if head_dim > 64 => Some(Tile::new(32, 32, 64)),
            Self::KeysAndValues | Self::Queries => Some(Tile::new(64, 64, 128)),
        }
    }

    /// Threads of a block.
    pub(crate) fn threads(self, head_dim: usize) -> usize {
        const OF_ROW_DOTS: usize = 256;
        self.tile(head_dim).map_or(OF_ROW_DOTS, |tile| tile.threads)
    }

    /// Blocks of a problem.
    pub(crate) fn blocks(self, sizes: &Sizes) -> usize {
        let matrices = sizes.batch.saturating_mul(sizes.heads);
        match (self, self.tile(sizes.head_dim)) {
            (Self::KeysAndValues, Some(tile)) => {
                matrices.saturating_mul(sizes.nk.div_ceil(tile.block_kv))
            }
            (_, Some(tile)) => matrices.saturating_mul(sizes.nq.div_ceil(tile.block_q)),
            (_, None) => {
                let warps = self.threads(sizes.head_dim) / 32;
                matrices.saturating_mul(sizes.nq).div_ceil(warps)
            }
        }
    }

    /// The `-D` constants, as a line of `kernels/variants.txt` has them.
    pub(crate) fn constants(self, head_dim: usize) -> Vec<(&'static str, String)> {
        let constants = self.tile(head_dim).map(|tile| {
            [
                ("HEAD_DIM", head_dim),
                ("BLOCK_Q", tile.block_q),
                ("BLOCK_KV", tile.block_kv),
                ("THREADS", tile.threads),
            ]
        });
        let constants = constants.into_iter().flatten();
        let texts = constants.map(|(name, value)| (name, value.to_string()));
        texts.collect()
    }

    /// Bytes of dynamic shared memory.
    pub(crate) fn shared_bytes(self, head_dim: usize) -> usize {
        let Some(tile) = self.tile(head_dim) else {
            return 0;
        };
        let tensors = 2 * (tile.block_q + tile.block_kv) * 4 * ((head_dim / 4) | 1);
        let floats = match self {
            Self::RowDots => 0,
            Self::KeysAndValues => tensors + tile.block_kv * (tile.block_q | 16) + 2 * tile.block_q,
            Self::Queries => tensors + tile.block_q * (tile.block_kv | 16),
        };
        floats * size_of::<f32>()
    }
}
