//! Proof that blocks which run at the same time are independent: each uses only what no other one
//! writes.
//!
//! If so, the launch is what it would have been with one block after the other, whatever the host's
//! threads did, and nobody races. If not, or if it cannot be told, it is *in doubt*: what was
//! written is undone ([`crate::memory::undo_log`]), and the blocks run in order. So this file may
//! doubt too much, which costs time; it must never doubt too little.
//!
//! There are records of the last write of each word, and of its reads
//! ([`super::independence_records`]). They are compared and changed under a lock, before the access
//! itself; of two blocks that access a word, the later one finds the record of the earlier one.
//! Within a block, a word may be written by a thread and used by others behind the next barrier of
//! the whole block. What a record cannot say is in doubt: a word that several threads have read and
//! one of them writes later, for example.

use std::sync::atomic::Ordering::Relaxed;

use crate::exec::access::owners::WordOwners;
use crate::exec::access::pattern::{AccessPattern, Run};
use crate::exec::checks::device_records::{DeviceRecords, Found};
use crate::exec::checks::happens_before::{Accessor, NO_PC, thread};
use crate::exec::checks::independence_records::{
    ALL_BYTES, AccessedWords, BYTES, EPOCH, IndependenceBounds, MANY, SERIAL, SYNC, THREAD, split,
};
use crate::exec::lane_fault::{OtherAccess, OtherSide};
use crate::memory::shadow::Shadow;
use crate::memory::undo_log::UndoLog;

/// Accesses of the blocks that one host thread runs.
pub(crate) struct IndependenceProof {
    pub undo_log: UndoLog,
    /// Number of the running block, in the order in which blocks start.
    pub block: u64,
    /// It cannot be told that the blocks are independent.
    pub in_doubt: bool,
    /// Barriers of the whole block so far; the last number stands for all that follow.
    barriers: u16,
    /// A bulk copy of the block has written: that may come later than the next barriers, so they
    /// order nothing any more.
    has_bulk_writes: bool,
}

impl IndependenceProof {
    pub(crate) fn new(undo_log: UndoLog) -> IndependenceProof {
        IndependenceProof {
            undo_log,
            block: 0,
            in_doubt: false,
            barriers: 0,
            has_bulk_writes: false,
        }
    }

    pub(crate) fn start_block(&mut self, number: u64) {
        self.block = number;
        self.barriers = 0;
        self.has_bulk_writes = false;
    }

    pub(crate) fn pass_barrier(&mut self) {
        if !self.has_bulk_writes {
            self.barriers = self.barriers.saturating_add(1);
        }
    }

    pub(crate) fn begin_bulk_write(&mut self) {
        self.has_bulk_writes = true;
    }
}

/// The other side where no race is reported: only the doubt counts.
const DOUBT: OtherAccess = OtherAccess {
    side: OtherSide {
        pc: NO_PC,
        thread: None,
        block: None,
    },
    warp: 0,
    write: true,
};

impl IndependenceProof {
    /// True if all words of a pattern were read by these threads before, or by several blocks. Then
    /// they were written, by nobody who runs at the same time, and their sectors are counted.
    #[inline(always)]
    pub(crate) fn has_read(
        &self,
        records: &DeviceRecords<'_>,
        warp: usize,
        pattern: &AccessPattern,
        first: u64,
    ) -> bool {
        !pattern.runs.is_empty()
            && pattern.runs.iter().all(|run| {
                let address = first.wrapping_add_signed(i64::from(run.start));
                self.has_read_run(records, warp, run, records.shadow.word(address))
            })
    }

