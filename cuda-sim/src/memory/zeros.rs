//! Address ranges of zeros.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A range of zeros, whose pages exist once they are used.
pub(crate) struct ZeroedRange {
    mapping: u64,
    mapped: u64,
    start: u64,
    bytes: u64,
}

const PAGE: u64 = 4096;

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
        let mapping = map(0, mapped, 0)?;
        // In pages of 2 MiB, if the operating system has them: with small ones a kernel that
        // touches fresh memory spends much of its time in page faults.
        // SAFETY: the range is the mapping just made.
        unsafe {
            libc::madvise(
                mapping as *mut libc::c_void,
                mapped as usize,
                libc::MADV_HUGEPAGE,
            )
        };
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
        // SAFETY: the range is a private anonymous mapping of this value; its pages read as zero
        // afterwards.
        unsafe {
            libc::madvise(
                self.mapping as *mut libc::c_void,
                self.mapped as usize,
                libc::MADV_DONTNEED,
            )
        };
    }
}

impl Drop for ZeroedRange {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it outlives the value.
        unsafe { libc::munmap(self.mapping as *mut libc::c_void, self.mapped as usize) };
    }
}

/// Maps so many bytes of zeros, at an address if it is given and `flags` ask for it.
pub(super) fn map(hint: u64, bytes: u64, flags: libc::c_int) -> io::Result<u64> {
    let (at, length) = (hint as *mut libc::c_void, bytes as usize);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping; neither MAP_FIXED_NOREPLACE nor a null hint replaces a mapping
    // that exists.
    let at = unsafe { libc::mmap(at, length, protection, flags, -1, 0) };
    match at {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at => Ok(at as u64),
    }
}
