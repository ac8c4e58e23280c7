//! Checks of bytes in a row of device memory, which a thread reads or writes by a bulk copy.
//!
//! The thread that begins a load counts as the one that reads: whoever is ordered behind the copy
//! is ordered behind what that thread did before it. What a store writes is its engine's.

use crate::exec::access::owners::WordOwners;
use crate::exec::access::pattern::Run;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::block_memory::BlockMemory;
use crate::exec::checks::accesses::{Checks, accessor};
use crate::exec::checks::async_proxy::AsyncOperation;
use crate::exec::checks::checked_access::LaneAccess;
use crate::exec::checks::device_memory::{DeviceDetector, DeviceMemoryChecks};
use crate::exec::checks::device_races::Judged;
use crate::exec::checks::device_records::{DeviceRecords, Found};
use crate::exec::checks::happens_before::{Accessor, thread};
use crate::exec::checks::independence::IndependenceProof;
use crate::exec::checks::unwritten_bytes::unwritten_fault;
use crate::exec::checks::vector_clock::BlockClocks;
use crate::exec::lane_fault::Trap;
use crate::fault::Agent;
use crate::memory::shadow::Shadow;
use crate::program::op::MemorySpace;

/// Bytes in a row, accessed by a lane.
#[derive(Clone, Copy)]
pub(crate) struct LaneRange {
    pub lane: u32,
    pub at: u64,
    pub bytes: u64,
}

impl LaneRange {
    fn seen(self, space: MemorySpace, write: bool) -> LaneAccess {
        LaneAccess {
            space,
            at: self.at,
            bytes: self.bytes,
            lane: self.lane,
            sharers: 1 << self.lane,
            write,
        }
    }

    /// The words that it has bytes of, by their addresses, and these bytes, a bit each.
    fn words(self) -> impl Iterator<Item = (u64, u32)> {
        let end = self.at + self.bytes;
        (self.at & !3..end).step_by(4).map(move |word| {
            let below = u32::MAX << self.at.saturating_sub(word);
            let above = 0xf >> (word + 4).saturating_sub(end).min(4);
            (word, below & above)
        })
    }
}

impl Checks<'_> {
    /// Checks a read of device memory. True if all of it was written. Where blocks run at the same
    /// time, bytes that nobody wrote are a fault, which ends the attempt.
    pub(crate) fn read_range(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        range: LaneRange,
    ) -> Result<bool, Trap> {
        let seen = range.seen(MemorySpace::Global, false);
        let bytes = &self.device.records.shadow.bytes;
        let written = bytes.is_written(range.at, range.bytes);
        if !written && !self.device.is_in_order() {
            self.device.doubt();
            return Err(unwritten_fault(warp, memory, seen));
        }
        let who = accessor(warp, false);
        let result = self.device.read_range(&self.shared.clocks, who, range);
        result.map_err(|(_, other)| self.race(warp, memory, seen, other))?;
        Ok(written)
    }

    /// Checks a write to device memory by an operation, before it is made. `same` tells whether the
    /// word at an address keeps its value.
    pub(crate) fn write_range(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        operation: &AsyncOperation,
        range: LaneRange,
        same: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), Trap> {
        let thread = accessor(warp, false);
        let (who, lane) = operation.accessor_or(thread, range.lane);
        let (clocks, device) = (&self.shared.clocks, &mut self.device);
        let written = LaneRange { lane, ..range };
        let result = device
            .check_range(clocks, thread, range, same)
            .and_then(|()| device.write_range(clocks, who, written, same));
        result.map_err(|(_, other)| {
            let seen = range.seen(MemorySpace::Global, true);
            self.race_of(Agent::BulkCopy, warp, memory, seen, other)
        })
    }

    /// Checks an atomic update of device memory by an operation. All of it must have been written.
    pub(crate) fn update_range(
        &mut self,
        warp: &ActiveWarp<'_>,
        memory: &BlockMemory<'_>,
        operation: &AsyncOperation,
        range: LaneRange,
    ) -> Result<(), Trap> {
        let bytes = &self.device.records.shadow.bytes;
        if !bytes.is_written(range.at, range.bytes) {
            self.device.doubt();
            let seen = range.seen(MemorySpace::Global, false);
            return Err(unwritten_fault(warp, memory, seen));
        }
        let thread = accessor(warp, true);
        let (who, lane) = operation.accessor_or(thread, range.lane);
        let (clocks, lane) = (&self.shared.clocks, 1 << lane);
        let checked = self
            .device
            .check_range(clocks, thread, range, &mut |_| false);
        checked.map_err(|(_, other)| {
            let seen = range.seen(MemorySpace::Global, true);
            self.race_of(Agent::BulkCopy, warp, memory, seen, other)
        })?;
        for (word, bytes) in range.words() {
            let at = word + u64::from(bytes.trailing_zeros());
            let device = &mut self.device;
            let result = device
                .read_bytes(clocks, who, lane, at, bytes)
                .and_then(|()| device.write_bytes(clocks, who, lane, at, bytes, &mut || false));
            if let Err((_, other)) = result {
                let seen = range.seen(MemorySpace::Global, true);
                return Err(self.race_of(Agent::BulkCopy, warp, memory, seen, other));
            }
        }
        Ok(())
    }
}

