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
    /// Initialisations of mbarriers, for the asynchronous proxy.
    MbarrierInit,
}

/// Registers whose value does not change while a warp runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
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
