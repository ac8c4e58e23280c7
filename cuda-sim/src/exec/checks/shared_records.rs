//! Comparison of many records of shared memory at once. See [`super::shared_memory`].
//!
//! A record: time (28 bits), bytes ever written (4), instruction (16), several threads,
//! synchronising, bytes (4), thread (10). Time 0 is never. A record of several threads with no
//! bytes stands for a word whose bytes have records of their own; its time is the latest of theirs.

use crate::exec::access::owners::WordOwners;

pub(crate) const TIME: u32 = 36;
pub(crate) const WRITTEN: u64 = 0xf << 32;
pub(crate) const PC: u32 = 16;
pub(crate) const MANY: u64 = 1 << 15;
pub(crate) const SYNC: u64 = 1 << 14;
pub(crate) const BYTES: u32 = 10;
pub(crate) const ALL_BYTES: u64 = 0xf << BYTES;
pub(crate) const THREAD: u64 = 0x3ff;
/// Properties that the readers of one interval share.
pub(crate) const INTERVAL: u64 = u64::MAX << TIME | SYNC | ALL_BYTES;

/// Values that records are compared with.
pub(crate) struct RecordBounds {
    /// The first record of the block; what is below is another block's.
    pub first: u64,
    /// The first record that the warp may not have seen.
    pub unseen: u64,
    /// The record to be made, without its thread.
    pub fresh: u64,
    /// The warp's bit.
    pub me: u32,
}

/// True if every word was written in this block, by accesses that the warp has seen or by its own
/// thread, if it has one.
#[inline(always)]
pub(crate) fn are_written(writes: &[u64], limits: &RecordBounds, own: Option<WordOwners>) -> bool {
    let mut good = true;
    for (i, &write) in writes.iter().enumerate() {
        let thread = own.map_or(u64::MAX, |own| own.owner(i));
        let seen = (write < limits.unseen) | (write & (MANY | THREAD) == thread);
        good &= seen & (write >= limits.first) & (write & WRITTEN == WRITTEN);
    }
    good
}

/// True if words `at + offsets` were all written since the record `first`.
#[inline(always)]
pub(crate) fn are_set(writes: &[u64], at: usize, offsets: &[i32], first: u64) -> bool {
    offsets.iter().fold(true, |all, &offset| {
        let write = writes[at.wrapping_add_signed(offset as isize)];
        all & (write >= first) & (write & WRITTEN == WRITTEN)
    })
}

/// Records a read of each word, by its own thread, or, if `limits.fresh` says so, by several of
/// which that is one. False if there is a record that needs a closer look; it is left as it is.
#[inline(always)]
pub(crate) fn read(
    reads: &mut [u64],
    readers: &mut [u32],
    limits: &RecordBounds,
    own: WordOwners,
) -> bool {
    let mut good = true;
    for (i, (read, by)) in reads.iter_mut().zip(readers).enumerate() {
        let over = *read < limits.unseen;
        let common = *read & INTERVAL == limits.fresh & INTERVAL;
        good &= over | common;
        let fresh = limits.fresh | own.owner(i);
        let several = if (*read ^ fresh) & (MANY | THREAD) == 0 {
            0
        } else {
            MANY
        };
        let joined = if common { *read | several } else { *read };
        *read = if over { fresh } else { joined };
        *by = if over {
            limits.me
        } else if common {
            *by | limits.me
        } else {
            *by
        };
    }
    good
}

/// Records a write of each word by its own thread. Returns how many were written for the first
/// time; `None`, and nothing is recorded, if an access may race.
#[inline(always)]
pub(crate) fn write(
    writes: &mut [u64],
    reads: &[u64],
    readers: &[u32],
    limits: &RecordBounds,
    own: WordOwners,
) -> Option<u32> {
    let mut good = true;
    let mut new = 0;
    for (i, ((&write, &read), &by)) in writes.iter().zip(reads).zip(readers).enumerate() {
        let thread = own.owner(i);
        let written = (write < limits.unseen) | (write & (MANY | THREAD) == thread);
        let mine = (by == limits.me) & (read & (MANY | THREAD) == thread);
        good &= written & ((read < limits.unseen) | mine);
        new += u32::from((write < limits.first) | (write & WRITTEN != WRITTEN));
    }
    if !good {
        return None;
    }
    for (i, write) in writes.iter_mut().enumerate() {
        *write = limits.fresh | own.owner(i);
    }
    Some(new)
}
