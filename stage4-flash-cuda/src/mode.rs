use std::{fmt, slice};

use serde::{Deserialize, Serialize};
use stage2_naive_cuda::Variant;

/// Which implementation computes attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Stage 2 with its naive matrix products: four launches, scores in global memory. It lacks
    /// [some options](stage2_naive_cuda::LACKS).
    Naive,
    /// Stage 2 with its tiled matrix products.
    Tiled,
    /// The fused kernel that is the fastest in `tiles.json`, for the class of the device and the head dimension, of those
    /// that can compute the problem.
    #[default]
    Fused,
    /// The fused kernel, by this strategy.
    FusedBy(Strategy),
}

/// A kernel, and how it deals with a head dimension `D`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Rung 1, compiled for exactly `D` columns. Packed tensors; [some options](Strategy::lacks) are missing.
    Flash,
    /// Rung 2, compiled for a power of two from 16 on; rows are padded with zeros, as in a library with few compiled sizes.
    Padded,
    /// Rung 2, compiled for exactly `D` columns, all of which are in shared memory at once.
    Exact,
    /// Rung 2, compiled for exactly `D` columns; `k` and `v` pass through shared memory in slices of about 64 columns.
    Split,
    /// Rung 3, compiled for exactly `D` columns (`q kᵀ` for the next multiple of 4).
    RegisterTiled,
}

/// What a mode runs.
pub(crate) enum Implementation<'a> {
    /// Stage 2, with these matrix products.
    Stage2(Variant),
    /// The fastest of these.
    Fused(&'a [Strategy]),
}

impl Mode {
    pub(crate) fn implementation(&self) -> Implementation<'_> {
        match self {
            Self::Naive => Implementation::Stage2(Variant::Naive),
            Self::Tiled => Implementation::Stage2(Variant::Tiled),
            Self::Fused => Implementation::Fused(&Strategy::ALL),
            Self::FusedBy(strategy) => Implementation::Fused(slice::from_ref(strategy)),
        }
    }
}

impl Strategy {
    /// All of them, from the first rung to the last.
    pub const ALL: [Self; 5] = [
        Self::Flash,
        Self::Padded,
        Self::Exact,
        Self::Split,
        Self::RegisterTiled,
    ];
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flash => "flash",
            Self::Padded => "padded",
            Self::Exact => "exact",
            Self::Split => "split",
            Self::RegisterTiled => "register-tiled",
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Naive => f.write_str("naive"),
            Self::Tiled => f.write_str("tiled"),
            Self::Fused => f.write_str("fused"),
            Self::FusedBy(strategy) => strategy.fmt(f),
        }
    }
}
