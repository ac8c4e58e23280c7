//! Address ranges of zeros.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::memory::pages::{self, PAGE, map, prefer_large, unmap};

/// A range of zeros, whose pages exist once they are used.
pub(crate) struct ZeroedRange {
    mapping: u64,
    mapped: u64,
    start: u64,
    bytes: u64,
}

/// Distance in a page between the first records of ranges that are used together.
const STAGGER: u64 = 13 * 64;

impl ZeroedRange {
    /// Reserves so many bytes. `nth` numbers the ranges whose records of one word are used
    /// together: each begins at another cache line of its page. Where all begin with a page, those
    /// records lie in one set of the first cache, and a processor that predicts the cache way from
    /// a hash of the address takes one line for the other (AMD's optimization guide for Zen, "L1
    /// data cache"): the race detector took 1.9 times as long.
    pub(crate) fn reserve(bytes: u64, nth: u64) -> io::Result<ZeroedRange> {
        let mapped = bytes + PAGE;
        let mapping = map(mapped)?;
        // SAFETY: the range is the mapping just made.
        unsafe { prefer_large(mapping, mapped) };
        Ok(ZeroedRange {
            mapping,
            mapped,
            start: mapping + nth * STAGGER % PAGE,
            bytes,
        })
    }

    #[inline(always)]
    pub(crate) fn records(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!((at + count) as u64 * 8 <= self.bytes, "outside the shadow");
        // SAFETY: inside the mapping, which lives as long as `self`, is aligned to a cache line,
        // and is only ever used as atomics.
        unsafe { std::slice::from_raw_parts((self.start as *const AtomicU64).add(at), count) }
    }

    #[inline(always)]
    pub(crate) fn groups(&self, at: u64, count: u64) -> &[AtomicU32] {
        assert!((at + count) * 4 <= self.bytes, "outside the shadow");
        // SAFETY: as in `records`.
        unsafe {
            std::slice::from_raw_parts(
                (self.start as *const AtomicU32).add(at as usize),
                count as usize,
            )
        }
    }

    /// Makes all of it zero again.
    pub(crate) fn clear(&self) {
        // SAFETY: the range is the mapping of this value, which hands out atomics alone, and those
        // read zeros afterwards.
        unsafe { pages::clear(self.mapping, self.mapped) };
    }
}

impl Drop for ZeroedRange {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it outlives the value.
        unsafe { unmap(self.mapping, self.mapped) };
    }
}
