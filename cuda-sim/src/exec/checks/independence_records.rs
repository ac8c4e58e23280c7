//! Comparison of many records of device memory at once, while blocks run at the same time. See [`super::independence`].
//!
//! A record: serial number of the block (32 bits), its barriers so far (16, of writes), several threads, synchronising,
//! bytes (4), thread (10). The number of a record is that of a block of some launch, so records of earlier launches are
//! below all others. The thread of several threads is 0 where they read, and all ones where they write.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::exec::access::owners::WordOwners;

pub(crate) const SERIAL: u32 = 32;
pub(crate) const EPOCH: u32 = 16;
pub(crate) const MANY: u64 = 1 << 15;
pub(crate) const SYNC: u64 = 1 << 14;
pub(crate) const BYTES: u32 = 10;
pub(crate) const ALL_BYTES: u64 = 0xf << BYTES;
pub(crate) const THREAD: u64 = 0x3ff;
/// Who a record is of: a block, and one of its threads or several.
pub(crate) const WHO: u64 = u64::MAX << SERIAL | MANY | THREAD;

/// Does something with the thread of each word. Compiled twice: mostly, words belong to threads in a row.
macro_rules! by_thread {
    ($own:expr, |$thread:ident| $body:expr) => {
        if $own.is_row() {
            let $thread = |i: usize| $own.first + i as u64;
            $body
        } else {
            let $thread = |i: usize| $own.of(i);
            $body
        }
    };
}

/// Values that the records of whole words are compared with.
pub(crate) struct IndependenceBounds {
    /// The first record of the launch; what is below is another launch's.
    pub old: u64,
    /// Serial number of the block, in its place.
    pub me: u64,
    /// The same, and its barriers so far.
    pub now: u64,
    /// The read of several threads of the block.
    pub several: u64,
    /// The read of several blocks.
    pub everyone: u64,
}

impl IndependenceBounds {
    /// Whether the reads of all bytes are on record. Then no other block has written the words, nor another thread since
    /// the last barrier, or it would have been doubtful.
    #[inline(always)]
    pub(crate) fn reads_on_record(&self, reads: &[AtomicU64], own: WordOwners) -> bool {
        by_thread!(own, |thread| reads.iter().enumerate().fold(
            true,
            |good, (i, read)| {
                let r = read.load(Relaxed);
                let mine = self.me | ALL_BYTES | thread(i);
                good & ((r == mine) | (r == self.several) | (r == self.everyone))
            }
        ))
    }

    /// Whether a write is of an earlier launch, of the thread itself, or of its block before the last barrier.
    #[inline(always)]
    fn is_before(&self, write: u64, thread: u64) -> bool {
        let mine = write >> SERIAL == self.me >> SERIAL;
        let earlier = write >> EPOCH != self.now >> EPOCH;
        (write < self.old) | (mine & earlier) | (write & WHO == self.me | thread)
    }

    /// Records the reads, if nobody else has written. False, and nothing is recorded, if a record needs a closer look.
    #[inline(always)]
    pub(crate) fn record_reads_alone(
        &self,
        writes: &[AtomicU64],
        reads: &[AtomicU64],
        own: WordOwners,
    ) -> bool {
        by_thread!(own, |thread| {
            let mut good = true;
            for (i, (write, read)) in writes.iter().zip(reads).enumerate() {
                let (w, r) = (write.load(Relaxed), read.load(Relaxed));
                let whole = r & (SYNC | ALL_BYTES) == ALL_BYTES;
                good &= self.is_before(w, thread(i)) & ((r < self.old) | whole);
            }
            if good {
                for (i, read) in reads.iter().enumerate() {
                    let mine = self.me | ALL_BYTES | thread(i);
                    read.store(self.joined(read.load(Relaxed), mine), Relaxed);
                }
            }
            good
        })
    }

    /// A record of reads of whole words, with this one.
    #[inline(always)]
    fn joined(&self, read: u64, mine: u64) -> u64 {
        let others = if read >> SERIAL == self.me >> SERIAL {
            self.several
        } else {
            self.everyone
        };
        if (read < self.old) | (read == mine) {
            mine
        } else {
            others
        }
    }

    /// Whether each thread itself wrote its word last, and since the last barrier.
    #[inline(always)]
    pub(crate) fn writes_on_record(&self, writes: &[AtomicU64], own: WordOwners) -> bool {
        by_thread!(own, |thread| writes
            .iter()
            .enumerate()
            .fold(true, |good, (i, write)| {
                good & (write.load(Relaxed) == self.now | ALL_BYTES | thread(i))
            }))
    }

    /// Records the writes, if nobody else has accessed the words, and tells whether some bytes are written for
    /// the first time in the launch.
    /// `None`, and nothing is recorded, if a record needs a closer look.
    #[inline(always)]
    pub(crate) fn record_writes_alone(
        &self,
        writes: &[AtomicU64],
        reads: &[AtomicU64],
        own: WordOwners,
    ) -> Option<bool> {
        by_thread!(own, |thread| {
            let (mut good, mut first) = (true, false);
            for (i, (write, read)) in writes.iter().zip(reads).enumerate() {
                let (w, r) = (write.load(Relaxed), read.load(Relaxed));
                let mine = r & WHO == self.me | thread(i);
                good &= self.is_before(w, thread(i)) & ((r < self.old) | mine);
                first |= (w < self.old) | (w & ALL_BYTES != ALL_BYTES);
            }
            if good {
                for (i, write) in writes.iter().enumerate() {
                    write.store(self.now | ALL_BYTES | thread(i), Relaxed);
                }
            }
            good.then_some(first)
        })
    }
}
