//! The generic address space: windows for shared, local and parameter memory; all else is global.

use crate::fault::MemoryKind;
use crate::program::op::MemorySpace;

const SHARED: u64 = 1 << 40;
const LOCAL: u64 = 2 << 40;
const PARAM: u64 = 3 << 40;
const END: u64 = 4 << 40;

/// Offset of the generic addresses of `space`.
#[inline(always)]
pub(crate) fn window(space: MemorySpace) -> u64 {
    match space {
        MemorySpace::Generic | MemorySpace::Global => 0,
        MemorySpace::Shared => SHARED,
        MemorySpace::Local => LOCAL,
        MemorySpace::Param => PARAM,
    }
}

/// The memory that reports name.
pub(crate) fn kind(space: MemorySpace) -> MemoryKind {
    match space {
        MemorySpace::Generic | MemorySpace::Global => MemoryKind::Global,
        MemorySpace::Shared => MemoryKind::Shared,
        MemorySpace::Local => MemoryKind::Local,
        MemorySpace::Param => MemoryKind::Parameter,
    }
}

/// The space that a generic address lies in.
#[inline(always)]
pub(crate) fn space_at(address: u64) -> MemorySpace {
    match address {
        SHARED..LOCAL => MemorySpace::Shared,
        LOCAL..PARAM => MemorySpace::Local,
        PARAM..END => MemorySpace::Param,
        _ => MemorySpace::Global,
    }
}
