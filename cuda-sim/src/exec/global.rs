//! Watches device memory during a launch: words that are read though nobody wrote them, and races between blocks.
//!
//! As [`super::watch`] does for shared memory, with blocks in place of warps. A record has the serial number of the
//! block, which no other block of any launch has; so the records of earlier launches need not be cleared. Blocks run
//! at the same time in several threads of ours: what a record already says is read without a lock, and changes are
//! made under one, so that of two blocks that race the later one always finds the earlier.
//!
//! Blocks are ordered by fences alone. Time is a counter that each fence moves on, and each barrier of a block. A fence
//! followed by an atomic or volatile access to a flag releases what the warp did, what others of its block did before
//! their last barrier, and what those did that ran a fence of their own; an atomic or volatile access to that flag
//! acquires it. The record's time is compared with what was acquired.
//!
//! What is missed: races of threads of one block. Of parts of a word that several blocks write, all but the last block's,
//! and of parts that several read, all but those that each has read. An atomic or volatile read of a word that is also
//! read plainly. And in kernels with fences, races between blocks that were ordered about something else in between,
//! because one counter stands for all blocks. Where it cannot tell, the watch says nothing: it is made to accuse no
//! kernel that is ordered.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::claims::{ALL_BYTES, BYTES, Claim, MANY, PC, SERIAL, SYNC, THREAD};
use super::site::{Run, Site};
use super::vectors::Vectors;
use super::watch::{Access, FAR, owners};
use crate::shadow::{LaunchMarks, Sectors, Shadow};
use crate::sync::lock;

/// What orders the blocks of a launch, if its kernel has fences.
#[derive(Default)]
pub(super) struct Fences {
    now: AtomicU32,
    /// What was released through each flag, by address.
    flags: Mutex<HashMap<u64, Released>>,
}

/// What is passed on by a flag.
#[derive(Debug, Clone, Copy, Default)]
struct Released {
    /// Warps that ran a fence, a bit each; what they did before `fence` is passed on.
    warps: u32,
    fence: u32,
    /// What all warps did before this time, too: that of their block's last barrier.
    barrier: u32,
}

impl Released {
    fn merge(&mut self, other: Released) {
        self.warps |= other.warps;
        self.fence = self.fence.max(other.fence);
        self.barrier = self.barrier.max(other.barrier);
    }

    /// Whether what `thread` did at `time` is passed on. Unknown threads get the benefit of the doubt.
    fn covers(&self, thread: Option<u32>, time: u32) -> bool {
        let fenced = thread.is_none_or(|thread| self.warps >> (thread / 32) & 1 != 0);
        self.barrier > time || (fenced && self.fence > time)
    }
}

/// What a block has released and acquired.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    released: Released,
    acquired: Released,
    /// Warps that ran a fence of any reach, a bit each.
    fenced: u32,
    /// When all its threads last met.
    barrier: u32,
}

/// The watch of one block.
pub(super) struct GlobalWatch<'a> {
    pub shadow: &'a Shadow,
    pub marks: LaunchMarks,
    /// Sectors that the launch has touched; there while it runs.
    pub sectors: Option<&'a Sectors>,
    /// For kernels with fences.
    pub fences: Option<&'a Fences>,
    /// Serial number of the running block.
    pub serial: u32,
    pub standing: Standing,
}

/// The other side of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Other {
    pub pc: u32,
    /// Number of the block in the order in which blocks were started; `None` if there are several.
    pub block: Option<u32>,
    pub thread: Option<u32>,
    pub write: bool,
}

/// The lane of a run, and the other side.
pub(super) type Found = (u32, Other);

