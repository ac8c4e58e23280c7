//! Address space for device memory and its shadow.

use std::{fs, io, mem::MaybeUninit};

use crate::memory::{sectors::SECTOR, shadow::Shadow, zeros::map};

/// Address at which the arena starts unless that range is taken.
const BASE: u64 = 0x1000_0000_0000;
/// Bytes of addresses for each byte of device memory: itself and its shadow.
const ADDRESSES_PER_BYTE: u64 = 1 + Shadow::BYTES_PER_SECTOR.div_ceil(SECTOR);

/// Most device memory, in bytes, that leaves the program half of the addresses which its limit
/// (`ulimit -v`) leaves now. No bound if there is no limit.
pub(super) fn affordable() -> u64 {
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
    limit.saturating_sub(in_use()) / 2 / ADDRESSES_PER_BYTE
}

/// Bytes of addresses that this process has mapped; 0 if the system does not say.
pub(super) fn in_use() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').next().and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * super::PAGE
}

/// Reserves `size` bytes of readable and writable addresses, at [`BASE`] if that is free, and their
/// shadow.
pub(super) fn place(size: u64) -> io::Result<(u64, Shadow)> {
    let at_base = map(BASE, size, libc::MAP_FIXED_NOREPLACE);
    let base = at_base.or_else(|_| map(0, size, 0))?;
    match Shadow::new(base, size) {
        Ok(shadow) => Ok((base, shadow)),
        Err(error) => {
            // SAFETY: the mapping just made, whose address nobody has.
            unsafe { libc::munmap(base as *mut libc::c_void, size as usize) };
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_whose_shadow_does_not_fit_leaves_nothing() {
        // Of 128 TiB of addresses the range itself is given, and its shadow is not.
        let size = 1 << 45;
        let before = in_use();
        assert!(place(size).is_err());
        assert!(in_use() < before + size);
    }
}
