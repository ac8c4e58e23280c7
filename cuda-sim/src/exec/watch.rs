//! Watches shared memory: words that are read before they are written, and races between threads of the block.
//!
//! Each word has the record of its last write, and one of the reads since. A record has the time of the access (see
//! [`super::order`]), the instruction, the thread and the bytes. The records of many words are compared at once while
//! nothing is wrong; a word that does not pass is looked at by itself.

use super::order::{MAX_TIME, Order};
use super::records::{ALL_BYTES, BYTES, Limits, MANY, Own, PC, SYNC, THREAD, TIME, WRITTEN};
use super::site::{Run, RunLanes};
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
    }

    /// Records that the lanes of `run` read words `at..`, if nothing special is known of them: they were written by
    /// accesses that the warp has seen, or by the thread itself, and the reads on record are over or of this interval.
    /// False if a word is different; the others may be recorded then, which does no harm.
    #[inline(always)]
    pub(super) fn read_quickly<V: Vectors>(
        &mut self,
        warp: usize,
        pc: u32,
        run: &Run,
        at: usize,
    ) -> bool {
        let clock = self.order.clock(warp);
        let access = Access {
            warp,
            pc,
            sync: false,
        };
        let limits = Limits {
            first: u64::from(self.start) << TIME,
            unseen: u64::from(self.order.floor(warp) + 1) << TIME,
            fresh: record(clock, access, 0xf),
            me: 1 << warp,
        };
        let range = at..at + run.words as usize;
        let writes = &self.writes[range.clone()];
        let reads = &mut self.reads[range.clone()];
        let readers = &mut self.readers[range];
        // SAFETY: the handlers of an instruction set run only where it is there.
        unsafe {
            match run.lanes {
                RunLanes::Many => V::read_records(writes, reads, readers, &limits, None),
                RunLanes::Each {
                    first,
                    words_per_lane,
                } => {
                    let own = Own {
                        first: warp as u64 * 32 + u64::from(first),
                        shift: words_per_lane.trailing_zeros(),
                    };
                    V::read_records(writes, reads, readers, &limits, Some(own))
                }
            }
        }
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
        let access = Access {
            warp,
            pc,
            sync: false,
        };
        let limits = Limits {
            first: u64::from(self.start) << TIME,
            unseen: u64::from(self.order.floor(warp) + 1) << TIME,
            fresh: record(self.order.clock(warp), access, 0xf) | WRITTEN,
            me: 1 << warp,
        };
        let own = Own {
            first: warp as u64 * 32 + u64::from(first),
            shift: words_per_lane.trailing_zeros(),
        };
        let range = at..at + run.words as usize;
        let writes = &mut self.writes[range.clone()];
        let reads = &self.reads[range.clone()];
        let readers = &self.readers[range];
        // SAFETY: the handlers of an instruction set run only where it is there.
        unsafe { V::write_records(writes, reads, readers, &limits, own) }
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
        if other && self.is_unseen(access, write) && clash(access, write, bytes) {
            return Err(Problem::Race(other_side(write, true)));
        }
        let clock = self.order.clock(access.warp);
        let (me, old, by) = (1u32 << access.warp, self.reads[word], self.readers[word]);
        let open = time(old) >= self.start && self.some_reader_unseen(access.warp, old, by);
        let fresh = record(clock, access, bytes) | thread | if many { MANY } else { 0 };
        if !open {
            self.reads[word] = fresh;
            self.readers[word] = me;
            return Ok(());
        }
        // Readers that do not know of each other share a record, with the earliest time: a later writer that has not
        // seen one of them up to then races for certain.
        let time = time(old).min(clock);
        let several = old & MANY != 0 || many || old & THREAD != thread;
        let common = record(time, access, bytes) | (old & ALL_BYTES);
        let sync = if access.sync { old & SYNC } else { 0 };
        self.reads[word] = (common & !SYNC) | sync | thread | if several { MANY } else { 0 };
        self.readers[word] = by | me;
        Ok(())
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
            && self.is_unseen(access, write)
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
            if foreign || (alone && not_mine && unseen(access.warp)) {
                return Err(Problem::Race(other_side(read, false)));
            }
        }
        let before = if valid { write & WRITTEN } else { 0 };
        self.writes[word] =
            record(self.order.clock(access.warp), access, bytes) | before | bytes << 32 | thread;
        Ok(())
    }

    fn is_unseen(&self, access: Access, record: u64) -> bool {
        let warp = (record & THREAD) as usize / 32;
        time(record) >= self.start && !self.order.has_seen(access.warp, warp, time(record))
    }

    fn some_reader_unseen(&self, warp: usize, read: u64, readers: u32) -> bool {
        let unseen = |other: usize| !self.order.has_seen(warp, other, time(read));
        (0..32).any(|other| readers >> other & 1 != 0 && unseen(other))
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
