//! Pages of the operating system: they exist once they are used.

use std::{fs, io, mem::MaybeUninit, ptr};

use super::PAGE;

/// Maps so many bytes of zeros.
pub(crate) fn map(bytes: u64) -> io::Result<u64> {
    mapped(0, bytes, 0)
}

/// Maps so many bytes of zeros at an address; an error if they are not free.
pub(crate) fn map_at(address: u64, bytes: u64) -> io::Result<u64> {
    mapped(address, bytes, libc::MAP_FIXED_NOREPLACE)
}

fn mapped(hint: u64, bytes: u64, flags: libc::c_int) -> io::Result<u64> {
    let (at, length) = (ptr::without_provenance_mut(hint as usize), bytes as usize);
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

/// Gives a mapping back.
///
/// # Safety
/// Nobody uses it any more.
pub(crate) unsafe fn unmap(start: u64, bytes: u64) {
    // SAFETY: promised by the caller.
    unsafe { libc::munmap(start as *mut libc::c_void, bytes as usize) };
}

/// Makes whole pages of a mapping zero, and gives them back to the operating system.
///
/// # Safety
/// The pages belong to a mapping of [`map`] or [`map_at`], and no reference to what they hold is
/// alive.
pub(crate) unsafe fn clear(start: u64, bytes: u64) {
    // SAFETY: a private anonymous mapping, by the promise of the caller: its pages read as zero
    // afterwards.
    unsafe {
        libc::madvise(
            start as *mut libc::c_void,
            bytes as usize,
            libc::MADV_DONTNEED,
        )
    };
}

/// Asks for pages of 2 MiB: with small ones a kernel that touches fresh memory spends much of its
/// time in page faults.
///
/// # Safety
/// The range is a mapping of [`map`].
pub(crate) unsafe fn prefer_large(start: u64, bytes: u64) {
    // SAFETY: promised by the caller.
    unsafe {
        libc::madvise(
            start as *mut libc::c_void,
            bytes as usize,
            libc::MADV_HUGEPAGE,
        )
    };
}

/// Bytes of addresses that this process may still map, by its limit (`ulimit -v`). No bound if
/// there is no limit.
pub(crate) fn free_addresses() -> u64 {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: a place for the result, which is read only if the call has written it.
    let limit = unsafe {
        match libc::getrlimit(libc::RLIMIT_AS, limit.as_mut_ptr()) {
            0 => limit.assume_init().rlim_cur,
            _ => libc::RLIM_INFINITY,
        }
    };
    if limit == libc::RLIM_INFINITY {
        return u64::MAX;
    }
    limit.saturating_sub(in_use())
}

/// Bytes of addresses that this process has mapped; 0 if the system does not say.
pub(crate) fn in_use() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').next().and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * PAGE
}
