//! Checks of one memory access: asks the checks of shared, device and local memory, and reports
//! what they find.

use crate::exec::access::pattern::Run;
use crate::exec::access::word::words_at;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::block_memory::BlockMemory;
use crate::exec::checks::checked_access::{CheckedAccess, LaneAccess};
use crate::exec::checks::copies_in_flight::CopyInFlight;
use crate::exec::checks::device_memory::DeviceMemoryChecks;
use crate::exec::checks::happens_before::{self, Accessor};
use crate::exec::checks::shared_memory::{Problem, SharedMemoryChecks};
use crate::exec::checks::unwritten_bytes::{LoadedBytes, unwritten_fault};
use crate::exec::checks::vector_clock::SharedSide;
use crate::exec::lane_fault::{LaneFault, OtherAccess, OtherSide, Trap};
use crate::exec::lane_mask::lanes;
use crate::fault::{Agent, BadCopy, FaultKind, Race, RaceSide};
use crate::program::op::{Fence, MemorySpace, R};

/// Checks of the memory that the running block accesses.
pub(crate) struct Checks<'a> {
    /// True if reads of uninitialised memory and races are looked for.
    pub enabled: bool,
    pub shared: SharedMemoryChecks,
    pub device: DeviceMemoryChecks<'a>,
    /// Set by a load of bytes that nobody wrote, until the warp takes it.
    pub loaded: Option<Box<LoadedBytes>>,
}

