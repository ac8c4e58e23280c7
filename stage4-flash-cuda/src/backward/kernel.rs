use stage1_reference::Sizes;

use crate::Format;
use crate::library::{Tile, tensor_cores};

/// A kernel of the backward pass. Those of [`BackwardKernel::RECOMPUTE`], [`BackwardKernel::MMA`],
/// [`BackwardKernel::library`] or [`BackwardKernel::tensor_cores`] run in order.
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
    /// `backward/softmax_gradient.cu`, the naive way's.
    SoftmaxGradient,
    /// `library/backward_row_dots.cu`: delta of tensors with any strides, in f32 or a format.
    LibraryRowDots(Option<Format>),
    /// `library/backward.cu`: dk, dv and the sums of dq with every option, by products in f32.
    Library {
        /// That of the tensors; none for f32.
        format: Option<Format>,
        /// True if it drops weights.
        dropout: bool,
    },
    /// `library/backward_mma.cu`: the same on tensor cores.
    TensorCores {
        /// That of the tensors.
        format: Format,
        /// True if it drops weights.
        dropout: bool,
    },
    /// `library/backward_dq.cu`: dq from its sums, in f32 or a format.
    LibraryQueries(Option<Format>),
}

impl BackwardKernel {
    /// Those of the first rung, in f32.
    pub const RECOMPUTE: [Self; 3] = [
        Self::RowDots,
        Self::RecomputeKeysAndValues,
        Self::RecomputeQueries,
    ];

    /// Those of the second rung, in f16.
    pub const MMA: [Self; 3] = [Self::HalfRowDots, Self::MmaKeysAndValues, Self::MmaQueries];

    /// Those of the library that multiply in f32, without dropout, for tensors in a format, or in
    /// f32.
    pub const fn library(format: Option<Format>) -> [Self; 3] {
        let dropout = false;
        [
            Self::LibraryRowDots(format),
            Self::Library { format, dropout },
            Self::LibraryQueries(format),
        ]
    }

    /// Those of the library on tensor cores, without dropout.
    pub const fn tensor_cores(format: Format) -> [Self; 3] {
        let dropout = false;
        [
            Self::LibraryRowDots(Some(format)),
            Self::TensorCores { format, dropout },
            Self::LibraryQueries(Some(format)),
        ]
    }

    /// The same with dropout, if it is one of the library that has weights.
    pub const fn with_dropout(self) -> Self {
        let dropout = true;
        match self {
            Self::TensorCores { format, .. } => Self::TensorCores { format, dropout },
            Self::Library { format, .. } => Self::Library { format, dropout },
            other => other,
        }
    }

