//! Watches shared memory: words that are read before they are written, and races between threads of the block.
//!
//! Each word has the record of its last write, and one of the reads since. A record has the time of the access (see
//! [`super::order`]), the instruction, the thread and the bytes. The records of many words are compared at once while
//! nothing is wrong; a word that does not pass is looked at by itself.

use super::order::{MAX_TIME, Order};
use super::site::{Run, RunLanes};

// A record: time (28 bits), bytes written ever (4), instruction (16), several threads, synchronising, bytes (4),
// thread (10). Time 0 is never.
const TIME: u32 = 36;
const WRITTEN: u64 = 0xf << 32;
const PC: u32 = 16;
const MANY: u64 = 1 << 15;
const SYNC: u64 = 1 << 14;
const BYTES: u32 = 10;
const ALL_BYTES: u64 = 0xf << BYTES;
const THREAD: u64 = 0x3ff;
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

    /// Words `at..` are read by the lanes of `run`.
    #[inline(always)]
    pub(super) fn read(&mut self, access: Access, run: &Run, at: usize) -> Result<(), Found> {
        let words = run.words as usize;
        if !access.sync && self.reads_are_known(access, run.lanes, at, words) {
            return Ok(());
        }
        self.read_slowly(access, run, at)
    }

    /// Whether all words were written, by accesses that the warp has seen, and the reads are recorded already.
    #[inline(always)]
    fn reads_are_known(&self, access: Access, lanes: RunLanes, at: usize, words: usize) -> bool {
        let warp = access.warp;
        let first_time = u64::from(self.start) << TIME;
        let unseen = u64::from(self.order.floor(warp) + 1) << TIME;
        let clock = u64::from(self.order.clock(warp));
        let me = 1u32 << warp;
        let writes = &self.writes[at..at + words];
        let reads = &self.reads[at..at + words];
        let readers = &self.readers[at..at + words];
        let mut bad = false;
        match lanes {
            RunLanes::Many => {
                for ((&w, &r), &by) in writes.iter().zip(reads).zip(readers) {
                    let written = (w >= first_time) & (w & WRITTEN == WRITTEN) & (w < unseen);
                    let recorded = (r >> TIME == clock)
                        & (r & (MANY | SYNC | ALL_BYTES) == MANY | ALL_BYTES)
                        & (by & me != 0);
                    bad |= !(written & recorded);
                }
            }
            RunLanes::Each {
                first,
                words_per_lane,
            } => {
                let first = warp as u64 * 32 + u64::from(first);
                let shift = words_per_lane.trailing_zeros();
                for (i, ((&w, &r), &by)) in writes.iter().zip(reads).zip(readers).enumerate() {
                    let own = first + (i as u64 >> shift);
                    let seen = (w < unseen) | (w & THREAD == own);
                    let written = (w >= first_time) & (w & WRITTEN == WRITTEN) & seen;
                    let mine = (r & MANY != 0) | (r & THREAD == own);
                    let recorded = (r >> TIME == clock)
                        & (r & (SYNC | ALL_BYTES) == ALL_BYTES)
                        & (by & me != 0)
                        & mine;
                    bad |= !(written & recorded);
                }
            }
        }
        !bad
    }

    #[inline(never)]
    fn read_slowly(&mut self, access: Access, run: &Run, at: usize) -> Result<(), Found> {
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
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        access: Access,
        run: &Run,
        at: usize,
        same: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), Found> {
        if let (
            false,
            RunLanes::Each {
                first,
                words_per_lane,
            },
        ) = (access.sync, run.lanes)
        {
            let words = run.words as usize;
            let (warp, me) = (access.warp, 1u32 << access.warp);
            let first = warp as u64 * 32 + u64::from(first);
            let shift = words_per_lane.trailing_zeros();
            let unseen = u64::from(self.order.floor(warp) + 1) << TIME;
            let writes = &mut self.writes[at..at + words];
            let reads = &self.reads[at..at + words];
            let readers = &self.readers[at..at + words];
            let mut bad = false;
            for (i, ((&w, &r), &by)) in writes.iter().zip(reads).zip(readers).enumerate() {
                let own = first + (i as u64 >> shift);
                let written = (w < unseen) | (w & THREAD == own);
                let read = (r < unseen) | ((by == me) & (r & (MANY | THREAD) == own));
                bad |= !(written & read);
            }
            if !bad {
                let all = record(self.order.clock(warp), access, 0xf) | WRITTEN;
                for (i, w) in writes.iter_mut().enumerate() {
                    *w = all | (first + (i as u64 >> shift));
                }
                return Ok(());
            }
        }
        self.write_slowly(access, run, at, same)
    }

    #[inline(never)]
    fn write_slowly(
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
