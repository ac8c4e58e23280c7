//! Race detector of device memory, for blocks that run one after the other.
//!
//! Each word has the record of its last write and one of the reads since, with their times
//! ([`super::vector_clock`]); a word that is accessed in parts has such records for each byte. Two
//! accesses of one block are judged as in shared memory. Accesses of two blocks are ordered by a
//! fence, a flag that is written behind it and read by the other block, atomic or volatile, and
//! nothing else. Threads that write the value that is there already, as correct kernels do, do not
//! race.
//!
//! Readers that do not know of each other share a record. Of one block it says when the first of
//! them read, and which warps did; of several blocks, who was the first, and that there were
//! others. So some races are missed (README.md, "Checks"), and no ordered access is accused.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use crate::exec::checks::device_clock::DeviceClock;
use crate::exec::checks::device_records::{DeviceRecords, Found};
use crate::exec::checks::happens_before::{
    Accessor, NO_PC, Reads, are_open, thread, unaware_of_reads, unaware_of_write,
};
use crate::exec::checks::vector_clock::BlockClocks;
use crate::exec::lane_fault::{OtherAccess, OtherSide};
use crate::exec::lane_mask::lanes;
use crate::memory::shadow::Shadow;

// A record: serial number of the block (32 bits), instruction (16), several threads, synchronising,
// whole word, several blocks, thread (10). That of the first block, if there are several.
const SERIAL: u32 = 32;
const PC: u32 = 16;
const MANY: u64 = 1 << 15;
const SYNC: u64 = 1 << 14;
/// Without it, the bytes have records of their own.
const WHOLE: u64 = 1 << 11;
const MANY_BLOCKS: u64 = 1 << 10;
const THREAD: u64 = 0x3ff;

/// State of the race detector beside the records.
#[derive(Default)]
pub(crate) struct RaceDetector {
    /// The records of each byte of words that were accessed in parts.
    parts: HashMap<usize, [Cell; 4]>,
    /// Clocks that were released through each flag, by address.
    flags: HashMap<u64, DeviceClock>,
}

/// The records of a word or a byte.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    write: u64,
    read: u64,
    /// Times of the last write (low half) and of the first read (high half).
    times: u64,
    /// Warps that have read, a bit each, if they are all of one block.
    readers: u32,
}

impl Cell {
    fn load(shadow: &Shadow, word: usize) -> Cell {
        Cell {
            write: shadow.writes(word, 1)[0].load(Relaxed),
            read: shadow.reads(word, 1)[0].load(Relaxed),
            times: shadow.times(word, 1)[0].load(Relaxed),
            readers: shadow.readers(word, 1)[0].load(Relaxed),
        }
    }

    fn store(&self, shadow: &Shadow, word: usize) {
        shadow.writes(word, 1)[0].store(self.write, Relaxed);
        shadow.reads(word, 1)[0].store(self.read, Relaxed);
        shadow.times(word, 1)[0].store(self.times, Relaxed);
        shadow.readers(word, 1)[0].store(self.readers, Relaxed);
    }

    fn written_at(&self) -> u32 {
        self.times as u32
    }

    fn read_at(&self) -> u32 {
        (self.times >> 32) as u32
    }
}

/// An access that is judged.
pub(crate) struct Judged<'j> {
    records: DeviceRecords<'j>,
    clocks: &'j BlockClocks,
    access: Accessor,
    sharers: u32,
}

impl RaceDetector {
    /// Reads `bytes` of a word (a bit each).
    pub(crate) fn read(
        &mut self,
        judged: &Judged<'_>,
        word: usize,
        bytes: u32,
    ) -> Result<(), Found> {
        self.each_cell(&judged.records, word, bytes, &mut |cell| {
            judged.check_write(cell, &mut || false)?;
            judged.record_read(cell);
            Ok(())
        })
    }