impl GlobalWatch<'_> {
    /// Whether all words of a site were read by this block in this launch before, or by several. Then they were written,
    /// by nobody else in this launch, and their sectors are counted. Kernels with fences always look closer.
    #[inline(always)]
    pub(super) fn has_read<V: Vectors>(&self, access: Access, site: &Site, first: u64) -> bool {
        let claim = self.claim(access);
        self.fences.is_none()
            && !site.runs.is_empty()
            && site.runs.iter().all(|run| {
                let at = self
                    .shadow
                    .word(first.wrapping_add_signed(i64::from(run.start)));
                let reads = self.shadow.reads(at, run.words as usize);
                // SAFETY: the handlers of an instruction set run only where it is there.
                unsafe { V::reads_known(reads, &claim) }
            })
    }

    /// Words from `at` on are read by the lanes of `run`.
    #[inline(always)]
    pub(super) fn read<V: Vectors>(
        &self,
        access: Access,
        run: &Run,
        at: usize,
    ) -> Result<(), Found> {
        let words = run.words as usize;
        if !access.sync && self.fences.is_none() {
            let claim = self.claim(access);
            // SAFETY: the handlers of an instruction set run only where it is there.
            let known = unsafe { V::reads_known(self.shadow.reads(at, words), &claim) };
            if known
                || (Shadow::stretch(at, words) == words
                    && self.claim_reads::<V>(access, run, at, &claim))
            {
                return Ok(());
            }
        }
        self.slowly(run, at, &mut |i, lane| {
            self.read_word(access, at + i as usize, lane, 0xf)
        })
    }

    fn claim_reads<V: Vectors>(&self, access: Access, run: &Run, at: usize, claim: &Claim) -> bool {
        let (words, own) = (run.words as usize, owners(access.warp, run));
        let (writes, reads) = (self.shadow.writes(at, words), self.shadow.reads(at, words));
        // SAFETY: the handlers of an instruction set run only where it is there.
        self.shadow
            .alone(at, || unsafe { V::claim_reads(writes, reads, claim, own) })
    }

    /// Words from `at` on are written by the lanes of `run`. `same` tells whether a word keeps its value.
    #[inline(always)]
    pub(super) fn write<V: Vectors>(
        &self,
        access: Access,
        run: &Run,
        at: usize,
        same: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), Found> {
        let words = run.words as usize;
        if !access.sync && self.fences.is_none() {
            let claim = self.claim(access);
            // SAFETY: the handlers of an instruction set run only where it is there.
            let known = unsafe { V::writes_known(self.shadow.writes(at, words), &claim) };
            if known
                || (Shadow::stretch(at, words) == words
                    && self.claim_writes::<V>(access, run, at, &claim))
            {
                return Ok(());
            }
        }
        self.slowly(run, at, &mut |i, lane| {
            self.write_word(access, at + i as usize, lane, 0xf, &mut || same(i))
        })
    }

    fn claim_writes<V: Vectors>(
        &self,
        access: Access,
        run: &Run,
        at: usize,
        claim: &Claim,
    ) -> bool {
        let (words, own) = (run.words as usize, owners(access.warp, run));
        let (writes, reads) = (self.shadow.writes(at, words), self.shadow.reads(at, words));
        // SAFETY: the handlers of an instruction set run only where it is there.
        self.shadow
            .alone(at, || unsafe { V::claim_writes(writes, reads, claim, own) })
    }

    fn claim(&self, access: Access) -> Claim {
        Claim {
            old: u64::from(self.marks.first) << SERIAL,
            me: u64::from(self.serial),
            many: u64::from(self.many()),
            fresh: record(self.serial, access, 0, 0xf) & !THREAD,
        }
    }

    #[inline(never)]
    fn slowly(
        &self,
        run: &Run,
        at: usize,
        one: &mut dyn FnMut(u32, u32) -> Result<(), Other>,
    ) -> Result<(), Found> {
        let mut done = 0;
        while done < run.words {
            let here = at + done as usize;
            let stretch = Shadow::stretch(here, (run.words - done) as usize) as u32;
            self.shadow.alone(here, || {
                (done..done + stretch).try_for_each(|i| {
                    let lane = run.owners.of(i);
                    one(i, lane).map_err(|other| (lane, other))
                })
            })?;
            done += stretch;
        }
        Ok(())
    }

    /// As [`GlobalWatch::read`], for some bytes of one word.
    pub(super) fn read_bytes(
        &self,
        access: Access,
        word: usize,
        lane: u32,
        bytes: u64,
    ) -> Result<(), Other> {
        self.shadow
            .alone(word, || self.read_word(access, word, lane, bytes))
    }

    /// As [`GlobalWatch::write`], for some bytes of one word.
    pub(super) fn write_bytes(
        &self,
        access: Access,
        word: usize,
        lane: u32,
        bytes: u64,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Other> {
        self.shadow
            .alone(word, || self.write_word(access, word, lane, bytes, same))
    }

    fn read_word(&self, access: Access, word: usize, lane: u32, bytes: u64) -> Result<(), Other> {
        let write = self.shadow.writes(word, 1)[0].load(Relaxed);
        if self.is_foreign(write) && clash(access, write, bytes) && !self.knows(word, write, true) {
            return Err(self.other_side(write, true));
        }
        let slot = &self.shadow.reads(word, 1)[0];
        let old = slot.load(Relaxed);
        let fresh = record(self.serial, access, lane, bytes);
        let own = old >> SERIAL == u64::from(self.serial);
        // A plain read and an atomic or volatile one share no record: the plain one stays.
        let mixed = (old ^ fresh) & SYNC != 0;
        let over =
            !self.is_of_launch(old) || (self.is_foreign(old) && self.knows(word, old, false));
        if !over && mixed && access.sync {
            return Ok(());
        }
        let merged = if over || mixed {
            fresh
        } else {
            let serial = if own { self.serial } else { self.many() };
            // Of bytes, those that all blocks have read are kept if they are several.
            let bytes = if own {
                (old | fresh) & ALL_BYTES
            } else {
                old & fresh & ALL_BYTES
            };
            let many = if (old ^ fresh) & THREAD != 0 {
                MANY
            } else {
                old & MANY
            };
            u64::from(serial) << SERIAL | (fresh & (0xffff << PC | SYNC | THREAD)) | bytes | many
        };
        slot.store(merged, Relaxed);
        // Of several blocks' reads the first one's time is kept.
        if over || mixed || own {
            self.stamp(word, false);
        }
        Ok(())
    }

    fn write_word(
        &self,
        access: Access,
        word: usize,
        lane: u32,
        bytes: u64,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Other> {
        let slot = &self.shadow.writes(word, 1)[0];
        let write = slot.load(Relaxed);
        if self.is_foreign(write)
            && clash(access, write, bytes)
            && !self.knows(word, write, true)
            && !comes_to_be(same)
        {
            return Err(self.other_side(write, true));
        }
        let read = self.shadow.reads(word, 1)[0].load(Relaxed);
        if self.is_foreign(read) && clash(access, read, bytes) && !self.knows(word, read, false) {
            return Err(self.other_side(read, false));
        }
        let mut fresh = record(self.serial, access, lane, bytes);
        if write >> SERIAL == u64::from(self.serial) && !self.may_be_released(word) {
            // Nobody can have acquired what the block wrote here before: so that stays on record. An atomic access hides
            // no plain one, and a part of a word no other part.
            if access.sync && write & SYNC == 0 && write >> BYTES & bytes != 0 {
                return Ok(());
            }
            let more = write & ALL_BYTES & !fresh;
            if more != 0 && (write ^ fresh) & SYNC == 0 {
                let one = (write ^ fresh) & THREAD == 0 && write & MANY == 0;
                fresh |= more | if one { 0 } else { MANY };
            }
        }
        slot.store(fresh, Relaxed);
        self.stamp(word, true);
        Ok(())
    }

    /// The serial number that stands for several blocks of the launch.
    fn many(&self) -> u32 {
        self.marks.first + self.marks.blocks
    }

    /// Number of the running block in the order in which blocks were started.
    pub(super) fn number(&self) -> u32 {
        self.serial - self.marks.first
    }

    fn is_of_launch(&self, record: u64) -> bool {
        let serial = (record >> SERIAL) as u32;
        (self.marks.first..=self.many()).contains(&serial)
    }

    fn is_foreign(&self, record: u64) -> bool {
        self.is_of_launch(record) && record >> SERIAL != u64::from(self.serial)
    }

    fn other_side(&self, record: u64, write: bool) -> Other {
        let serial = (record >> SERIAL) as u32;
        let one = serial != self.many();
        Other {
            pc: (record >> PC) as u32 & FAR,
            block: one.then(|| serial - self.marks.first),
            thread: (one && record & MANY == 0).then_some((record & THREAD) as u32),
            write,
        }
    }

    // --- fences -----------------------------------------------------------------------------------------

    /// Notes when the word was accessed.
    fn stamp(&self, word: usize, write: bool) {
        let Some(fences) = self.fences else { return };
        let now = u64::from(fences.now.load(Relaxed));
        let slot = &self.shadow.times(word, 1)[0];
        let old = slot.load(Relaxed);
        let new = if write {
            (old & !0xffff_ffff) | now
        } else {
            (old & 0xffff_ffff) | now << 32
        };
        slot.store(new, Relaxed);
    }

    /// Whether the block may have acquired what the record says: it has acquired something later. Never in kernels
    /// without fences. A read of several blocks has the time of the first: it is known if that one is.
    fn knows(&self, word: usize, record: u64, write: bool) -> bool {
        if self.fences.is_none() {
            return false;
        }
        let times = self.shadow.times(word, 1)[0].load(Relaxed);
        let time = if write {
            times as u32
        } else {
            (times >> 32) as u32
        };
        self.standing
            .acquired
            .covers(self.other_side(record, write).thread, time)
    }

    /// Whether the block ran a fence since it last wrote the word: then others may have acquired that.
    fn may_be_released(&self, word: usize) -> bool {
        self.fences.is_some() && {
            let time = self.shadow.times(word, 1)[0].load(Relaxed) as u32;
            self.standing.released.fence > time
        }
    }

    /// All threads of the block have met.
    pub(super) fn barrier(&mut self) {
        if let Some(fences) = self.fences {
            self.standing.barrier = fences.now.fetch_add(1, Relaxed) + 1;
        }
    }

    /// A warp of the block ran a fence. One that reaches no further than the block releases nothing by itself, but the
    /// next one that does may pass it on.
    pub(super) fn fence(&mut self, warp: usize, device: bool) {
        self.standing.fenced |= 1 << warp;
        if let Some(fences) = self.fences
            && device
        {
            self.standing.released.merge(Released {
                warps: self.standing.fenced,
                fence: fences.now.fetch_add(1, Relaxed) + 1,
                barrier: self.standing.barrier,
            });
        }
    }

    /// The block is about to write a flag, by an atomic or volatile access.
    pub(super) fn write_flag(&mut self, address: u64) {
        if let Some(fences) = self.fences
            && self.standing.released.warps != 0
        {
            let mut released = self.standing.released;
            released.merge(self.standing.acquired);
            lock(&fences.flags)
                .entry(address)
                .or_default()
                .merge(released);
        }
    }

    /// The block has read a flag, by an atomic or volatile access.
    pub(super) fn read_flag(&mut self, address: u64) {
        if let Some(fences) = self.fences
            && let Some(&released) = lock(&fences.flags).get(&address)
        {
            self.standing.acquired.merge(released);
        }
    }
}

/// Whether a store leaves the word as it is, once the other block's store, which is on record, has been made: that may
/// be a moment later.
fn comes_to_be(same: &mut dyn FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if same() {
            return true;
        }
        if start.elapsed() > Duration::from_millis(10) {
            return false;
        }
        std::thread::yield_now();
    }
}

fn record(serial: u32, access: Access, lane: u32, bytes: u64) -> u64 {
    u64::from(serial) << SERIAL
        | u64::from(access.pc.min(FAR)) << PC
        | if access.sync { SYNC } else { 0 }
        | bytes << BYTES
        | (access.warp as u64 * 32 + u64::from(lane))
}

/// Whether two accesses, of which one writes, may not go unordered: they share a byte, and one is a plain one.
fn clash(access: Access, record: u64, bytes: u64) -> bool {
    (record & ALL_BYTES) >> BYTES & bytes != 0 && !(access.sync && record & SYNC != 0)
}