    /// The head dimensions for which a kernel of the library has committed PTX. Without a compiler
    /// any other is padded to the next.
    pub const fn padded(self) -> &'static [usize] {
        match self {
            Self::TensorCores { .. } => &tensor_cores::PADDED,
            // For devices without tensor cores, where the tiles for fewer columns do not fit.
            Self::Library { format, .. } if format.is_some() => &[256],
            _ => &[64, 128, 256],
        }
    }

    /// The kernel file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::RowDots | Self::HalfRowDots => "backward/row_dots.cu",
            Self::RecomputeKeysAndValues => "backward/1_recompute_dk_dv.cu",
            Self::RecomputeQueries => "backward/1_recompute_dq.cu",
            Self::MmaKeysAndValues => "backward/2_mma_dk_dv.cu",
            Self::MmaQueries => "backward/2_mma_dq.cu",
            Self::SoftmaxGradient => "backward/softmax_gradient.cu",
            Self::LibraryRowDots(_) => "library/backward_row_dots.cu",
            Self::Library { .. } => "library/backward.cu",
            Self::TensorCores { .. } => "library/backward_mma.cu",
            Self::LibraryQueries(_) => "library/backward_dq.cu",
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
            Self::SoftmaxGradient => "softmax_gradient",
            Self::LibraryRowDots(_) => "backward_row_dots",
            Self::Library { .. } => "backward",
            Self::TensorCores { .. } => "backward_mma",
            Self::LibraryQueries(_) => "backward_dq",
        }
    }

    /// The tile for a head dimension, of kernels that have one.
    pub const fn tile(self, head_dim: usize) -> Option<Tile> {
        match (self, head_dim) {
            (Self::RowDots | Self::HalfRowDots | Self::SoftmaxGradient, _)
            | (Self::LibraryRowDots(_) | Self::LibraryQueries(_), _) => None,
            (Self::MmaKeysAndValues, 65..) => Some(Tile::new(64, 64, 128)),
            (Self::MmaKeysAndValues, _) => Some(Tile::new(32, 128, 128)),
            (Self::MmaQueries, 65..) => Some(Tile::new(128, 32, 128)),
            (Self::MmaQueries, _) => Some(Tile::new(128, 64, 128)),
            // Of 16 columns, whole rows are copied 64 at a time. Dropout leaves fewer registers.
            (Self::TensorCores { .. }, ..=16) => Some(Tile::new(64, 64, 128)),
            (Self::TensorCores { dropout: true, .. }, 33..=64) => Some(Tile::new(64, 64, 128)),
            (Self::TensorCores { dropout: true, .. }, 65..=128) => Some(Tile::new(32, 64, 128)),
            (Self::TensorCores { .. }, ..=64) => Some(Tile::new(32, 128, 128)),
            (Self::TensorCores { .. }, ..=128) => Some(Tile::new(64, 64, 128)),
            (Self::TensorCores { .. }, _) => Some(Tile::new(32, 32, 128)),
            // Of the committed ones, those that a device of compute capability 7.5 has room for.
            (Self::Library { .. }, 129..) => Some(Tile::new(8, 16, 64)),
            // Where some threads have a vector less than others, their tests take registers.
            (Self::Library { .. }, 65..=127) => Some(Tile::new(32, 32, 128)),
            (_, 65..) => Some(Tile::new(32, 32, 64)),
            _ => Some(Tile::new(64, 64, 128)),
        }
    }

    /// Threads of a block.
    pub(crate) fn threads(self, head_dim: usize) -> usize {
        const WITHOUT_TILE: usize = 256;
        self.tile(head_dim)
            .map_or(WITHOUT_TILE, |tile| tile.threads)
    }

    /// Blocks of a problem, compiled for a head dimension.
    pub(crate) fn blocks(self, sizes: &Sizes, head_dim: usize) -> usize {
        let rows = |heads: usize| sizes.batch.saturating_mul(heads);
        match (self, self.tile(head_dim)) {
            (
                Self::RecomputeKeysAndValues
                | Self::MmaKeysAndValues
                | Self::Library { .. }
                | Self::TensorCores { .. },
                Some(tile),
            ) => rows(sizes.kv_heads).saturating_mul(sizes.nk.div_ceil(tile.block_kv)),
            (_, Some(tile)) => rows(sizes.heads).saturating_mul(sizes.nq.div_ceil(tile.block_q)),
            (_, None) => {
                let warps = self.threads(head_dim) / 32;
                rows(sizes.heads).saturating_mul(sizes.nq).div_ceil(warps)
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
        let format = match self {
            Self::HalfRowDots => Some(Format::F16),
            Self::LibraryRowDots(format)
            | Self::Library { format, .. }
            | Self::LibraryQueries(format) => format,
            Self::TensorCores { format, .. } => Some(format),
            _ => None,
        };
        let element = format.map(|format| ("ELEMENT", format.name().to_owned()));
        let dropout = match self {
            Self::Library { dropout, .. } | Self::TensorCores { dropout, .. } => dropout,
            _ => false,
        };
        let dropout = dropout.then(|| ("DROPOUT", "1".to_owned()));
        texts.chain(element).chain(dropout).collect()
    }

    /// Floats of a row of the sums of dq, of kernels that have them: `ROW_OF_SUMS` of
    /// `gradients.cuh` and `half_sums.cuh`.
    pub fn row_of_sums(self, head_dim: usize) -> usize {
        match self {
            Self::TensorCores { .. } => (head_dim.next_multiple_of(16) + 23) / 32 * 32 + 8,
            _ => head_dim.next_multiple_of(4),
        }
    }

    /// Bytes of dynamic shared memory.
    pub(crate) fn shared_bytes(self, head_dim: usize) -> usize {
        let Some(tile) = self.tile(head_dim) else {
            return 0;
        };
        let (block_q, block_kv) = (tile.block_q, tile.block_kv);
        let tensors = 2 * (block_q + block_kv) * 4 * (head_dim.div_ceil(4) | 1);
        let half_tensors = (block_q + block_kv) * head_dim;
        let half_rows = 2 * (block_q + block_kv) * 4 * tensor_cores::stride(head_dim);
        let row = if block_q.min(block_kv) < 16 { 8 } else { 16 }; // threads that share one
        let floats = match self {
            Self::MmaKeysAndValues => half_tensors + block_kv * block_q / 2 + 2 * block_q,
            Self::MmaQueries => half_tensors + 2 * block_q,
            Self::TensorCores { .. } => half_rows + block_kv * block_q / 2 + 3 * block_q,
            Self::RecomputeKeysAndValues | Self::Library { .. } => {
                tensors + block_kv * (block_q | row) + 2 * block_q
            }
            _ => tensors + block_q * (block_kv | row),
        };
        floats * size_of::<f32>()
    }
}
