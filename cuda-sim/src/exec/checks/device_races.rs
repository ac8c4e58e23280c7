//! Race detector of device memory, for blocks that run one after the other.
//!
//! Each word has the record of its last write and one of the reads since, with their times ([`crate::exec::checks::vector_clock`]); a word
//! that is accessed in parts has such records for each byte. Two accesses of one block are judged as in shared memory.
//! Accesses of two blocks are ordered by a fence, a flag that is written behind it and read by the other block, atomic or
//! volatile, and nothing else. Threads that write the value that is there already, as correct kernels do, do not race.
//!
//! Readers that do not know of each other share a record. Of one block it says when the first of them read, and which
//! warps did; of several blocks, who was the first, and that there were others. So some races are missed (README.md,
//! "Checks"), and no ordered access is accused.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use crate::exec::checks::device_clock::Acquired;
use crate::exec::checks::device_memory::{Found, Global, Judge, Other, stamp};
use crate::exec::checks::happens_before::{
    Access, Reads, are_open, thread, unaware_of_reads, unaware_of_write,
};
use crate::exec::checks::shared_memory::FAR;
use crate::exec::checks::vector_clock::Order;
use crate::exec::registers::lanes;
use crate::memory::shadow::Shadow;

// A record: serial number of the block (32 bits), instruction (16), several threads, synchronising, whole word, several
// blocks, thread (10). That of the first block, if there are several.
const SERIAL: u32 = 32;
const PC: u32 = 16;
const MANY: u64 = 1 << 15;
const SYNC: u64 = 1 << 14;
/// Without it, the bytes have records of their own.
const WHOLE: u64 = 1 << 11;
const MANY_BLOCKS: u64 = 1 << 10;
const THREAD: u64 = 0x3ff;

/// What is known of the launch's accesses beside the records.
#[derive(Default)]
pub(crate) struct Races {
    /// The records of each byte of words that were accessed in parts.
    parts: HashMap<usize, [Cell; 4]>,
    /// What was released through each flag, by address.
    flags: HashMap<u64, Acquired>,
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

/// A mistake of an access to one cell: the lane, and the record that it clashes with.
type Clash = (u32, Other);

impl Global<'_> {
    fn races(&mut self) -> &mut Races {
        match &mut self.judge {
            Judge::Races(races) => races,
            Judge::Apart(_) => unreachable!("blocks run at the same time"),
        }
    }

    /// The lanes in `sharers` read `bytes` of a word (a bit each).
    pub(crate) fn judge_read(
        &mut self,
        order: &Order,
        access: Access,
        word: usize,
        sharers: u32,
        bytes: u32,
    ) -> Result<(), Found> {
        self.each_cell(word, bytes, &mut |global, cell| {
            global.check_write(order, access, sharers, cell, &mut || false)?;
            global.record_read(order, access, sharers, cell);
            Ok(())
        })
    }

