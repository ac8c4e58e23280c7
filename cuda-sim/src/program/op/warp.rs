//! Operations of a warp as a whole: shuffles, votes, barriers; and special registers.

use super::operands::{Condition, P, R};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// Kind of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    /// `__syncthreads()`, for which all warps of the block must come to the same place of the
    /// source.
    Threads,
    Sync,
    /// Counts without waiting.
    Arrive,
    CountTrue {
        d: R,
        p: Condition,
    },
    AllTrue {
        d: P,
        p: Condition,
    },
    AnyTrue {
        d: P,
        p: Condition,
    },
}

/// What a fence orders, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    /// Accesses, for the block.
    Block,
    /// Accesses, for the whole device.
    Device,
    /// Ordinary accesses to shared memory, for the asynchronous proxy.
    AsyncProxy,
    /// Initialisations of mbarriers, for the cluster.
    MbarrierInit,
}

/// Registers whose value does not change while a warp runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    /// Place of the block in its cluster, and the cluster's size.
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtaRank,
    ClusterNctaRank,
    /// Place of the cluster in the grid, and their number.
    ClusterId(u8),
    NclusterId(u8),
    LaneId,
    WarpId,
    WarpCount,
    SmId,
    SmCount,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    GridId,
    DynamicSharedSize,
    TotalSharedSize,
    /// `%envreg`. Numbers 1 and 2 are the high and the low half of the address of the grid's
    /// workspace.
    EnvReg(u8),
}

impl Special {
    /// True if it differs from block to block.
    pub(crate) fn is_of_block(self) -> bool {
        match self {
            Special::Ctaid(_)
            | Special::SmId
            | Special::ClusterCtaid(_)
            | Special::ClusterCtaRank
            | Special::ClusterId(_) => true,
            Special::Tid(_)
            | Special::Ntid(_)
            | Special::Nctaid(_)
            | Special::ClusterNctaid(_)
            | Special::ClusterNctaRank
            | Special::NclusterId(_)
            | Special::LaneId
            | Special::WarpId
            | Special::WarpCount
            | Special::SmCount
            | Special::GridId
            | Special::LaneMaskEq
            | Special::LaneMaskLe
            | Special::LaneMaskLt
            | Special::LaneMaskGe
            | Special::LaneMaskGt
            | Special::DynamicSharedSize
            | Special::TotalSharedSize
            | Special::EnvReg(_) => false,
        }
    }
}
