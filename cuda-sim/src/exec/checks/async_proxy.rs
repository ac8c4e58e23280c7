//! Accesses of the asynchronous proxy to shared memory: bulk copies, and operands of `wgmma`.
//!
//! Whatever goes on while the warps run is an *engine*: it has a place of its own in the vector
//! clocks ([`super::vector_clock`]), as if it were a warp. What one begins comes after what all of
//! its issuers know, and before what a warp does only once that warp, or one that it has
//! synchronised with, has waited for it. So a read of a tile before its barrier's phase is over, or
//! a write to a tile that a product still reads, is an ordinary race with the engine. What ordinary
//! stores wrote must be ordered before, and a `fence.proxy.async` must lie on the way.

use std::ops::Range;

use crate::exec::active_warp::ActiveWarp;
use crate::exec::block_memory::BlockMemory;
use crate::exec::checks::accesses::Checks;
use crate::exec::checks::checked_access::LaneAccess;
use crate::exec::checks::device_clock::DeviceClock;
use crate::exec::checks::engines::Engine;
use crate::exec::checks::happens_before::Accessor;
use crate::exec::checks::shared_ranges::RangeProblem;
use crate::exec::checks::unwritten_bytes::unwritten_fault;
use crate::exec::checks::vector_clock::Visitor;
use crate::exec::lane_fault::Trap;
use crate::exec::operations::mbarrier;
use crate::fault::{Agent, FaultKind};
use crate::program::op::MemorySpace;

/// An operation of an engine, begun by one instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsyncOperation {
    engine: Engine,
    pc: u32,
    /// The engine's place in the clocks, and the operation's number in the place of a lane. Without
    /// a place nothing is checked.
    place: Option<(usize, u32)>,
    time: u32,
}

/// How an operation accesses shared memory. An update is both a read and a write.
#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
    UpdateRead,
    UpdateWrite,
}

impl Engine {
    /// What its operations are called.
    pub(crate) fn agent(self) -> Agent {
        match self {
            Engine::Barrier(_) | Engine::BulkGroups { .. } | Engine::BulkWrites { .. } => {
                Agent::BulkCopy
            }
            Engine::Products { .. } => Agent::Product,
            Engine::Visitor { .. } => Agent::Thread,
        }
    }
}

impl AsyncOperation {
    /// Who accesses device memory for it, and the number in the place of a lane; without a place,
    /// the thread that has begun it.
    pub(super) fn accessor_or(&self, thread: Accessor, lane: u32) -> (Accessor, u32) {
        match self.place {
            Some((warp, number)) => (Accessor { warp, ..thread }, number),
            None => (thread, lane),
        }
    }
}

