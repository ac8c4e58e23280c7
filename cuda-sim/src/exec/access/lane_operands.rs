//! Addresses and sizes of an access, from the registers of its lanes.

use crate::exec::access::address_space;
use crate::exec::operations::predicate::condition;
use crate::exec::registers::Registers;
use crate::program::op::{Address, AsyncCopy, MemorySpace};

/// Address of a lane, as the program has it.
#[inline(always)]
pub(crate) fn lane_address(registers: &Registers, address: &Address, lane: usize) -> u64 {
    if address.wide {
        registers.read::<u64>(address.base)[lane].wrapping_add_signed(address.offset.into())
    } else {
        u64::from(registers.read::<u32>(address.base)[lane].wrapping_add_signed(address.offset))
    }
}

/// The space that a lane accesses, and its address there.
pub(crate) fn lane_place(
    registers: &Registers,
    address: &Address,
    lane: usize,
) -> (MemorySpace, u64) {
    let at = lane_address(registers, address, lane);
    match address.space {
        MemorySpace::Generic => {
            let space = address_space::space_at(at);
            (space, at.wrapping_sub(address_space::window(space)))
        }
        space => (space, at),
    }
}

/// Bytes that each lane of an asynchronous copy reads.
pub(crate) fn bytes_read(registers: &Registers, copy: &AsyncCopy) -> [u32; 32] {
    let ignored = condition(registers, copy.ignore);
    let asked = registers.read::<u32>(copy.size);
    std::array::from_fn(|lane| match ignored >> lane & 1 {
        0 => asked[lane].min(copy.bytes.into()),
        _ => 0,
    })
}