    /// The lanes in `sharers` write `bytes` of a word (a bit each). `same` tells whether it keeps its value.
    pub(crate) fn judge_write(
        &mut self,
        order: &Order,
        access: Access,
        word: usize,
        sharers: u32,
        bytes: u32,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Found> {
        self.each_cell(word, bytes, &mut |global, cell| {
            global.check_write(order, access, sharers, cell, same)?;
            global.check_reads(order, access, sharers, cell)?;
            global.record_write(order, access, sharers, cell);
            Ok(())
        })
    }

    /// Does `one` with the cell of the word, or with those of some of its bytes.
    fn each_cell(
        &mut self,
        word: usize,
        bytes: u32,
        one: &mut dyn FnMut(&Global<'_>, &mut Cell) -> Result<(), Clash>,
    ) -> Result<(), Found> {
        let mut whole = Cell::load(self.shadow, word);
        let split = self.is_new(whole.write) && whole.write & WHOLE == 0;
        if bytes == 0xf && !split {
            one(self, &mut whole)?;
            whole.store(self.shadow, word);
            return Ok(());
        }
        let mut parts = match self.races().parts.remove(&word) {
            Some(parts) if split => parts,
            _ => [whole; 4],
        };
        let result = lanes(bytes).try_for_each(|byte| one(self, &mut parts[byte]));
        self.races().parts.insert(word, parts);
        whole.write = u64::from(self.serial) << SERIAL;
        whole.store(self.shadow, word);
        result
    }

    /// Whether a record is of this launch.
    fn is_new(&self, record: u64) -> bool {
        self.is_of_launch((record >> SERIAL) as u32)
    }

    fn is_own(&self, record: u64) -> bool {
        record >> SERIAL == u64::from(self.serial)
    }

    /// Whether the lanes may access what was written, or else, whether `same` allows it.
    fn check_write(
        &self,
        order: &Order,
        access: Access,
        sharers: u32,
        cell: &Cell,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Clash> {
        let (write, time) = (cell.write, cell.written_at());
        if !self.is_new(write) || (access.sync && write & SYNC != 0) {
            return Ok(());
        }
        let writer = (write & THREAD) as u32;
        let unaware = if self.is_own(write) {
            unaware_of_write(order, access, sharers, writer, time)
        } else {
            self.unaware_of_block(order, access, sharers, write, time)
        };
        match unaware {
            Some(lane) if !same() => Err((lane, self.other_side(write, true))),
            _ => Ok(()),
        }
    }

    /// Whether the lanes may write what was read.
    fn check_reads(
        &self,
        order: &Order,
        access: Access,
        sharers: u32,
        cell: &Cell,
    ) -> Result<(), Clash> {
        let (read, time) = (cell.read, cell.read_at());
        if !self.is_new(read) || (access.sync && read & SYNC != 0) {
            return Ok(());
        }
        let unaware = if self.is_own(read) {
            let reads = Reads {
                time,
                thread: (read & THREAD) as u32,
                several: read & MANY != 0,
                by: cell.readers,
            };
            unaware_of_reads(order, access, sharers, reads)
        } else {
            self.unaware_of_block(order, access, sharers, read, time)
        };
        if let Some(lane) = unaware {
            return Err((lane, self.other_side(read, false)));
        }
        // Which other blocks have read is not known; but if this warp knows of none, it does not know of them.
        let known = order.of_other_blocks(access.warp);
        if read & MANY_BLOCKS != 0 && known.tells_nothing_but_of(self.serial) {
            let several = Other {
                block: None,
                thread: None,
                ..self.other_side(read, false)
            };
            return Err((sharers.trailing_zeros(), several));
        }
        Ok(())
    }

    /// The first of the lanes, if their warp does not know what another block did.
    fn unaware_of_block(
        &self,
        order: &Order,
        access: Access,
        sharers: u32,
        record: u64,
        time: u32,
    ) -> Option<u32> {
        let (block, warp) = ((record >> SERIAL) as u32, (record & THREAD) as usize / 32);
        let known = order.of_other_blocks(access.warp).knows(block, warp, time);
        (!known).then_some(sharers.trailing_zeros())
    }

    fn record_read(&self, order: &Order, access: Access, sharers: u32, cell: &mut Cell) {
        let fresh = self.record(access, sharers);
        let (old, me) = (cell.read, 1 << access.warp);
        let open = self.is_new(old) && {
            let seen = if self.is_own(old) {
                !are_open(order, access.warp, cell.read_at(), cell.readers)
            } else {
                let sharer = 1 << sharers.trailing_zeros();
                let first = self.unaware_of_block(order, access, sharer, old, cell.read_at());
                first.is_none()
            };
            !seen || old & MANY_BLOCKS != 0
        };
        let now = u64::from(order.clock(access.warp)) << 32 | cell.times & 0xffff_ffff;
        // A plain read and an atomic or volatile one share no record: the plain one stays.
        let mixed = open && (old ^ fresh) & SYNC != 0;
        if !open || (mixed && !access.sync) {
            (cell.read, cell.times, cell.readers) = (fresh, now, me);
        } else if mixed {
            // Stays as it is.
        } else if !self.is_own(old) {
            cell.read |= MANY_BLOCKS;
        } else {
            // The first one's time: a writer that does not know of it races for certain.
            let several = if (old ^ fresh) & (MANY | THREAD) == 0 {
                0
            } else {
                MANY
            };
            cell.read = fresh | several | old & MANY_BLOCKS;
            cell.readers |= me;
        }
    }

    fn record_write(&self, order: &Order, access: Access, sharers: u32, cell: &mut Cell) {
        let now = order.clock(access.warp);
        let fresh = self.record(access, sharers) & !MANY;
        // An atomic access hides no plain write that others may still race with: its own thread's, of just before.
        let own = self.is_own(cell.write)
            && (cell.write ^ fresh) & THREAD == 0
            && cell.written_at() == now;
        if own && access.sync && cell.write & SYNC == 0 {
            return;
        }
        cell.write = fresh;
        cell.times = cell.times & !0xffff_ffff | u64::from(now);
    }

    fn record(&self, access: Access, sharers: u32) -> u64 {
        let several = sharers & (sharers - 1) != 0;
        u64::from(self.serial) << SERIAL
            | stamp(access.pc) << PC
            | if several { MANY } else { 0 }
            | if access.sync { SYNC } else { 0 }
            | WHOLE
            | u64::from(thread(access.warp, sharers.trailing_zeros()))
    }

    fn other_side(&self, record: u64, write: bool) -> Other {
        Other {
            pc: (record >> PC) as u32 & FAR,
            block: Some((record >> SERIAL) as u32 - self.marks.first),
            thread: (record & MANY == 0).then_some((record & THREAD) as u32),
            write,
        }
    }

    /// A flag in device memory was written: through it this is released.
    pub(crate) fn release(&mut self, released: &Acquired, address: u64) {
        if let Judge::Races(races) = &mut self.judge {
            races.flags.entry(address).or_default().merge(released);
        }
    }

    /// What was released through a flag in device memory.
    pub(crate) fn released(&self, address: u64) -> Option<&Acquired> {
        match &self.judge {
            Judge::Races(races) => races.flags.get(&address),
            Judge::Apart(_) => None,
        }
    }
}
