//! The records of device memory's words, many at a time. See [`super::global`].
//!
//! A record: serial number of the block (32 bits), instruction (16), several threads, synchronising, bytes (4), thread
//! (10). The number of a record is that of a block of some launch, so records of earlier launches are below all others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::records::Own;

pub(super) const SERIAL: u32 = 32;
pub(super) const PC: u32 = 16;
pub(super) const MANY: u64 = 1 << 15;
pub(super) const SYNC: u64 = 1 << 14;
pub(super) const BYTES: u32 = 10;
pub(super) const ALL_BYTES: u64 = 0xf << BYTES;
pub(super) const THREAD: u64 = 0x3ff;

/// What a block that reads or writes whole words compares their records with.
pub(super) struct Claim {
    /// The first record of the launch; what is below is another launch's.
    pub old: u64,
    /// Serial number of the block.
    pub me: u64,
    /// The serial number that stands for several blocks.
    pub many: u64,
    /// The record to be made, without its thread.
    pub fresh: u64,
}

impl Claim {
    /// Whether the read of all bytes is on record. Then nobody else has written, or it would have been a race.
    #[inline(always)]
    pub(super) fn reads_known(&self, reads: &[AtomicU64]) -> bool {
        reads.iter().fold(true, |good, read| {
            let r = read.load(Relaxed);
            let by = r >> SERIAL;
            good & ((by == self.me) | (by == self.many)) & (r & (SYNC | ALL_BYTES) == ALL_BYTES)
        })
    }

    /// Records the read, if nobody else has written. False, and nothing is recorded, if a record needs a closer look.
    #[inline(always)]
    pub(super) fn claim_reads(&self, writes: &[AtomicU64], reads: &[AtomicU64], own: Own) -> bool {
        let mut good = true;
        for (write, read) in writes.iter().zip(reads) {
            let (w, r) = (write.load(Relaxed), read.load(Relaxed));
            let whole = r & (SYNC | ALL_BYTES) == ALL_BYTES;
            good &= ((w < self.old) | (w >> SERIAL == self.me)) & ((r < self.old) | whole);
        }
        if good {
            for (i, read) in reads.iter().enumerate() {
                let fresh = self.fresh | own.of(i);
                read.store(self.joined(read.load(Relaxed), fresh), Relaxed);
            }
        }
        good
    }

    /// A record of reads of whole words, with this one.
    #[inline(always)]
    fn joined(&self, read: u64, fresh: u64) -> u64 {
        if read < self.old {
            fresh
        } else if read >> SERIAL == self.me {
            read
        } else {
            (self.many << SERIAL) | (fresh & 0xffff_ffff)
        }
    }

    /// Whether the block itself wrote the words last. Then nobody else has read them, or it would have been a race.
    #[inline(always)]
    pub(super) fn writes_known(&self, writes: &[AtomicU64]) -> bool {
        writes.iter().fold(true, |good, write| {
            let w = write.load(Relaxed);
            good & (w >> SERIAL == self.me) & (w & (SYNC | ALL_BYTES) == ALL_BYTES)
        })
    }

    /// Records the write, if nobody else has accessed the words. False, and nothing is recorded, if somebody has.
    #[inline(always)]
    pub(super) fn claim_writes(&self, writes: &[AtomicU64], reads: &[AtomicU64], own: Own) -> bool {
        let mut good = true;
        for (write, read) in writes.iter().zip(reads) {
            let (w, r) = (write.load(Relaxed), read.load(Relaxed));
            good &= ((w < self.old) | (w >> SERIAL == self.me))
                & ((r < self.old) | (r >> SERIAL == self.me));
        }
        if good {
            for (i, write) in writes.iter().enumerate() {
                write.store(self.fresh | own.of(i), Relaxed);
            }
        }
        good
    }
}
