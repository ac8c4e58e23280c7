//! Accesses of the asynchronous proxy to shared memory: bulk copies, and operands of `wgmma`.
//!
//! Whatever runs behind the warps' backs is an *engine*: it has a place of its own in the vector
//! clocks ([`super::vector_clock`]), as if it were a warp. What one begins comes after all that its
//! issuers have done, and before what a warp does only once that warp, or one that it has
//! synchronised with, has waited for it. So a read of a tile before its barrier's phase is over, or
//! a write to a tile that a product still reads, is an ordinary race with the engine.

use crate::exec::checks::accesses::Checks;
use crate::exec::lane_fault::Trap;

/// Who accesses shared memory asynchronously. What one engine begins ends in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Copies that complete bytes of the mbarrier at this address of shared memory.
    Barrier(u64),
    /// Products of a warpgroup.
    Products { warpgroup: usize },
    /// Copies in the bulk groups of a warp's threads.
    BulkGroups { warp: usize },
}

/// What an engine has been given to do by one instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsyncOperation {
    pub engine: Engine,
    pub pc: u32,
}

impl Checks<'_> {
    /// The warps in `issuers` have begun an operation at `pc`.
    pub(crate) fn begin_async(
        &mut self,
        engine: Engine,
        issuers: std::ops::Range<usize>,
        pc: u32,
    ) -> AsyncOperation {
        let _ = issuers;
        AsyncOperation { engine, pc }
    }

    /// It reads these bytes of shared memory.
    pub(crate) fn async_read(
        &mut self,
        operation: &AsyncOperation,
        bytes: std::ops::Range<u64>,
    ) -> Result<(), Trap> {
        let _ = (operation, bytes);
        Ok(())
    }

    /// It writes these bytes of shared memory.
    pub(crate) fn async_write(
        &mut self,
        operation: &AsyncOperation,
        bytes: std::ops::Range<u64>,
    ) -> Result<(), Trap> {
        let _ = (operation, bytes);
        Ok(())
    }

    /// A warp has waited for all that the engine began up to this operation.
    pub(crate) fn wait_async(&mut self, operation: &AsyncOperation, warp: usize) {
        let _ = (operation, warp);
    }

    /// The operation has completed its bytes on the mbarrier at this address, whose phase is over
    /// if it `ends`: who waits for the phase comes after the operation.
    pub(crate) fn complete_on_barrier(
        &mut self,
        operation: &AsyncOperation,
        barrier: u64,
        ends: bool,
    ) {
        let _ = (operation, barrier, ends);
    }
}
