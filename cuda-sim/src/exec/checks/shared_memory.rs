//! Checks of shared memory: reads of bytes that nobody wrote, and races between threads of the
//! block.
//!
//! Each word has the record of its last write, and one of the reads since. A record has the time of
//! the access (see [`super::vector_clock`]), the instruction and the thread. The records of many
//! words are compared at once while nothing is wrong; a word that does not pass is looked at by
//! itself. A word that is accessed in parts has such records for each byte.
//!
//! Readers that do not know of each other share a record. It says when the first of them read,
//! which warps did, and one of the threads; a later writer is accused if it cannot have seen what
//! the record says. A plain read and an atomic or volatile one share none: the plain one stays. So
//! some races are missed (README.md, "Checks"), and no ordered access is accused.

use std::collections::HashMap;

use crate::exec::access::owners::WordOwners;
use crate::exec::access::pattern::{AccessPattern, Run};
use crate::exec::checks::copies_in_flight::{CopiesInFlight, CopyInFlight};
use crate::exec::checks::happens_before::{
    self, Accessor, NO_PC, Reads, are_open, unaware_of_reads, unaware_of_write,
};
use crate::exec::checks::shared_records::{
    self, ALL_BYTES, BYTES, MANY, PC, RecordBounds, SYNC, THREAD, TIME, WRITTEN,
};
use crate::exec::checks::unwritten_bytes::UnsetLoad;
use crate::exec::checks::vector_clock::{BlockClocks, MAX_TIME};
use crate::exec::lane_fault::{OtherAccess, OtherSide};
use crate::exec::lane_mask::lanes;
use crate::program::op::MemorySpace;
use crate::tensor_map::Swizzle;

/// Records of shared memory, and the vector clocks of the warps of the block.
#[derive(Default)]
pub(crate) struct SharedMemoryChecks {
    pub clocks: BlockClocks,
    /// The first time of this block; earlier records are another block's.
    pub(super) start: u32,
    pub(super) writes: Vec<u64>,
    pub(super) reads: Vec<u64>,
    /// Warps that have read each word, a bit each, since it was last read by warps that know each
    /// other's past.
    pub(super) readers: Vec<u32>,
    /// The bytes of each word whose records say so; empty while there is none.
    pub(super) parts: Vec<[ByteRecords; 4]>,
    /// Words of which some byte was not written yet.
    pub(super) unwritten: usize,
    /// There were writes since the last barrier of the whole block.
    dirty: bool,
    /// Reads that are not on record yet.
    noted: Vec<Noted>,
    /// Asynchronous copies; the records of their targets say so ([`IN_FLIGHT`]).
    pub copies: CopiesInFlight,
    /// Bytes of shared and local memory that are copies of what nobody wrote: by space, owner and
    /// address, the load. Reports name it.
    pub copied_from: HashMap<(MemorySpace, u32, u64), UnsetLoad>,
    /// By instruction: the swizzle of the tiles that it has copied to shared memory; `None` if they
    /// differ.
    pub swizzles: HashMap<u32, Option<Swizzle>>,
}

/// Reads that are noted at most, before they are recorded.
const MAX_NOTED: usize = 4096;

/// A read of whole words, which were written.
struct Noted {
    warp: u32,
    pc: u32,
    clock: u32,
    /// The memory instruction, which knows the pattern.
    pattern: u32,
    /// Address of the first lane.
    first: u64,
}

/// The records of one byte.
#[derive(Clone, Copy, Default)]
pub(super) struct ByteRecords {
    pub(super) write: u64,
    read: u64,
    readers: u32,
}

/// Fault of a word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Problem {
    /// It races with an access of another thread.
    Race(OtherAccess),
    /// An asynchronous copy writes it, for which nobody has waited.
    InFlight(OtherSide),
}

/// A problem, and the lane that has it.
pub(crate) type Found = (u32, Problem);

