//! Watches shared memory: words that are read before they are written, and races between threads of the block.
//!
//! Each word has the record of its last write, and one of the reads since. A record has the time of the access (see
//! [`super::order`]), the instruction, the thread and the bytes. The records of many words are compared at once while
//! nothing is wrong; a word that does not pass is looked at by itself.

use super::order::{MAX_TIME, Order};
use super::records::{ALL_BYTES, BYTES, Limits, MANY, Own, PC, SYNC, THREAD, TIME, WRITTEN};
use super::site::{Run, RunLanes, Site};
use super::vectors::Vectors;

/// An instruction that the record has no room for.
pub(super) const FAR: u32 = 0xffff;

/// Shared memory's records and the order of a block's warps.
#[derive(Default)]
pub(super) struct Watch {
    pub order: Order,
    /// The first time of this block; earlier records are another block's.
    start: u32,
    writes: Vec<u64>,
    reads: Vec<u64>,
    /// Warps that have read each word, a bit each, since it was last read by warps that know each other's past.
    readers: Vec<u32>,
    /// Words of which some byte was not written yet.
    unwritten: usize,
    /// There were writes since all warps met.
    dirty: bool,
    /// Reads that are not on record yet.
    noted: Vec<Noted>,
}

/// Reads that are noted at most, before they are recorded.
const MAX_NOTED: usize = 4096;

/// A read of whole words, which were written.
struct Noted {
    warp: u32,
    pc: u32,
    clock: u32,
    /// The memory instruction, which knows the pattern.
    site: u32,
    /// Address of the first lane.
    first: u64,
}

/// Who makes an access.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub warp: usize,
    pub pc: u32,
    /// Atomic or volatile: it does not race with others that are.
    pub sync: bool,
}

/// What is wrong with a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    Uninitialised,
    /// It races with an access of another thread.
    Race(Other),
}

/// The other side of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Other {
    pub pc: u32,
    /// Number within the block; `None` if there are several.
    pub thread: Option<u32>,
    pub write: bool,
}

/// A problem with a word, counted from the start of the run, and the lane that has it.
pub(super) type Found = (u32, u32, Problem);

impl Watch {
    /// Begins a block of `warps` warps with `bytes` of shared memory.
    pub(super) fn start(&mut self, warps: usize, bytes: usize) {
        let words = bytes.div_ceil(4);
        if self.order.is_worn() || self.writes.len() != words {
            *self = Watch {
                writes: vec![0; words],
                reads: vec![0; words],
                readers: vec![0; words],
                ..Watch::default()
            };
        }
        self.start = self.order.start(warps);
        self.unwritten = words;
        self.noted.clear();
        self.dirty = false;
    }

    /// Notes that a warp reads the words of a site, if they were all written, by accesses that the warp has seen or by
    /// the thread itself. False if a word is different.
    #[inline(always)]
    pub(super) fn read_quickly<V: Vectors>(
        &mut self,
        warp: usize,
        pc: u32,
        site: &Site,
        number: u32,
        first: u64,
    ) -> bool {
        if !self.dirty {
            // All writes are before the barrier where all warps met; what is left to see is whether there were any.
            let (at, from) = (first as usize / 4, u64::from(self.start) << TIME);
            // SAFETY: the handlers of an instruction set run only where it is there, and the site's words lie in shared
            // memory.
            if self.unwritten > 0 && !unsafe { V::are_set(&self.writes, at, &site.words, from) } {
                return false;
            }
        } else {
            let limits = self.limits(warp, pc);
            for run in &site.runs {
                let at = first.wrapping_add_signed(i64::from(run.start)) as usize / 4;
                let writes = &self.writes[at..at + run.words as usize];
                // SAFETY: the handlers of an instruction set run only where it is there.
                if !unsafe { V::are_written(writes, &limits, own(warp, run)) } {
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
            clock: self.order.clock(warp),
            site: number,
            first,
        });
        true
    }

    /// Records the reads that were noted. They must be recorded before the next write, unless a barrier of the whole
    /// block comes first, behind which nobody can race with them.
    #[inline(always)]
    pub(super) fn record_reads<V: Vectors>(&mut self, sites: &[Site]) {
        if self.noted.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.noted);
        for noted in all.drain(..) {
            let warp = noted.warp as usize;
            let access = Access {
                warp,
                pc: noted.pc,
                sync: false,
            };
            let limits = Limits {
                fresh: record(noted.clock, access, 0xf),
                ..self.limits(warp, noted.pc)
            };
            for run in &sites[noted.site as usize].runs {
                let at = noted.first.wrapping_add_signed(i64::from(run.start)) as usize / 4;
                let range = at..at + run.words as usize;
                let reads = &mut self.reads[range.clone()];
                let readers = &mut self.readers[range];
                // SAFETY: the handlers of an instruction set run only where it is there.
                if unsafe { V::record_reads(reads, readers, &limits, own(warp, run)) } {
                    continue;
                }
                for i in 0..run.words {
                    let many = run.lanes == RunLanes::Many;
                    self.record_read(
                        access,
                        noted.clock,
                        at + i as usize,
                        run.lane_of(i),
                        many,
                        0xf,
                    );
                }
            }
        }
        self.noted = all; // keeps its room
    }

