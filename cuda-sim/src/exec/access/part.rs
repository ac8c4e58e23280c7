//! The part of an access that lies in one state space and one allocation.

use crate::exec::lane_fault::{LaneFault, Trap};
use crate::fault::FaultKind;
use crate::program::op::MemorySpace;

/// The lanes of an access that can be handled at once: in one state space, and in one allocation.
#[derive(Clone, Copy)]
pub(crate) struct AccessPart {
    pub space: MemorySpace,
    pub mask: u32,
    /// Address of the first lane within the space.
    pub first: u64,
    /// The same in host memory.
    pub host: u64,
    /// Offset of host addresses for each lane (not counted from the first one): local memory.
    pub stride: u64,
    /// Rank of the other block of the cluster whose shared memory it is.
    pub peer: Option<usize>,
}

impl AccessPart {
    /// An error if it is in shared memory of another block of the cluster, where the simulator does
    /// not run this instruction.
    pub(crate) fn must_be_own(&self, instruction: &str) -> Result<(), Trap> {
        let Some(rank) = self.peer else { return Ok(()) };
        let text = format!("{instruction} in shared memory of block {rank} of the cluster");
        let lane = self.mask.trailing_zeros() & 31;
        let kind = FaultKind::UnknownInstruction { text };
        Err(LaneFault::new(kind, lane))
    }

    /// Host address of a lane.
    #[inline(always)]
    pub(crate) fn place(&self, delta: i32, lane: usize) -> u64 {
        (self.host as i64 + i64::from(delta)) as u64 + self.stride * lane as u64
    }
}