    /// The same of one run.
    #[inline(always)]
    pub(super) fn has_read_run(
        &self,
        records: &DeviceRecords<'_>,
        warp: usize,
        run: &Run,
        at: usize,
    ) -> bool {
        let words = words_of(records.shadow, warp, run, at);
        self.bounds(records, run).reads_on_record(words)
    }

    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        records: &DeviceRecords<'_>,
        access: Accessor,
        pattern: &AccessPattern,
        run: &Run,
        at: usize,
    ) -> Result<(), Found> {
        if self.read_run(records, access, run, at) {
            return Ok(());
        }
        (0..run.words).try_for_each(|i| {
            let (who, lane) = who_of(access.warp, pattern.sharers(run, i));
            self.read_word(records, who, lane, at + i as usize, 0xf)
        })
    }

    /// Records the reads of the words of a run. False if that needs a closer look.
    #[inline(always)]
    pub(super) fn read_run(
        &mut self,
        records: &DeviceRecords<'_>,
        access: Accessor,
        run: &Run,
        at: usize,
    ) -> bool {
        let words = words_of(records.shadow, access.warp, run, at);
        let bounds = self.bounds(records, run);
        if Shadow::stretch(at, words.words) != words.words {
            return false;
        }
        let _locked = records.shadow.lock(at);
        bounds.record_reads(words)
    }

    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        records: &DeviceRecords<'_>,
        access: Accessor,
        pattern: &AccessPattern,
        run: &Run,
        address: u64,
    ) -> Result<(), Found> {
        if self.write_run(records, access, run, address) {
            return Ok(());
        }
        (0..run.words).try_for_each(|i| {
            let (who, lane) = who_of(access.warp, pattern.sharers(run, i));
            let word = address + 4 * u64::from(i);
            self.write_word(records, who, access.sync, lane, word, 0xf)
        })
    }

    /// Records the writes to the words of a run. False if that needs a closer look.
    #[inline(always)]
    pub(super) fn write_run(
        &mut self,
        records: &DeviceRecords<'_>,
        access: Accessor,
        run: &Run,
        address: u64,
    ) -> bool {
        let at = records.shadow.word(address);
        let words = words_of(records.shadow, access.warp, run, at);
        let bounds = self.bounds(records, run);
        if run.shared {
            return false;
        }
        if bounds.writes_on_record(words) {
            return true;
        }
        if Shadow::stretch(at, words.words) != words.words {
            return false;
        }
        let locked = records.shadow.lock(at);
        let Some(first) = bounds.record_writes(words) else {
            return false;
        };
        drop(locked);
        if first {
            let undo_log = &mut self.undo_log;
            undo_log.log(&records.shadow.bytes, self.block, address, run.words);
            self.in_doubt |= undo_log.is_full();
        }
        true
    }

    pub(crate) fn read_bytes(
        &mut self,
        records: &DeviceRecords<'_>,
        access: Accessor,
        sharers: u32,
        word: usize,
        bytes: u32,
    ) -> Result<(), Found> {
        if access.sync {
            // An atomic operation, which is recorded as a write. Kernels with other synchronising
            // reads run in order.
            return Ok(());
        }
        let (who, lane) = who_of(access.warp, sharers);
        self.read_word(records, who, lane, word, u64::from(bytes))
    }

    pub(crate) fn write_bytes(
        &mut self,
        records: &DeviceRecords<'_>,
        access: Accessor,
        sharers: u32,
        word: u64,
        bytes: u32,
    ) -> Result<(), Found> {
        let (who, lane) = who_of(access.warp, sharers);
        self.write_word(records, who, access.sync, lane, word, u64::from(bytes))
    }

    #[inline(always)]
    fn bounds(&self, records: &DeviceRecords<'_>, run: &Run) -> IndependenceBounds {
        let now = self.now(records);
        let block = now & SERIALS;
        IndependenceBounds {
            old: u64::from(records.marks.first) << SERIAL,
            me: block | if run.shared { MANY } else { 0 },
            now,
            everyone: u64::from(records.everyone()) << SERIAL,
        }
    }

    /// Reads `bytes` of a word; `who` is the thread, or `MANY`.
    pub(super) fn read_word(
        &mut self,
        records: &DeviceRecords<'_>,
        who: u64,
        lane: u32,
        word: usize,
        bytes: u64,
    ) -> Result<(), Found> {
        let now = self.now(records);
        let (shadow, bytes) = (records.shadow, bytes << BYTES);
        let (block, everyone) = (now & SERIALS, u64::from(records.everyone()) << SERIAL);
        let certain = shadow.alone(word, || {
            split(shadow, word);
            let write = shadow.writes(word, 1)[0].load(Relaxed);
            if clashes(records, write, now, who | bytes, true) {
                return false;
            }
            let slot = &shadow.reads(word, 1)[0];
            let old = slot.load(Relaxed);
            let fresh = block | bytes | who;
            let new = if !records.is_of_launch((old >> SERIAL) as u32) {
                fresh
            } else if (old ^ fresh) & SERIALS != 0 {
                everyone | MANY | (old | fresh) & ALL_BYTES
            } else if (old ^ fresh) & (MANY | THREAD) != 0 {
                block | MANY | (old | fresh) & ALL_BYTES
            } else {
                old | fresh
            };
            slot.store(new, Relaxed);
            true
        });
        self.certain(certain, lane)
    }

    /// Writes `bytes` of the word at an address; `who` is the thread, or `MANY`.
    pub(super) fn write_word(
        &mut self,
        records: &DeviceRecords<'_>,
        who: u64,
        sync: bool,
        lane: u32,
        address: u64,
        bytes: u64,
    ) -> Result<(), Found> {
        let now = self.now(records);
        let (shadow, word) = (records.shadow, records.shadow.word(address));
        let everyone = u64::from(records.everyone()) << SERIAL;
        // No read's thread is that of a write by several.
        let who = if who & MANY != 0 { SEVERAL } else { who };
        let access = who | bytes << BYTES | if sync { SYNC } else { 0 };
        let (undo_log, block) = (&mut self.undo_log, self.block);
        let certain = shadow.alone(word, || {
            split(shadow, word);
            let slot = &shadow.writes(word, 1)[0];
            let (write, read) = (slot.load(Relaxed), shadow.reads(word, 1)[0].load(Relaxed));
            if clashes(records, write, now, access, true)
                || clashes(records, read, now, access, false)
            {
                return false;
            }
            let mut first = bytes;
            let mut new = now | access;
            if records.is_of_launch((write >> SERIAL) as u32) {
                first &= !(write >> BYTES);
                // A plain write is not hidden by an atomic one.
                new = new & !SYNC | write & access & SYNC | write & ALL_BYTES;
                if (write ^ new) & SERIALS != 0 {
                    new = new & !SERIALS | everyone | SEVERAL;
                } else if (write ^ new) & (MANY | THREAD) != 0 {
                    new |= SEVERAL;
                }
            }
            if first != 0 {
                // Under the lock: another block's atomic operation may follow at once.
                undo_log.log_bytes(&shadow.bytes, block, address, first as u8);
            }
            slot.store(new, Relaxed);
            true
        });
        self.in_doubt |= self.undo_log.is_full();
        self.certain(certain, lane)
    }

    /// Serial number of the running block, and its barriers so far, in their places.
    fn now(&self, records: &DeviceRecords<'_>) -> u64 {
        u64::from(records.serial) << SERIAL | u64::from(self.barriers) << EPOCH
    }

    fn certain(&mut self, certain: bool, lane: u32) -> Result<(), Found> {
        if certain {
            return Ok(());
        }
        self.in_doubt = true;
        Err((lane, DOUBT))
    }
}

