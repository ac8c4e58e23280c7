//! Address space for device memory and its shadow.

use std::io;

use crate::memory::{
    pages::{free_addresses, map, map_at, unmap},
    sectors::SECTOR,
    shadow::Shadow,
};

/// Address at which the arena starts unless that range is taken. Its lower half is where it starts
/// in the memory of a WebAssembly module, behind the module's own data: addresses are the same
/// there.
const BASE: u64 = 0x1000_0100_0000;
/// Bytes of addresses for each byte of device memory: itself and its shadow.
const ADDRESSES_PER_BYTE: u64 = 1 + Shadow::BYTES_PER_SECTOR.div_ceil(SECTOR);

/// Most device memory, in bytes, that leaves the program half of the addresses which its limit
/// (`ulimit -v`) leaves now. No bound if there is no limit.
pub(super) fn affordable() -> u64 {
    match free_addresses() {
        u64::MAX => u64::MAX,
        free => free / 2 / ADDRESSES_PER_BYTE,
    }
}

/// Reserves `size` bytes of readable and writable addresses, at [`BASE`] if that is free, and their
/// shadow.
pub(super) fn place(size: u64) -> io::Result<(u64, Shadow)> {
    let base = map_at(BASE, size).or_else(|_| map(size))?;
    match Shadow::new(base, size) {
        Ok(shadow) => Ok((base, shadow)),
        Err(error) => {
            // SAFETY: the mapping just made, whose address nobody has.
            unsafe { unmap(base, size) };
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pages::in_use;

    #[test]
    fn a_reservation_whose_shadow_does_not_fit_leaves_nothing() {
        // Of 128 TiB of addresses the range itself is given, and its shadow is not.
        let size = 1 << 45;
        let before = in_use();
        assert!(place(size).is_err());
        assert!(in_use() < before + size);
    }
}
