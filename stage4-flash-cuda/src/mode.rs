use std::fmt;

/// Which implementation computes attention. All take the same options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Stage 2 with its naive matrix products: four launches, scores in global memory. With key lengths, four for each
    /// sequence.
    Naive,
    /// Stage 2 with its tiled matrix products.
    Tiled,
    /// The fused kernel, by the strategy that suits the head dimension and the device: [`Strategy::RegisterTiled`]
    /// where its tile fits into shared memory, else [`Strategy::Split`]. With a tile of the caller's, always the former.
    #[default]
    Fused,
    /// The fused kernel, by this strategy.
    FusedBy(Strategy),
}

/// How the fused kernel deals with a head dimension `D`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strategy {
    /// Rung 1, compiled for a power of two from 16 on; rows are padded with zeros. What a library with few compiled sizes does.
    Padded,
    /// Rung 1, compiled for exactly `D` columns, all of which are in shared memory at once.
    Exact,
    /// Rung 1, compiled for exactly `D` columns; `k` and `v` pass through shared memory in slices of about 64 columns.
    Split,
    /// Rung 2, compiled for exactly `D` columns (`q kᵀ` for the next multiple of 4).
    RegisterTiled,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Padded, Self::Exact, Self::Split, Self::RegisterTiled];

    /// The kernel file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Padded | Self::Exact | Self::Split => "1_fused.cu",
            Self::RegisterTiled => "2_register_tiled.cu",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
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