    /// Writes `bytes` of a word (a bit each). `same` tells whether it keeps its value.
    pub(crate) fn write(
        &mut self,
        judged: &Judged<'_>,
        word: usize,
        bytes: u32,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Found> {
        self.each_cell(&judged.records, word, bytes, &mut |cell| {
            judged.check_write(cell, same)?;
            judged.check_reads(cell)?;
            judged.record_write(cell);
            Ok(())
        })
    }

    /// As [`RaceDetector::write`], but nothing is recorded.
    pub(crate) fn check_write(
        &mut self,
        judged: &Judged<'_>,
        word: usize,
        bytes: u32,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Found> {
        self.each_cell(&judged.records, word, bytes, &mut |cell| {
            judged.check_write(cell, same)?;
            judged.check_reads(cell)
        })
    }

    /// Does `one` with the cell of the word, or with those of some of its bytes.
    fn each_cell(
        &mut self,
        records: &DeviceRecords<'_>,
        word: usize,
        bytes: u32,
        one: &mut dyn FnMut(&mut Cell) -> Result<(), Found>,
    ) -> Result<(), Found> {
        let mut whole = Cell::load(records.shadow, word);
        let new = records.is_of_launch((whole.write >> SERIAL) as u32);
        let split = new && whole.write & WHOLE == 0;
        if bytes == 0xf && !split {
            one(&mut whole)?;
            whole.store(records.shadow, word);
            return Ok(());
        }
        let mut parts = match self.parts.remove(&word) {
            Some(parts) if split => parts,
            _ => [whole; 4],
        };
        let result = lanes(bytes).try_for_each(|byte| one(&mut parts[byte]));
        self.parts.insert(word, parts);
        whole.write = u64::from(records.serial) << SERIAL;
        whole.store(records.shadow, word);
        result
    }

    /// A flag in device memory was written: through it this is released.
    pub(crate) fn release(&mut self, released: &DeviceClock, address: u64) {
        self.flags.entry(address).or_default().merge(released);
    }

    /// Clock that was released through a flag in device memory.
    pub(crate) fn released(&self, address: u64) -> Option<&DeviceClock> {
        self.flags.get(&address)
    }
}

impl<'j> Judged<'j> {
    /// An access to one place by the lanes in `sharers`.
    pub(crate) fn new(
        records: DeviceRecords<'j>,
        clocks: &'j BlockClocks,
        access: Accessor,
        sharers: u32,
    ) -> Judged<'j> {
        Judged {
            records,
            clocks,
            access,
            sharers,
        }
    }

    /// True if a record is of this launch.
    fn is_new(&self, record: u64) -> bool {
        self.records.is_of_launch((record >> SERIAL) as u32)
    }

    fn is_own(&self, record: u64) -> bool {
        record >> SERIAL == u64::from(self.records.serial)
    }

    /// True if the lanes may access what was written, or else, whether `same` allows it.
    fn check_write(&self, cell: &Cell, same: &mut dyn FnMut() -> bool) -> Result<(), Found> {
        let (write, time) = (cell.write, cell.written_at());
        if !self.is_new(write) || (self.access.sync && write & SYNC != 0) {
            return Ok(());
        }
        let writer = (write & THREAD) as u32;
        let unaware = if self.is_own(write) {
            unaware_of_write(self.clocks, self.access, self.sharers, writer, time)
        } else {
            self.unaware_of_block(write, time)
        };
        match unaware {
            Some(lane) if !same() => Err((lane, self.other_side(write, true))),
            _ => Ok(()),
        }
    }

    /// True if the lanes may write what was read.
    fn check_reads(&self, cell: &Cell) -> Result<(), Found> {
        let (read, time) = (cell.read, cell.read_at());
        if !self.is_new(read) || (self.access.sync && read & SYNC != 0) {
            return Ok(());
        }
        let unaware = if self.is_own(read) {
            let reads = Reads {
                time,
                thread: (read & THREAD) as u32,
                several: read & MANY != 0,
                by: cell.readers,
            };
            unaware_of_reads(self.clocks, self.access, self.sharers, reads).map(|(lane, _)| lane)
        } else {
            self.unaware_of_block(read, time)
        };
        if let Some(lane) = unaware {
            return Err((lane, self.other_side(read, false)));
        }
        // Which other blocks have read is not known; but if this warp knows of none, it does not
        // know of them.
        let known = self.clocks.other_blocks(self.access.warp);
        if read & MANY_BLOCKS != 0 && known.has_only_times_of(self.records.serial) {
            let mut several = self.other_side(read, false);
            (several.side.block, several.side.thread) = (None, None);
            return Err((self.sharers.trailing_zeros(), several));
        }
        Ok(())
    }

    /// The first of the lanes, if their warp does not know what another block did.
    fn unaware_of_block(&self, record: u64, time: u32) -> Option<u32> {
        let (block, warp) = ((record >> SERIAL) as u32, (record & THREAD) as usize / 32);
        let known = self
            .clocks
            .other_blocks(self.access.warp)
            .knows(block, warp, time);
        (!known).then_some(self.sharers.trailing_zeros())
    }

    fn record_read(&self, cell: &mut Cell) {
        let fresh = self.record();
        let (old, me) = (cell.read, 1 << self.access.warp);
        let open = self.is_new(old) && {
            let seen = if self.is_own(old) {
                !are_open(self.clocks, self.access.warp, cell.read_at(), cell.readers)
            } else {
                let first = self.unaware_of_block(old, cell.read_at());
                first.is_none()
            };
            !seen || old & MANY_BLOCKS != 0
        };
        let now = u64::from(self.clocks.clock(self.access.warp)) << 32 | cell.times & 0xffff_ffff;
        // A plain read and an atomic or volatile one share no record: the plain one stays.
        let mixed = open && (old ^ fresh) & SYNC != 0;
        if !open || (mixed && !self.access.sync) {
            (cell.read, cell.times, cell.readers) = (fresh, now, me);
        } else if mixed {
            // Stays as it is.
        } else if !self.is_own(old) {
            cell.read |= MANY_BLOCKS;
        } else {
            // The first one's time: a writer that does not know of it races for certain.
            let several = u64::from((old ^ fresh) & (MANY | THREAD) != 0) * MANY;
            cell.read = fresh | several | old & MANY_BLOCKS;
            cell.readers |= me;
        }
    }

    fn record_write(&self, cell: &mut Cell) {
        let now = self.clocks.clock(self.access.warp);
        let fresh = self.record() & !MANY;
        // An atomic access hides no plain write that others may still race with: its own thread's,
        // of just before.
        let own = self.is_own(cell.write)
            && (cell.write ^ fresh) & THREAD == 0
            && cell.written_at() == now;
        if own && self.access.sync && cell.write & SYNC == 0 {
            return;
        }
        cell.write = fresh;
        cell.times = cell.times & !0xffff_ffff | u64::from(now);
    }

    fn record(&self) -> u64 {
        let several = self.sharers & (self.sharers - 1) != 0;
        u64::from(self.records.serial) << SERIAL
            | u64::from(self.access.pc.min(NO_PC)) << PC
            | if several { MANY } else { 0 }
            | if self.access.sync { SYNC } else { 0 }
            | WHOLE
            | u64::from(thread(self.access.warp, self.sharers.trailing_zeros()))
    }

    fn other_side(&self, record: u64, write: bool) -> OtherAccess {
        let thread = (record & THREAD) as u32;
        let side = OtherSide {
            pc: (record >> PC) as u32 & NO_PC,
            thread: (record & MANY == 0).then_some(thread),
            block: Some((record >> SERIAL) as u32 - self.records.marks.first),
        };
        let warp = thread as usize / 32;
        OtherAccess { side, warp, write }
    }
}