impl DeviceMemoryChecks<'_> {
    fn read_range(
        &mut self,
        clocks: &BlockClocks,
        who: Accessor,
        range: LaneRange,
    ) -> Result<(), Found> {
        let records = self.records;
        match &mut self.detector {
            DeviceDetector::Independence(proof) => proof.read_range(&records, who, range),
            DeviceDetector::Races(races) => {
                let judged = Judged::new(records, clocks, who, 1 << range.lane);
                range.words().try_for_each(|(word, bytes)| {
                    races.read(&judged, records.shadow.word(word), bytes)
                })
            }
        }
    }

    /// Checks what a copy writes as if the thread that begins it wrote it. The engine takes all
    /// lanes of the warp for one; of those, only that thread is ordered before it.
    fn check_range(
        &mut self,
        clocks: &BlockClocks,
        thread: Accessor,
        range: LaneRange,
        same: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), Found> {
        let records = self.records;
        let DeviceDetector::Races(races) = &mut self.detector else {
            return Ok(());
        };
        let judged = Judged::new(records, clocks, thread, 1 << range.lane);
        range.words().try_for_each(|(word, bytes)| {
            let at = records.shadow.word(word);
            races.check_write(&judged, at, bytes, &mut || same(word))
        })
    }

    fn write_range(
        &mut self,
        clocks: &BlockClocks,
        who: Accessor,
        range: LaneRange,
        same: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), Found> {
        let records = self.records;
        match &mut self.detector {
            DeviceDetector::Independence(proof) => proof.write_range(&records, who, range)?,
            DeviceDetector::Races(races) => {
                let judged = Judged::new(records, clocks, who, 1 << range.lane);
                for (word, bytes) in range.words() {
                    let at = records.shadow.word(word);
                    races.write(&judged, at, bytes, &mut || same(word))?;
                }
            }
        }
        records.shadow.bytes.set_written(range.at, range.bytes);
        Ok(())
    }
}

impl IndependenceProof {
    fn read_range(
        &mut self,
        records: &DeviceRecords<'_>,
        who: Accessor,
        range: LaneRange,
    ) -> Result<(), Found> {
        range.runs(records).try_for_each(|(run, part)| {
            if let Some(run) = run {
                let at = records.shadow.word(part.at);
                let is_known = self.has_read_run(records, who.warp, &run, at);
                if is_known || self.read_run(records, who, &run, at) {
                    return Ok(());
                }
            }
            let owner = thread(who.warp, range.lane).into();
            part.words().try_for_each(|(word, bytes)| {
                let at = records.shadow.word(word);
                self.read_word(records, owner, range.lane, at, bytes.into())
            })
        })
    }

    fn write_range(
        &mut self,
        records: &DeviceRecords<'_>,
        who: Accessor,
        range: LaneRange,
    ) -> Result<(), Found> {
        range.runs(records).try_for_each(|(run, part)| {
            if let Some(run) = run
                && self.write_run(records, who, &run, part.at)
            {
                return Ok(());
            }
            let owner = thread(who.warp, range.lane).into();
            part.words().try_for_each(|(word, bytes)| {
                self.write_word(records, owner, false, range.lane, word, bytes.into())
            })
        })
    }
}

impl LaneRange {
    /// The parts that share a lock each, and their words as a run of the lane. A range that does
    /// not begin and end with a word is one part, and no run.
    fn runs<'r>(
        self,
        records: &'r DeviceRecords<'_>,
    ) -> impl Iterator<Item = (Option<Run>, LaneRange)> + use<'r> {
        let has_words = (self.at | self.bytes).is_multiple_of(4);
        let (mut at, end) = (self.at, self.at + self.bytes);
        std::iter::from_fn(move || {
            let left = (end - at) as usize / 4;
            if at == end {
                return None;
            }
            if !has_words {
                at = end;
                return Some((None, self));
            }
            let words = Shadow::stretch(records.shadow.word(at), left);
            let run = Run {
                start: 0,
                words: words as u32,
                owners: WordOwners::one(self.lane.into()),
                shared: false,
            };
            let bytes = 4 * words as u64;
            let part = LaneRange { at, bytes, ..self };
            at += bytes;
            Some((Some(run), part))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_bytes_of_words() {
        let words = |at, bytes| {
            let range = LaneRange { lane: 3, at, bytes };
            range.words().collect::<Vec<_>>()
        };
        assert_eq!(words(16, 8), [(16, 0xf), (20, 0xf)]);
        assert_eq!(words(17, 2), [(16, 0b0110)]);
        assert_eq!(words(19, 6), [(16, 0b1000), (20, 0xf), (24, 0b0001)]);
        assert_eq!(words(16, 0), []);
    }
}