impl SharedMemoryChecks {
    /// Begins a block of `warps` warps with `bytes` of shared memory, at the time `now` or later.
    pub(crate) fn start(&mut self, warps: usize, bytes: usize, now: u32) {
        let words = bytes.div_ceil(4);
        if self.clocks.is_worn() || self.writes.len() != words {
            *self = SharedMemoryChecks {
                writes: vec![0; words],
                reads: vec![0; words],
                readers: vec![0; words],
                ..SharedMemoryChecks::default()
            };
        }
        for copy in self.copies.end() {
            self.writes[copy.target()].fill(0);
        }
        self.start = self.clocks.start(warps, now);
        self.unwritten = words;
        self.noted.clear();
        self.dirty = false;
        self.copied_from.clear();
        self.swizzles.clear();
    }

    /// Notes that a warp reads the words of a pattern, if they were all written, by accesses that
    /// the warp has seen or by the thread itself. False if a word is different.
    #[inline(always)]
    pub(crate) fn note_read(
        &mut self,
        warp: usize,
        pc: u32,
        pattern: &AccessPattern,
        number: u32,
        first: u64,
    ) -> bool {
        if !self.dirty {
            // All writes are before the last barrier of the whole block: each byte only has to be
            // written.
            let (at, from) = (first as usize / 4, u64::from(self.start) << TIME);
            if self.unwritten > 0
                && !shared_records::are_set(&self.writes, at, &pattern.words, from)
            {
                return false;
            }
        } else {
            let limits = self.limits(warp, pc);
            for run in &pattern.runs {
                let at = first.wrapping_add_signed(i64::from(run.start)) as usize / 4;
                let writes = &self.writes[at..at + run.words as usize];
                if !shared_records::are_written(writes, &limits, only_owners(warp, run)) {
                    return false;
                }
            }
        }
        if self.noted.len() >= MAX_NOTED {
            return false;
        }
        self.noted.push(Noted {
            warp: warp as u32,
            pc,
            clock: self.clocks.clock(warp),
            pattern: number,
            first,
        });
        true
    }