impl Checks<'_> {
    /// Checks a load, and notes its bytes that nobody wrote ([`Checks::loaded`]).
    pub(crate) fn load(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
    ) -> Result<(), Trap> {
        let CheckedAccess { pattern, part, .. } = checked;
        let who = accessor(warp, checked.access.order.is_sync());
        let bytes = checked.bytes();
        match part.space {
            MemorySpace::Shared if bytes >= 4 => {
                let mut written = true;
                for run in &pattern.runs {
                    let word = (checked.start_of(run) / 4) as usize;
                    match self.shared.read(who, pattern, run, word) {
                        Ok(all) => written &= all,
                        Err((lane, problem)) => {
                            let seen = checked.lane_access(lane, false);
                            return Err(self.shared_fault(warp, checked.memory, seen, problem));
                        }
                    }
                }
                if !written {
                    self.note_unset(warp, checked);
                }
            }
            MemorySpace::Generic | MemorySpace::Global if bytes >= 4 => {
                for run in &pattern.runs {
                    let at = checked.start_of(run);
                    let shadow = self.device.records.shadow;
                    if !shadow.bytes.is_written(at, 4 * u64::from(run.words)) {
                        return self.load_unset(warp, checked);
                    }
                    let clocks = &self.shared.clocks;
                    if let Err((lane, other)) = self.device.read(clocks, who, pattern, run, at) {
                        let seen = checked.lane_access(lane, false);
                        return Err(self.race(warp, checked.memory, seen, other));
                    }
                }
            }
            MemorySpace::Param => {}
            _ => return self.load_unset(warp, checked),
        }
        Ok(())
    }

    /// Checks a load lane by lane, and notes the bytes that nobody wrote.
    #[inline(never)]
    fn load_unset(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
    ) -> Result<(), Trap> {
        if !self.lanes(warp, checked, None)? {
            self.note_unset(warp, checked);
        }
        Ok(())
    }

    /// Checks a load of which only some bytes are used: those. Notes those that nobody wrote.
    #[inline(never)]
    pub(crate) fn load_used(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
    ) -> Result<(), Trap> {
        if checked.part.space == MemorySpace::Param {
            return Ok(());
        }
        let who = accessor(warp, checked.access.order.is_strong());
        let mut written = true;
        for lane in lanes(checked.part.mask) {
            for (start, bytes) in checked.access.used_pieces() {
                let whole = checked.lane_access(lane as u32, false);
                let seen = LaneAccess {
                    at: whole.at + start,
                    bytes,
                    ..whole
                };
                written &= self.bytes(warp, checked.memory, who, seen, &mut || false)?;
            }
        }
        if !written {
            self.note_unset(warp, checked);
        }
        Ok(())
    }

    /// Checks a store of the registers `a`, before it is made.
    pub(crate) fn store(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
        a: &[R; 4],
    ) -> Result<(), Trap> {
        let CheckedAccess { pattern, part, .. } = checked;
        let who = accessor(warp, checked.access.order.is_sync());
        if checked.access.order.is_strong() {
            self.write_flags(warp, checked);
        }
        match part.space {
            MemorySpace::Shared if checked.bytes() >= 4 => {
                let same = |run: &Run, i| checked.keeps_word(warp.registers, a, run, i);
                self.write_shared(warp, who, checked, same)?;
            }
            MemorySpace::Generic | MemorySpace::Global if checked.bytes() >= 4 => {
                for run in &pattern.runs {
                    let at = checked.start_of(run);
                    let mut same = |i| checked.keeps_word(warp.registers, a, run, i);
                    let clocks = &self.shared.clocks;
                    let result = self.device.write(clocks, who, pattern, run, at, &mut same);
                    if let Err((lane, other)) = result {
                        let seen = checked.lane_access(lane, true);
                        return Err(self.race(warp, checked.memory, seen, other));
                    }
                }
            }
            _ => {
                self.lanes(warp, checked, Some(a))?;
            }
        }
        Ok(())
    }

    /// Checks the targets of asynchronous copies and notes them as in flight. `copy` gives that of
    /// a lane, by the first word of its target.
    pub(crate) fn begin_copies(
        &mut self,
        warp: &ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
        copy: impl Fn(usize, u32) -> CopyInFlight,
    ) -> Result<(), Trap> {
        self.write_shared(warp, accessor(warp, false), checked, |_, _| false)?;
        for lane in lanes(checked.part.mask) {
            let copy = copy(lane, (checked.address(lane) / 4) as u32);
            let result = self.shared.begin_copy(warp.number, copy);
            result.map_err(|(lane, problem)| {
                let seen = checked.lane_access(lane, true);
                let mut fault = self.shared_fault(warp, checked.memory, seen, problem);
                // Copies of earlier instructions were found above.
                if let FaultKind::UnfinishedCopy(copy) = &mut fault.kind {
                    copy.at_once = true;
                }
                fault
            })?;
        }
        Ok(())
    }

    /// Checks a write of whole words of shared memory. `same` tells whether a word of a run keeps
    /// its value.
    #[inline(always)]
    fn write_shared(
        &mut self,
        warp: &ActiveWarp<'_>,
        who: Accessor,
        checked: CheckedAccess<'_>,
        same: impl Fn(&Run, u32) -> bool,
    ) -> Result<(), Trap> {
        for run in &checked.pattern.runs {
            let word = (checked.start_of(run) / 4) as usize;
            let mut same = |i| same(run, i);
            let result = self
                .shared
                .write(who, checked.pattern, run, word, &mut same);
            if let Err((lane, problem)) = result {
                let seen = checked.lane_access(lane, true);
                return Err(self.shared_fault(warp, checked.memory, seen, problem));
            }
        }
        Ok(())
    }

    /// Ends the copies that the lanes of the warp wait for. A fault if the source of one has
    /// changed in the meantime.
    pub(crate) fn wait_for_copies(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        newest: Option<u32>,
    ) -> Result<(), Trap> {
        let ended = self.shared.end_copies(warp.number, warp.mask, newest);
        // SAFETY: device memory stays in place while a launch runs; these bytes were in bounds.
        let changed = |copy: &CopyInFlight| unsafe { words_at(copy.from, copy.bytes) } != copy.read;
        let Some(copy) = ended.into_iter().find(changed) else {
            return Ok(());
        };
        // Another block may have changed it.
        self.device.doubt();
        let lane = u32::from(copy.lane);
        let seen = LaneAccess {
            space: MemorySpace::Global,
            at: copy.from,
            bytes: copy.bytes.into(),
            lane,
            sharers: 1 << lane,
            write: false,
        };
        let other = OtherSide {
            pc: copy.pc,
            thread: Some(happens_before::thread(warp.number, lane)),
            block: None,
        };
        Err(unfinished_copy(warp, memory, seen, other, true))
    }

    /// Checks an atomic operation: a read and a write that do not race with others of their kind.
    pub(crate) fn atomic(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
    ) -> Result<(), Trap> {
        self.write_flags(warp, checked);
        self.synchronise(warp, checked, true)
    }

    /// Checks the initialisation of barriers in shared memory, for these counts: writes that others
    /// must be ordered behind. Lanes that write alike count as one.
    pub(crate) fn initialise(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
        counts: &[u64; 32],
    ) -> Result<(), Trap> {
        let who = accessor(warp, false);
        let place = |lane: usize| (checked.address(lane), counts[lane]);
        let before = |lane: usize| lanes(checked.part.mask & ((1 << lane) - 1));
        let is_first = |&lane: &usize| before(lane).all(|other| place(other) != place(lane));
        for lane in lanes(checked.part.mask).filter(is_first) {
            let seen = checked.lane_access(lane as u32, true);
            self.bytes(warp, checked.memory, who, seen, &mut || false)?;
        }
        Ok(())
    }

    /// Checks a read and, if it `writes`, a write that do not race with others of their kind.
    pub(crate) fn synchronise(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
        writes: bool,
    ) -> Result<(), Trap> {
        let who = accessor(warp, true);
        for lane in lanes(checked.part.mask) {
            for write in [false, true].into_iter().take(1 + usize::from(writes)) {
                let seen = checked.lane_access(lane as u32, write);
                if !self.bytes(warp, checked.memory, who, seen, &mut || false)? {
                    return Err(unwritten_fault(warp, checked.memory, seen));
                }
            }
        }
        Ok(())
    }

    /// Checks an update of a barrier's word by a lane, as [`Checks::synchronise`] does.
    pub(crate) fn synchronise_word(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        at: u64,
        lane: u32,
    ) -> Result<(), Trap> {
        let who = accessor(warp, true);
        for write in [false, true] {
            let seen = LaneAccess {
                space: MemorySpace::Shared,
                at,
                bytes: 8,
                lane,
                sharers: 1 << lane,
                write,
            };
            if !self.bytes(warp, memory, who, seen, &mut || false)? {
                return Err(unwritten_fault(warp, memory, seen));
            }
        }
        Ok(())
    }

    /// Checks, behind a store, that lanes which write to the same place agree on the value.
    #[cold]
    #[inline(never)]
    pub(crate) fn equal_stores(
        &mut self,
        warp: &ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
        a: &[R; 4],
    ) -> Result<(), Trap> {
        let part = checked.part;
        if let MemorySpace::Local | MemorySpace::Param = part.space {
            return Ok(());
        }
        let words = checked.bytes().div_ceil(4) as u32;
        let kept = |lane: usize| (0..words).all(|i| checked.holds(warp.registers, a, lane, i));
        let Some(lane) = lanes(part.mask).find(|&lane| !kept(lane)) else {
            return Ok(());
        };
        self.device.doubt();
        let at = checked.address(lane);
        let winner = lanes(part.mask)
            .filter(|&other| checked.address(other) == at)
            .last();
        let side = OtherSide {
            pc: warp.pc,
            thread: winner.map(|winner| warp.number as u32 * 32 + winner as u32),
            block: Some(self.device.records.number()),
        };
        let seen = checked.lane_access(lane as u32, true);
        let mut fault = self.race(
            warp,
            checked.memory,
            seen,
            OtherAccess {
                side,
                warp: warp.number,
                write: true,
            },
        );
        if let FaultKind::Race(race) = &mut fault.kind {
            race.at_once = true;
        }
        Err(fault)
    }

    /// Runs a fence of the warp.
    pub(crate) fn fence(&mut self, warp: usize, fence: Fence) {
        if !self.enabled {
            return;
        }
        let clocks = &mut self.shared.clocks;
        match fence {
            Fence::Block => clocks.fence(warp, false),
            Fence::Device => clocks.fence(warp, true),
            Fence::AsyncProxy => clocks.fence_proxy(warp),
            // Before a relaxed arrival at the cluster's barrier it releases initialisations; that
            // it releases nothing else is not modelled.
            Fence::MbarrierInit => clocks.fence(warp, true),
        }
    }

    /// Releases through an atomic or volatile store, a flag, what a fence before it has ordered.
    fn write_flags(&mut self, warp: &ActiveWarp<'_>, checked: CheckedAccess<'_>) {
        if !checked.memory.kernel.has_fences {
            return;
        }
        if checked.access.order.releases() {
            self.fence(warp.number, Fence::Device);
        }
        for address in checked.flags() {
            let released = self.shared.clocks.write_flag(warp.number, address);
            if checked.part.space != MemorySpace::Shared {
                self.device.release(released, address);
            }
        }
    }

    /// Acquires through an atomic or volatile load what was released through the flags that it
    /// read.
    pub(crate) fn read_flags(&mut self, warp: &ActiveWarp<'_>, checked: CheckedAccess<'_>) {
        if !checked.memory.kernel.has_fences {
            return;
        }
        for address in checked.flags() {
            let released = match checked.part.space {
                MemorySpace::Shared => None,
                _ => self.device.released(address),
            };
            let clocks = &mut self.shared.clocks;
            clocks.read_flag(warp.number, address, released);
        }
    }

    /// Checks lane by lane: parts of words, and local memory. True if all that is read was written.
    #[inline(never)]
    fn lanes(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
        stored: Option<&[R; 4]>,
    ) -> Result<bool, Trap> {
        let part = checked.part;
        let who = accessor(warp, checked.access.order.is_sync());
        let mut left = part.mask;
        let mut written = true;
        while left != 0 {
            let lane = left.trailing_zeros();
            let whole = checked.lane_access(lane, stored.is_some());
            let sharers = match part.space {
                MemorySpace::Local => 1 << lane,
                _ => lanes(left).fold(0, |all, other| {
                    all | u32::from(checked.address(other) == whole.at) << other
                }),
            };
            left &= !sharers;
            // Only accesses narrower than a word come here, except in local memory, where nothing
            // races.
            let keeps = checked.bytes() < 4
                && stored.is_some_and(|a| checked.holds(warp.registers, a, lane as usize, 0));
            let seen = LaneAccess { sharers, ..whole };
            written &= self.bytes(warp, checked.memory, who, seen, &mut || keeps)?;
        }
        Ok(written)
    }

    /// Checks an access of a lane. True if all that it reads was written.
    fn bytes(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        who: Accessor,
        seen: LaneAccess,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Trap> {
        let LaneAccess {
            space,
            at,
            bytes,
            lane,
            sharers,
            write,
        } = seen;
        if space == MemorySpace::Local {
            let start = (u64::from(lane * warp.local_bytes) + at) as usize;
            let written = &mut warp.local_written.as_mut_slice()[start..start + bytes as usize];
            if write {
                written.fill(1);
            }
            return Ok(!written.contains(&0));
        }
        let mut written = true;
        // An access of eight bytes is two words.
        for at in (at..at + bytes).step_by(4) {
            let part = bytes.min(4);
            let mask = ((1u32 << part) - 1) << (at % 4);
            if space == MemorySpace::Shared {
                let word = (at / 4) as usize;
                let result = if write {
                    let result = self.shared.write_word(who, word, sharers, mask, same);
                    result.map(|()| true)
                } else {
                    self.shared.read_word(who, word, sharers, mask)
                };
                match result {
                    Ok(all) => written &= all,
                    Err((_, problem)) => {
                        return Err(self.shared_fault(warp, memory, seen, problem));
                    }
                }
                continue;
            }
            let (clocks, device) = (&self.shared.clocks, &mut self.device);
            let result = if write {
                device.write_bytes(clocks, who, sharers, at, mask, same)
            } else {
                written &= device.records.shadow.bytes.is_written(at, part);
                if !written && !device.is_in_order() {
                    device.doubt();
                    return Err(unwritten_fault(warp, memory, seen));
                }
                device.read_bytes(clocks, who, sharers, at, mask)
            };
            if let Err((_, other)) = result {
                return Err(self.race(warp, memory, seen, other));
            }
        }
        Ok(written)
    }

    #[cold]
    #[inline(never)]
    fn shared_fault(
        &self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        seen: LaneAccess,
        problem: Problem,
    ) -> Trap {
        match problem {
            Problem::Race(other) => self.race(warp, memory, seen, other),
            Problem::InFlight(copy) => unfinished_copy(warp, memory, seen, copy, false),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn race(
        &self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        seen: LaneAccess,
        other: OtherAccess,
    ) -> Trap {
        self.race_of(Agent::Thread, warp, memory, seen, other)
    }

    /// The race of an access that a thread makes, or that is made for it.
    pub(super) fn race_of(
        &self,
        by: Agent,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        seen: LaneAccess,
        other: OtherAccess,
    ) -> Trap {
        let SharedSide {
            side,
            by: whose,
            is_here,
        } = match seen.space {
            MemorySpace::Shared => self.shared.clocks.side_of(other),
            _ => SharedSide {
                is_here: other.side.block == Some(self.device.records.number()),
                ..self.shared.clocks.device_side_of(other)
            },
        };
        let kind = FaultKind::Race(Race {
            access: memory.bad_access(warp, seen.space, seen.write, (seen.at, seen.bytes), None),
            by,
            // The rest is filled in where blocks and lines are known.
            other: RaceSide {
                write: other.write,
                by: whose,
                source: None,
                block: None,
                thread: None,
            },
            at_once: false,
            adjacent: false,
            update: false,
            within_block: is_here,
        });
        Box::new(LaneFault {
            kind,
            lane: seen.lane,
            other: Some(side),
        })
    }
}

pub(super) fn accessor(warp: &ActiveWarp<'_>, sync: bool) -> Accessor {
    Accessor {
        warp: warp.number,
        pc: warp.pc,
        sync,
    }
}

#[cold]
#[inline(never)]
fn unfinished_copy(
    warp: &ActiveWarp<'_>,
    memory: &BlockMemory<'_>,
    seen: LaneAccess,
    copy: OtherSide,
    source_changed: bool,
) -> Trap {
    let kind = FaultKind::UnfinishedCopy(BadCopy {
        access: memory.bad_access(warp, seen.space, seen.write, (seen.at, seen.bytes), None),
        // The rest is filled in where lines are known.
        source: None,
        thread: None,
        source_changed,
        at_once: false,
    });
    Box::new(LaneFault {
        kind,
        lane: seen.lane,
        other: Some(copy),
    })
}
