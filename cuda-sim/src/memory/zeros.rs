//! Address ranges of zeros.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A range of zeros, whose pages exist once they are used.
pub(crate) struct ZeroedRange {
    start: u64,
    bytes: u64,
}

impl ZeroedRange {
    pub(crate) fn reserve(bytes: u64) -> io::Result<ZeroedRange> {
        let start = map(0, bytes, 0)?;
        // In pages of 2 MiB, if the operating system has them: with small ones a kernel that touches fresh memory spends
        // much of its time in page faults.
        // SAFETY: the range is the mapping just made.
        unsafe {
            libc::madvise(
                start as *mut libc::c_void,
                bytes as usize,
                libc::MADV_HUGEPAGE,
            )
        };
        Ok(ZeroedRange { start, bytes })
    }

    #[inline(always)]
    pub(crate) fn records(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!((at + count) as u64 * 8 <= self.bytes, "outside the shadow");
        // SAFETY: inside the mapping, which lives as long as `self`, is aligned to a page, and is only ever used as
        // atomics.
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
        // SAFETY: the range is a private anonymous mapping of this value; its pages read as zero afterwards.
        unsafe {
            libc::madvise(
                self.start as *mut libc::c_void,
                self.bytes as usize,
                libc::MADV_DONTNEED,
            )
        };
    }
}

impl Drop for ZeroedRange {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it outlives the value.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.bytes as usize) };
    }
}

/// Maps so many bytes of zeros, at an address if it is given and `flags` ask for it.
pub(super) fn map(hint: u64, bytes: u64, flags: libc::c_int) -> io::Result<u64> {
    let (at, length) = (hint as *mut libc::c_void, bytes as usize);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping; neither MAP_FIXED_NOREPLACE nor a null hint replaces a mapping that exists.
    let at = unsafe { libc::mmap(at, length, protection, flags, -1, 0) };
    match at {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at => Ok(at as u64),
    }
}