    /// Records the reads that were noted. They must be recorded before the next write, unless a
    /// barrier of the whole block comes first, behind which nobody can race with them.
    #[inline(always)]
    pub(crate) fn record_reads(&mut self, patterns: &[AccessPattern]) {
        if self.noted.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.noted);
        for noted in all.drain(..) {
            let warp = noted.warp as usize;
            let access = Accessor {
                warp,
                pc: noted.pc,
                sync: false,
            };
            let mut limits = self.limits(warp, noted.pc);
            let pattern = &patterns[noted.pattern as usize];
            for run in &pattern.runs {
                limits.fresh = record(noted.clock, access, 0xf) | if run.shared { MANY } else { 0 };
                let at = noted.first.wrapping_add_signed(i64::from(run.start)) as usize / 4;
                let range = at..at + run.words as usize;
                let reads = &mut self.reads[range.clone()];
                let readers = &mut self.readers[range];
                if shared_records::read(reads, readers, &limits, run.owners.in_warp(warp)) {
                    continue;
                }
                for i in 0..run.words {
                    let sharers = pattern.sharers(run, i);
                    self.record_read(access, noted.clock, at + i as usize, sharers, 0xf);
                }
            }
        }
        self.noted = all; // keeps its room
    }

    fn limits(&self, warp: usize, pc: u32) -> RecordBounds {
        let access = Accessor {
            warp,
            pc,
            sync: false,
        };
        RecordBounds {
            first: u64::from(self.start) << TIME,
            unseen: u64::from(self.clocks.floor(warp) + 1) << TIME,
            fresh: record(self.clocks.clock(warp), access, 0xf),
            me: 1 << warp,
        }
    }

    /// A barrier of the whole block: everything so far is before everything from now on.
    pub(crate) fn pass_barrier(&mut self) {
        self.noted.clear();
        self.dirty = self.clocks.has_open_engines();
    }

    /// Records that the lanes of `run` write words `at..`, if no access on record can race with
    /// that. False, and nothing is recorded, if one may.
    #[inline(always)]
    pub(crate) fn record_write(&mut self, warp: usize, pc: u32, run: &Run, at: usize) -> bool {
        if run.shared {
            return false;
        }
        let mut limits = self.limits(warp, pc);
        limits.fresh |= WRITTEN;
        let range = at..at + run.words as usize;
        let writes = &mut self.writes[range.clone()];
        let reads = &self.reads[range.clone()];
        let readers = &self.readers[range];
        let written =
            shared_records::write(writes, reads, readers, &limits, run.owners.in_warp(warp));
        let Some(new) = written else { return false };
        self.unwritten -= new as usize;
        self.dirty = true;
        true
    }

    /// Words `at..` are read by the lanes of `run`. True if all of them were written.
    pub(crate) fn read(
        &mut self,
        access: Accessor,
        pattern: &AccessPattern,
        run: &Run,
        at: usize,
    ) -> Result<bool, Found> {
        (0..run.words).try_fold(true, |all, i| {
            let sharers = pattern.sharers(run, i);
            Ok(all & self.read_word(access, at + i as usize, sharers, 0xf)?)
        })
    }

    /// The lanes in `sharers` read `bytes` of a word (a bit each). True if these were written.
    pub(crate) fn read_word(
        &mut self,
        access: Accessor,
        word: usize,
        sharers: u32,
        bytes: u32,
    ) -> Result<bool, Found> {
        let write = self.writes[word];
        let written = bytes & self.written(word);
        if written != bytes
            && let Some(problem) = self.in_flight(word)
        {
            return Err((sharers.trailing_zeros(), problem));
        }
        if written == 0 {
            // There is no write to race with.
        } else if !is_split(write) {
            self.check_write_record(access, sharers, write, &mut || false)?;
        } else {
            for byte in lanes(written) {
                let write = self.parts[word][byte].write;
                self.check_write_record(access, sharers, write, &mut || false)?;
            }
        }
        self.record_read(access, self.clocks.clock(access.warp), word, sharers, bytes);
        Ok(written == bytes)
    }

    /// The bytes of a word that were written, a bit each.
    pub(super) fn written(&self, word: usize) -> u32 {
        let write = self.writes[word];
        match time(write) < self.start {
            true => 0,
            false => ((write & WRITTEN) >> 32) as u32,
        }
    }

    /// True if the byte at `at` was written.
    pub(crate) fn is_written(&self, at: u64) -> bool {
        self.written((at / 4) as usize) >> (at % 4) & 1 != 0
    }

    fn record_read(&mut self, access: Accessor, clock: u32, word: usize, sharers: u32, bytes: u32) {
        let (old, by) = (self.reads[word], self.readers[word]);
        let me = 1u32 << access.warp;
        let fresh = record(clock, access, 0xf) | readers_of(access.warp, sharers);
        if bytes == 0xf && !(is_split(old) && self.is_open(access.warp, old, by)) {
            (self.reads[word], self.readers[word]) = self.joined(access, fresh, old, by);
            return;
        }
        self.make_parts();
        if !is_split(old) {
            self.parts[word].iter_mut().for_each(|part| {
                (part.read, part.readers) = (old, by);
            });
        }
        for byte in lanes(bytes) {
            let part = self.parts[word][byte];
            let (read, readers) = self.joined(access, fresh, part.read, part.readers);
            let part = &mut self.parts[word][byte];
            (part.read, part.readers) = (read, readers);
        }
        let by = if time(old) >= self.start { by } else { 0 };
        self.reads[word] = split(time(old).max(clock));
        self.readers[word] = by | me;
    }

    /// A record of reads with one more, and the warps that it stands for.
    fn joined(&self, access: Accessor, fresh: u64, old: u64, by: u32) -> (u64, u32) {
        let me = 1u32 << access.warp;
        if !self.is_open(access.warp, old, by) {
            return (fresh, me);
        }
        match (old & SYNC != 0, access.sync) {
            (false, true) => return (old, by),
            (true, false) => return (fresh, me),
            _ => {}
        }
        // Only this warp has read: whoever is not ordered behind the last read races with it,
        // unless it is the own thread's.
        let same_thread = (old ^ fresh) & (MANY | THREAD) == 0;
        if by == me && (same_thread || fresh & MANY != 0) && time(old) <= time(fresh) {
            return (fresh, me);
        }
        // The earliest time: a later writer that has not seen one of them up to then races for
        // certain.
        let first = time(old).min(time(fresh));
        let several = u64::from((old ^ fresh) & (MANY | THREAD) != 0) * MANY;
        let rest = fresh & !(u64::MAX << TIME);
        (u64::from(first) << TIME | rest | several, by | me)
    }

    /// Words `at..` are written by the lanes of `run`. `same` tells whether a word keeps its value.
    pub(crate) fn write(
        &mut self,
        access: Accessor,
        pattern: &AccessPattern,
        run: &Run,
        at: usize,
        same: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), Found> {
        (0..run.words).try_for_each(|i| {
            let sharers = pattern.sharers(run, i);
            self.write_word(access, at + i as usize, sharers, 0xf, &mut || same(i))
        })
    }

    /// The lanes in `sharers` write `bytes` of a word (a bit each).
    pub(crate) fn write_word(
        &mut self,
        access: Accessor,
        word: usize,
        sharers: u32,
        bytes: u32,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Found> {
        let (write, read) = (self.writes[word], self.reads[word]);
        if let Some(problem) = self.in_flight(word) {
            return Err((sharers.trailing_zeros(), problem));
        }
        if !is_split(write) {
            self.check_write_record(access, sharers, write, same)?;
        }
        if !is_split(read) {
            self.check_read_record(access, sharers, read, self.readers[word])?;
        }
        if is_split(write) || is_split(read) {
            for byte in lanes(bytes) {
                let part = self.parts[word][byte];
                if is_split(write) {
                    self.check_write_record(access, sharers, part.write, same)?;
                }
                if is_split(read) {
                    self.check_read_record(access, sharers, part.read, part.readers)?;
                }
            }
        }
        let valid = time(write) >= self.start;
        let before = if valid { write & WRITTEN } else { 0 };
        let written = before | u64::from(bytes) << 32;
        self.unwritten -= usize::from(before != WRITTEN && written == WRITTEN);
        self.dirty = true;
        let clock = self.clocks.clock(access.warp);
        let fresh = record(clock, access, 0xf) | thread(access.warp, sharers.trailing_zeros());
        // An atomic access hides no plain write that others may still race with: its own thread's,
        // of just before.
        let next = |old: u64| {
            let own = (old ^ fresh) & (u64::MAX << TIME | THREAD) == 0;
            let kept = own && access.sync && old & (SYNC | MANY) == 0;
            if kept { old } else { fresh }
        };
        if bytes == 0xf && !(is_split(write) && access.sync) {
            self.writes[word] = next(write) & !WRITTEN | written;
            return Ok(());
        }
        self.make_parts();
        let parts = &mut self.parts[word];
        if !is_split(write) {
            parts.iter_mut().for_each(|part| part.write = write);
        }
        for byte in lanes(bytes) {
            parts[byte].write = next(parts[byte].write);
        }
        self.writes[word] = split(time(write).max(clock)) | written;
        Ok(())
    }

    /// A thread of `warp` begins a copy to words that it has written by it, as far as records go.
    pub(crate) fn begin_copy(&mut self, warp: usize, copy: CopyInFlight) -> Result<(), Found> {
        for word in copy.target() {
            if let Some(problem) = self.in_flight(word) {
                return Err((copy.lane.into(), problem));
            }
            self.writes[word] = IN_FLIGHT;
            self.unwritten += 1;
        }
        self.copies.begin(warp, copy);
        Ok(())
    }

    /// The lanes in `mask` wait for their copies, but for their `newest` last groups. Returns those
    /// that end.
    pub(crate) fn end_copies(
        &mut self,
        warp: usize,
        mask: u32,
        newest: Option<u32>,
    ) -> Vec<CopyInFlight> {
        let ended = self.copies.take_ended(warp, mask, newest);
        for copy in &ended {
            let access = Accessor {
                warp,
                pc: copy.pc,
                sync: false,
            };
            let write = record(self.clocks.clock(warp), access, 0xf) | WRITTEN;
            self.writes[copy.target()].fill(write | thread(warp, copy.lane.into()));
            self.unwritten -= usize::from(copy.words);
            self.dirty = true;
        }
        ended
    }

    /// True if a word is the target of a copy in flight.
    fn in_flight(&self, word: usize) -> Option<Problem> {
        if self.writes[word] != IN_FLIGHT {
            return None;
        }
        let (thread, pc) = self.copies.to_word(word)?;
        let side = OtherSide {
            pc,
            thread: Some(thread),
            block: None,
        };
        Some(Problem::InFlight(side))
    }

    /// The byte at `at`, which was just written, holds no value.
    pub(crate) fn unwrite(&mut self, at: u64) {
        let write = &mut self.writes[(at / 4) as usize];
        self.unwritten += usize::from(*write & WRITTEN == WRITTEN);
        *write &= !(1 << (at % 4) << 32);
    }

    /// True if the lanes in `sharers` may access what the record of a write says, or else, whether
    /// `same` allows it.
    fn check_write_record(
        &self,
        access: Accessor,
        sharers: u32,
        write: u64,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Found> {
        if time(write) < self.start || (access.sync && write & SYNC != 0) {
            return Ok(());
        }
        let writer = (write & THREAD) as u32;
        match unaware_of_write(&self.clocks, access, sharers, writer, time(write)) {
            Some(lane) if !same() => Err((lane, Problem::Race(other_side(write, true)))),
            _ => Ok(()),
        }
    }

    /// True if the lanes in `sharers` may write what the record of reads by the warps in `by` says.
    fn check_read_record(
        &self,
        access: Accessor,
        sharers: u32,
        read: u64,
        by: u32,
    ) -> Result<(), Found> {
        if time(read) < self.start || (access.sync && read & SYNC != 0) {
            return Ok(());
        }
        let reads = Reads {
            time: time(read),
            thread: (read & THREAD) as u32,
            several: read & MANY != 0,
            by,
        };
        match unaware_of_reads(&self.clocks, access, sharers, reads) {
            Some((lane, warp)) => {
                let other = self.clocks.reader(warp, other_side(read, false));
                Err((lane, Problem::Race(other)))
            }
            None => Ok(()),
        }
    }

    /// True if a record of reads by the warps in `by` says something that `warp` has not seen.
    fn is_open(&self, warp: usize, read: u64, by: u32) -> bool {
        time(read) >= self.start && are_open(&self.clocks, warp, time(read), by)
    }

    fn make_parts(&mut self) {
        if self.parts.is_empty() {
            self.parts.resize(self.writes.len(), Default::default());
        }
    }
}

/// The record of a word that an asynchronous copy writes: later than every time, by no one thread,
/// and never written. So no access passes without a closer look.
pub(super) const IN_FLIGHT: u64 = (MAX_TIME as u64) << TIME | MANY | ALL_BYTES;

/// The record of a word whose bytes have records of their own, the last of them from `time`.
fn split(time: u32) -> u64 {
    u64::from(time) << TIME | MANY
}

pub(super) fn is_split(record: u64) -> bool {
    record & (MANY | ALL_BYTES) == MANY
}

fn thread(warp: usize, lane: u32) -> u64 {
    u64::from(happens_before::thread(warp, lane))
}

/// The thread of a record: the lowest of several lanes.
fn readers_of(warp: usize, sharers: u32) -> u64 {
    let several = sharers & (sharers - 1) != 0;
    thread(warp, sharers.trailing_zeros()) | if several { MANY } else { 0 }
}

/// Whose the words of a run are; `None` if several lanes'.
#[inline(always)]
fn only_owners(warp: usize, run: &Run) -> Option<WordOwners> {
    (!run.shared).then(|| run.owners.in_warp(warp))
}

pub(super) fn time(record: u64) -> u32 {
    (record >> TIME) as u32 & MAX_TIME
}

fn record(time: u32, access: Accessor, bytes: u64) -> u64 {
    u64::from(time) << TIME
        | u64::from(access.pc.min(NO_PC)) << PC
        | if access.sync { SYNC } else { 0 }
        | bytes << BYTES
}

pub(super) fn other_side(record: u64, write: bool) -> OtherAccess {
    let thread = (record & THREAD) as u32;
    let side = OtherSide {
        pc: (record >> PC) as u32 & NO_PC,
        thread: (record & MANY == 0).then_some(thread),
        block: None,
    };
    let warp = thread as usize / 32;
    OtherAccess { side, warp, write }
}