    fn limits(&self, warp: usize, pc: u32) -> Limits {
        let access = Access {
            warp,
            pc,
            sync: false,
        };
        Limits {
            first: u64::from(self.start) << TIME,
            unseen: u64::from(self.order.floor(warp) + 1) << TIME,
            fresh: record(self.order.clock(warp), access, 0xf),
            me: 1 << warp,
        }
    }

    /// A barrier of the whole block: everything so far is before everything from now on.
    pub(super) fn all_have_met(&mut self) {
        self.noted.clear();
        self.dirty = false;
    }

    /// Records that the lanes of `run` write words `at..`, if no access on record can race with that. False, and nothing
    /// is recorded, if one may.
    #[inline(always)]
    pub(super) fn write_quickly<V: Vectors>(
        &mut self,
        warp: usize,
        pc: u32,
        run: &Run,
        at: usize,
    ) -> bool {
        let RunLanes::Each {
            first,
            words_per_lane,
        } = run.lanes
        else {
            return false;
        };
        let mut limits = self.limits(warp, pc);
        limits.fresh |= WRITTEN;
        let own = Own {
            first: warp as u64 * 32 + u64::from(first),
            shift: words_per_lane.trailing_zeros(),
        };
        let range = at..at + run.words as usize;
        let writes = &mut self.writes[range.clone()];
        let reads = &self.reads[range.clone()];
        let readers = &self.readers[range];
        // SAFETY: the handlers of an instruction set run only where it is there.
        let written = unsafe { V::write_records(writes, reads, readers, &limits, own) };
        let Some(new) = written else { return false };
        self.unwritten -= new as usize;
        self.dirty = true;
        true
    }

    /// Words `at..` are read by the lanes of `run`.
    pub(super) fn read(&mut self, access: Access, run: &Run, at: usize) -> Result<(), Found> {
        for i in 0..run.words {
            let lane = run.lane_of(i);
            let many = run.lanes == RunLanes::Many;
            self.read_word(access, at + i as usize, lane, many, 0xf)
                .map_err(|problem| (i, lane, problem))?;
        }
        Ok(())
    }

    /// `lane`, or several lanes, read `bytes` of a word (a bit each).
    pub(super) fn read_word(
        &mut self,
        access: Access,
        word: usize,
        lane: u32,
        many: bool,
        bytes: u64,
    ) -> Result<(), Problem> {
        let thread = access.warp as u64 * 32 + u64::from(lane);
        let write = self.writes[word];
        if time(write) < self.start || (write & WRITTEN) >> 32 & bytes != bytes {
            return Err(Problem::Uninitialised);
        }
        let other = write & THREAD != thread || many;
        if other && self.is_unseen(access, lane, write) && clash(access, write, bytes) {
            return Err(Problem::Race(other_side(write, true)));
        }
        let clock = self.order.clock(access.warp);
        self.record_read(access, clock, word, lane, many, bytes);
        Ok(())
    }