const SERIALS: u64 = u64::MAX << SERIAL;
/// The thread of a write by several.
const SEVERAL: u64 = MANY | THREAD;

/// The words of a run, from `at` on.
#[inline(always)]
fn words_of<'a>(shadow: &'a Shadow, warp: usize, run: &Run, at: usize) -> AccessedWords<'a> {
    AccessedWords {
        shadow,
        at,
        words: run.words as usize,
        own: owners_of(warp, run),
    }
}

/// Owners of the words of a run in the records: thread 0 where several lanes share a word, with
/// `MANY` in the bounds.
#[inline(always)]
fn owners_of(warp: usize, run: &Run) -> WordOwners {
    let several = WordOwners {
        first: 0,
        shift: 0,
        step: 0,
    };
    if run.shared {
        several
    } else {
        run.owners.in_warp(warp)
    }
}

/// Who a record says that the lanes in `sharers` are, and the first of them.
fn who_of(warp: usize, sharers: u32) -> (u64, u32) {
    let lane = sharers.trailing_zeros();
    let several = sharers & (sharers - 1) != 0;
    let who = if several {
        MANY
    } else {
        u64::from(thread(warp, lane))
    };
    (who, lane)
}

/// True if an access may not follow the one of a record: both have a byte, they are not both
/// atomic, and it was neither the same thread nor, as far as can be told, before the last barrier
/// of the block.
fn clashes(records: &DeviceRecords<'_>, record: u64, now: u64, access: u64, write: bool) -> bool {
    let own_block = (record ^ now) & SERIALS == 0;
    let own_thread = (record ^ access) & (MANY | THREAD) == 0 && access & MANY == 0;
    let earlier = write && record >> EPOCH != now >> EPOCH;
    records.is_of_launch((record >> SERIAL) as u32)
        && record & access & ALL_BYTES != 0
        && record & access & SYNC == 0
        && !(own_block && (own_thread || earlier))
}

/// Forgets who has read a byte that the running thread has written: the record of that says enough.
pub(crate) fn forget_reads(records: &DeviceRecords<'_>, address: u64) {
    let word = records.shadow.word(address);
    let slot = &records.shadow.reads(word, 1)[0];
    let others = !(1 << BYTES << (address % 4));
    records.shadow.alone(word, || {
        split(records.shadow, word);
        slot.store(slot.load(Relaxed) & others, Relaxed);
    });
}
