//! State of one host thread that runs blocks.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::exec::access::part::AccessPart;
use crate::exec::access::pattern::AccessPattern;
use crate::exec::access::traffic::Counters;
use crate::exec::block_memory::BlockMemory;
use crate::exec::checks::accesses::Checks;
use crate::exec::checks::checked_access::CheckedAccess;
use crate::exec::cluster::Cluster;
use crate::exec::copies_under_way::CopiesUnderWay;
use crate::exec::operations::mma::MatrixUnit;
use crate::exec::register_pool::RegisterPool;
use crate::exec::registers::Registers;
use crate::exec::tracer::Tracer;
use crate::program::op::Access;

/// Memory, checks and counters of the running block, and the address patterns of its instructions.
pub(crate) struct HostThread<'a> {
    pub memory: BlockMemory<'a>,
    pub checks: Checks<'a>,
    /// Those of the running block.
    pub copies: CopiesUnderWay,
    pub registers: RegisterPool,
    /// The cluster of the running block, if it is not alone.
    pub cluster: Option<Box<Cluster>>,
    pub counters: Counters<'a>,
    /// By memory instruction.
    pub patterns: Vec<AccessPattern>,
    /// A store to device or shared memory was made, or an atomic operation changed something, since
    /// this was last reset.
    pub changed: bool,
    pub matrix_unit: Box<MatrixUnit>,
    /// The rows of the matrices that an `stmatrix` stores.
    pub matrix_rows: Registers,
    /// Set when the blocks of this attempt need not go on.
    pub stop: Option<&'a AtomicBool>,
    /// Records what a warp does, if that is asked for.
    pub tracer: Option<Box<Tracer>>,
}

impl<'a> HostThread<'a> {
    /// The checks, and the part of an access that they are to look at.
    #[inline(always)]
    pub(crate) fn checked<'c>(
        &'c mut self,
        access: &'c Access,
        part: &'c AccessPart,
    ) -> (&'c mut Checks<'a>, CheckedAccess<'c>) {
        let checked = CheckedAccess {
            memory: &self.memory,
            pattern: &self.patterns[access.site as usize],
            access,
            part,
        };
        (&mut self.checks, checked)
    }

    /// Records the reads of shared memory that were noted. They rely on the patterns as they are
    /// now.
    #[inline(always)]
    pub(crate) fn record_shared_reads(&mut self) {
        self.checks.shared.record_reads(&self.patterns);
    }

    /// True if the attempt is over.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Relaxed))
    }
}