    fn record_read(
        &mut self,
        access: Access,
        clock: u32,
        word: usize,
        lane: u32,
        many: bool,
        bytes: u64,
    ) {
        let thread = access.warp as u64 * 32 + u64::from(lane);
        let (me, old, by) = (1u32 << access.warp, self.reads[word], self.readers[word]);
        let open = time(old) >= self.start && self.some_reader_unseen(access.warp, old, by);
        let fresh = record(clock, access, bytes) | thread | if many { MANY } else { 0 };
        if !open {
            self.reads[word] = fresh;
            self.readers[word] = me;
            return;
        }
        // Readers that do not know of each other share a record, with the earliest time: a later writer that has not
        // seen one of them up to then races for certain.
        let time = time(old).min(clock);
        let several = old & MANY != 0 || many || old & THREAD != thread;
        // Of bytes, those that all have read are kept if the readers are several.
        let old_bytes = (old & ALL_BYTES) >> BYTES;
        let bytes = if several {
            old_bytes & bytes
        } else {
            old_bytes | bytes
        };
        let common = record(time, access, bytes);
        let sync = if access.sync { old & SYNC } else { 0 };
        self.reads[word] = (common & !SYNC) | sync | thread | if several { MANY } else { 0 };
        self.readers[word] = by | me;
    }

    /// Words `at..` are written by the lanes of `run`. `same` tells whether a word keeps its value.
    pub(super) fn write(
        &mut self,
        access: Access,
        run: &Run,
        at: usize,
        same: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), Found> {
        for i in 0..run.words {
            let lane = run.lane_of(i);
            self.write_word(access, at + i as usize, lane, 0xf, &mut || same(i))
                .map_err(|problem| (i, lane, problem))?;
        }
        Ok(())
    }

    /// `lane` writes `bytes` of a word (a bit each).
    pub(super) fn write_word(
        &mut self,
        access: Access,
        word: usize,
        lane: u32,
        bytes: u64,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Problem> {
        let thread = access.warp as u64 * 32 + u64::from(lane);
        let write = self.writes[word];
        let valid = time(write) >= self.start;
        if write & THREAD != thread
            && self.is_unseen(access, lane, write)
            && clash(access, write, bytes)
            && !same()
        {
            return Err(Problem::Race(other_side(write, true)));
        }
        let (read, by) = (self.reads[word], self.readers[word]);
        if time(read) >= self.start && clash(access, read, bytes) {
            let unseen = |warp: usize| !self.order.has_seen(access.warp, warp, time(read));
            let others = by & !(1 << access.warp);
            let foreign = (0..32).any(|w| others >> w & 1 != 0 && unseen(w));
            let alone = others == 0 && by != 0;
            let not_mine = read & MANY != 0 || read & THREAD != thread;
            if foreign || (alone && not_mine && self.is_unseen(access, lane, read)) {
                return Err(Problem::Race(other_side(read, false)));
            }
        }
        let before = if valid { write & WRITTEN } else { 0 };
        self.unwritten -= usize::from(before != WRITTEN && before | bytes << 32 == WRITTEN);
        self.dirty = true;
        self.writes[word] =
            record(self.order.clock(access.warp), access, bytes) | before | bytes << 32 | thread;
        Ok(())
    }

    fn is_unseen(&self, access: Access, lane: u32, record: u64) -> bool {
        let other = (record & THREAD) as u32;
        let order = &self.order;
        time(record) >= self.start && !order.thread_has_seen(access.warp, lane, other, time(record))
    }

    fn some_reader_unseen(&self, warp: usize, read: u64, readers: u32) -> bool {
        let unseen = |other: usize| !self.order.has_seen(warp, other, time(read));
        (0..32).any(|other| readers >> other & 1 != 0 && unseen(other))
    }
}

/// Whose the words of a run are; `None` if several lanes'.
#[inline(always)]
fn own(warp: usize, run: &Run) -> Option<Own> {
    match run.lanes {
        RunLanes::Many => None,
        RunLanes::Each {
            first,
            words_per_lane,
        } => Some(Own {
            first: warp as u64 * 32 + u64::from(first),
            shift: words_per_lane.trailing_zeros(),
        }),
    }
}

fn time(record: u64) -> u32 {
    (record >> TIME) as u32 & MAX_TIME
}

fn record(time: u32, access: Access, bytes: u64) -> u64 {
    u64::from(time) << TIME
        | u64::from(access.pc.min(FAR)) << PC
        | if access.sync { SYNC } else { 0 }
        | bytes << BYTES
}

/// Whether two accesses, of which one writes, may not go unordered: they share a byte, and one is a plain one.
fn clash(access: Access, record: u64, bytes: u64) -> bool {
    (record & ALL_BYTES) >> BYTES & bytes != 0 && !(access.sync && record & SYNC != 0)
}

fn other_side(record: u64, write: bool) -> Other {
    Other {
        pc: (record >> PC) as u32 & FAR,
        thread: (record & MANY == 0).then_some((record & THREAD) as u32),
        write,
    }
}
