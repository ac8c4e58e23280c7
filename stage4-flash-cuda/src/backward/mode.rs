use std::fmt;

use stage1_reference::Feature;

use crate::Rung;

/// An implementation of the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BackwardMode {
    /// Stage 2's way, in f32: weights and their gradients in device memory, eight launches, and
    /// two more with dropout. It lacks [some options](BackwardMode::lacks).
    Naive,
    /// The library's kernels, which have every option, compiled for the head dimension: in f32, and
    /// in half precision on tensor cores, or below compute capability 8.0 with products in f32. A
    /// hidden score has no influence, whatever its value.
    #[default]
    Library,
    /// `backward/1_recompute_*.cu`, in f32. It lacks [what rungs lack](Rung::LACKS).
    Recompute,
    /// `backward/2_mma_*.cu`, in f16 on tensor cores. It lacks [what rungs lack](Rung::LACKS).
    Mma,
}

impl BackwardMode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Naive, Self::Library, Self::Recompute, Self::Mma];

    /// The options that it lacks.
    pub const fn lacks(self) -> &'static [Feature] {
        match self {
            Self::Naive => &[
                Feature::Window,
                Feature::KeyLengths,
                Feature::BlockSparse,
                Feature::GroupedHeads,
            ],
            Self::Library => &[],
            Self::Recompute | Self::Mma => &Rung::LACKS,
        }
    }
}

impl fmt::Display for BackwardMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Naive => "naive",
            Self::Library => "library",
            Self::Recompute => "recompute",
            Self::Mma => "mma",
        })
    }
}
