use stage1_reference::Sizes;

use crate::library::Tile;

/// A kernel of the backward pass. Those of [`BackwardKernel::F32`] or [`BackwardKernel::F16`] run
/// in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackwardKernel {
    /// `backward/row_dots.cu`: `delta = rowsum(dO ∘ o)`.
    RowDots,
    /// `backward/1_recompute_dk_dv.cu`: dk and dv of a tile of keys.
    RecomputeKeysAndValues,
    /// `backward/1_recompute_dq.cu`: dq of a tile of queries.
    RecomputeQueries,
    /// `backward/row_dots.cu` of tensors in f16.
    HalfRowDots,
    /// `backward/2_mma_dk_dv.cu`: dk and dv on tensor cores.
    MmaKeysAndValues,
    /// `backward/2_mma_dq.cu`: dq on tensor cores.
    MmaQueries,
}

impl BackwardKernel {
    /// Those of tensors in f32.
    pub const F32: [Self; 3] = [
        Self::RowDots,
        Self::RecomputeKeysAndValues,
        Self::RecomputeQueries,
    ];

    /// Those of tensors in f16.
    pub const F16: [Self; 3] = [Self::HalfRowDots, Self::MmaKeysAndValues, Self::MmaQueries];

    /// The kernel file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::RowDots | Self::HalfRowDots => "backward/row_dots.cu",
            Self::RecomputeKeysAndValues => "backward/1_recompute_dk_dv.cu",
            Self::RecomputeQueries => "backward/1_recompute_dq.cu",
            Self::MmaKeysAndValues => "backward/2_mma_dk_dv.cu",
            Self::MmaQueries => "backward/2_mma_dq.cu",
        }
    }

    /// The kernel's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RowDots | Self::HalfRowDots => "row_dots",
            Self::RecomputeKeysAndValues => "recompute_dk_dv",
            Self::RecomputeQueries => "recompute_dq",
            Self::MmaKeysAndValues => "mma_dk_dv",
            Self::MmaQueries => "mma_dq",
        }
    }

    /// The tile for a head dimension, of kernels that have one.
    pub const fn tile(self, head_dim: usize) -> Option<Tile> {
        match self {
            Self::RowDots | Self::HalfRowDots => None,
            Self::RecomputeKeysAndValues | Self::RecomputeQueries if head_dim > 64 => {
                Some(Tile::new(32, 32, 64))
            }
            Self::RecomputeKeysAndValues | Self::RecomputeQueries => Some(Tile::new(64, 64, 128)),
            Self::MmaKeysAndValues if head_dim > 64 => Some(Tile::new(64, 64, 128)),
            Self::MmaKeysAndValues => Some(Tile::new(32, 128, 128)),
            Self::MmaQueries if head_dim > 64 => Some(Tile::new(128, 32, 128)),
            Self::MmaQueries => Some(Tile::new(128, 64, 128)),
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
            (Self::RecomputeKeysAndValues | Self::MmaKeysAndValues, Some(tile)) => {
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
        let element = (self == Self::HalfRowDots).then(|| ("ELEMENT", "f16".to_owned()));
        texts.chain(element).collect()
    }

    /// Bytes of dynamic shared memory.
    pub(crate) fn shared_bytes(self, head_dim: usize) -> usize {
        let Some(tile) = self.tile(head_dim) else {
            return 0;
        };
        let (block_q, block_kv) = (tile.block_q, tile.block_kv);
        let tensors = 2 * (block_q + block_kv) * 4 * ((head_dim / 4) | 1);
        let half_tensors = (block_q + block_kv) * head_dim;
        let floats = match self {
            Self::RowDots | Self::HalfRowDots => 0,
            Self::RecomputeKeysAndValues => tensors + block_kv * (block_q | 16) + 2 * block_q,
            Self::RecomputeQueries => tensors + block_q * (block_kv | 16),
            Self::MmaKeysAndValues => half_tensors + block_kv * block_q / 2 + 2 * block_q,
            Self::MmaQueries => half_tensors + 2 * block_q,
        };
        floats * size_of::<f32>()
    }
}