impl Checks<'_> {
    /// The warps in `issuers` have begun an operation at `pc`, the first of them for its lanes from
    /// `lane` on.
    pub(crate) fn begin_async(
        &mut self,
        engine: Engine,
        issuers: Range<usize>,
        (pc, lane): (u32, u32),
    ) -> AsyncOperation {
        if let Engine::BulkWrites { .. } = engine {
            self.device.begin_bulk_write();
        }
        let place = self.shared.clocks.begin_async(engine, issuers, (pc, lane));
        self.operation(engine, pc, place)
    }

    /// From here on, the operation accesses memory for these of its issuers alone: after what all
    /// of them know.
    pub(crate) fn access_for(&mut self, operation: &AsyncOperation, issuers: Range<usize>) {
        if let Some((place, _)) = operation.place {
            self.shared.clocks.access_for(place, issuers);
        }
    }

    /// A warp of another block of the cluster has begun an operation in this one.
    pub(crate) fn receive_async(
        &mut self,
        visitor: &Visitor,
        engine: Engine,
        pc: u32,
    ) -> AsyncOperation {
        let place = self.shared.clocks.receive(visitor, engine, pc);
        self.operation(engine, pc, place)
    }

    fn operation(&self, engine: Engine, pc: u32, place: Option<(usize, u32)>) -> AsyncOperation {
        let clocks = &self.shared.clocks;
        AsyncOperation {
            engine,
            pc,
            place,
            time: place.map_or(0, |(place, _)| clocks.clock(place)),
        }
    }

    /// What the operation did, for those in other blocks who learn that it has ended.
    pub(crate) fn done(&self, operation: &AsyncOperation) -> DeviceClock {
        let place = operation.place;
        place.map_or_else(DeviceClock::default, |(place, _)| {
            self.shared.clocks.done_at(place, operation.time)
        })
    }

    /// An error if the operation of a visitor may come before the initialisation of the mbarrier on
    /// which it completes its bytes.
    pub(crate) fn check_initialisation(
        &self,
        operation: &AsyncOperation,
        (barrier, lane): (u64, u32),
    ) -> Result<(), Trap> {
        let clocks = &self.shared.clocks;
        let may = |(place, _)| clocks.may_precede_initialisation(place, barrier);
        match operation.place.is_some_and(may) {
            true => Err(mbarrier::unordered(lane)),
            false => Ok(()),
        }
    }

    /// The operation of a visitor has completed its bytes on the mbarrier at this address, whose
    /// phase is over if it `ends`.
    pub(crate) fn complete_for(
        &mut self,
        visitor: &Visitor,
        operation: &AsyncOperation,
        barrier: u64,
        ends: bool,
    ) {
        let clocks = &mut self.shared.clocks;
        match operation.place {
            Some((place, _)) => clocks.arrive_at_mbarrier(place, barrier, true, ends),
            None => {
                clocks.meet(visitor);
                clocks.complete_on_mbarrier(barrier, None, ends);
            }
        }
    }

    /// It reads these bytes of shared memory, in whole words. True if all of them were written.
    pub(crate) fn async_read(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        operation: &AsyncOperation,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<bool, Trap> {
        let unwritten = self.async_access(warp, memory, operation, ranges, Access::Read)?;
        Ok(unwritten.is_none())
    }

    /// The same, if they all must have been written.
    pub(crate) fn async_read_written(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        operation: &AsyncOperation,
        bytes: Range<u64>,
    ) -> Result<(), Trap> {
        let unwritten = self.async_access(warp, memory, operation, [bytes], Access::Read)?;
        all_written(warp, memory, unwritten)
    }

    /// It writes these bytes of shared memory, in whole words. Reads that were noted must be on
    /// record ([`crate::exec::host_thread::HostThread::record_shared_reads`]).
    pub(crate) fn async_write(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        operation: &AsyncOperation,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<(), Trap> {
        self.async_access(warp, memory, operation, ranges, Access::Write)
            .map(|_| ())
    }

    /// It updates these bytes of shared memory, in whole words, each element atomically: as for
    /// [`Self::async_write`].
    pub(crate) fn async_update(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        operation: &AsyncOperation,
        bytes: Range<u64>,
    ) -> Result<(), Trap> {
        for access in [Access::UpdateRead, Access::UpdateWrite] {
            let unwritten = self.async_access(warp, memory, operation, [bytes.clone()], access)?;
            all_written(warp, memory, unwritten)?;
        }
        Ok(())
    }

    /// The first word that it reads although nobody wrote it.
    fn async_access(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        operation: &AsyncOperation,
        ranges: impl IntoIterator<Item = Range<u64>>,
        access: Access,
    ) -> Result<Option<usize>, Trap> {
        let write = matches!(access, Access::Write | Access::UpdateWrite);
        let mut ranges = ranges.into_iter();
        let Some((place, number)) = operation.place else {
            if write {
                ranges.for_each(|bytes| self.shared.mark_written(bytes));
            }
            return Ok(None);
        };
        let who = Accessor {
            warp: place,
            pc: operation.pc,
            sync: matches!(access, Access::UpdateRead | Access::UpdateWrite),
        };
        let (mut last, mut unwritten) = (None, None);
        let mut access = |mut bytes: Range<u64>| {
            let shared = &mut self.shared;
            loop {
                match shared.access_range(who, number, bytes.clone(), write, &mut last) {
                    Err((word, RangeProblem::Unwritten)) => {
                        unwritten.get_or_insert(word);
                        bytes.start = 4 * (word as u64 + 1);
                    }
                    result => break result,
                }
            }
        };
        let Err((word, problem)) = ranges.try_for_each(&mut access) else {
            return Ok(unwritten);
        };
        let seen = word_seen(warp, word, write);
        let other = match problem {
            RangeProblem::Unwritten => unreachable!("goes on behind such a word"),
            RangeProblem::Race(other) | RangeProblem::NoProxyFence(other) => other,
        };
        let mut race = self.race_of(operation.engine.agent(), warp, memory, seen, other);
        if let (RangeProblem::NoProxyFence(_), FaultKind::Race(found)) = (problem, &race.kind) {
            race.kind = FaultKind::MissingProxyFence(found.clone());
        }
        Err(race)
    }

    /// A warp has waited for all that the engine began up to this operation.
    pub(crate) fn wait_async(&mut self, operation: &AsyncOperation, warp: usize) {
        if let Some((place, _)) = operation.place {
            let clocks = &mut self.shared.clocks;
            clocks.wait_async(warp, place, operation.time);
        }
    }

    /// The operation has completed its bytes on the mbarrier at this address, whose phase is over
    /// if it `ends`: who waits for the phase comes after the operation.
    pub(crate) fn complete_on_barrier(
        &mut self,
        operation: &AsyncOperation,
        barrier: u64,
        ends: bool,
    ) {
        let place = operation.place.map(|(place, _)| (place, operation.time));
        let clocks = &mut self.shared.clocks;
        clocks.complete_on_mbarrier(barrier, place, ends);
    }
}

/// The fault of an operation that reads a word which nobody wrote, if there is one.
fn all_written(
    warp: &ActiveWarp<'_>,
    memory: &BlockMemory<'_>,
    unwritten: Option<usize>,
) -> Result<(), Trap> {
    unwritten.map_or(Ok(()), |word| {
        let seen = word_seen(warp, word, false);
        Err(unwritten_fault(warp, memory, seen))
    })
}

/// An access to a word of shared memory, as reports name it.
fn word_seen(warp: &ActiveWarp<'_>, word: usize, write: bool) -> LaneAccess {
    let lane = warp.mask.trailing_zeros() & 31;
    LaneAccess {
        space: MemorySpace::Shared,
        at: word as u64 * 4,
        bytes: 4,
        lane,
        sharers: 1 << lane,
        write,
    }
}
