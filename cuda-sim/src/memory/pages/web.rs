//! Pages of a WebAssembly module's memory, which only grows: what is given back is lost. Addresses
//! have 32 bits there; those of device memory keep their upper half, which a pointer drops.

use std::arch::wasm32::{memory_grow, memory_size};
use std::io;

/// Bytes of a page of WebAssembly.
const WEB_PAGE: u64 = 64 << 10;

/// Adds so many bytes of zeros to the memory.
pub(crate) fn map(bytes: u64) -> io::Result<u64> {
    let pages = usize::try_from(bytes.div_ceil(WEB_PAGE)).unwrap_or(usize::MAX);
    match memory_grow::<0>(pages) {
        usize::MAX => Err(io::ErrorKind::OutOfMemory.into()),
        before => Ok(before as u64 * WEB_PAGE),
    }
}

/// The same at the place in memory that the lower half of an address names, if the memory ends
/// there or before. Gives the address.
pub(crate) fn map_at(address: u64, bytes: u64) -> io::Result<u64> {
    let place = address & u64::from(u32::MAX);
    let end = memory_size::<0>() as u64 * WEB_PAGE;
    let gap = place.checked_sub(end).ok_or(io::ErrorKind::AddrInUse)?;
    map(gap)?;
    let start = map(bytes)?;
    Ok(address - place + start)
}

/// What is given back is lost.
///
/// # Safety
/// None is needed; elsewhere the range is gone.
pub(crate) unsafe fn unmap(_start: u64, _bytes: u64) {}

/// Makes whole pages of a mapping zero.
///
/// # Safety
/// The pages belong to a mapping of [`map`] or [`map_at`], and no reference to what they hold is
/// alive.
pub(crate) unsafe fn clear(start: u64, bytes: u64) {
    // SAFETY: the pages are memory that this module has, by the promise of the caller.
    unsafe { std::ptr::write_bytes(start as *mut u8, 0, bytes as usize) };
}

/// There is one size of pages.
///
/// # Safety
/// None is needed.
pub(crate) unsafe fn prefer_large(_start: u64, _bytes: u64) {}

/// All memory that is mapped is taken at once: as little as can be.
pub(crate) fn free_addresses() -> u64 {
    0
}
