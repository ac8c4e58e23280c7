//! The generic address space: windows for shared, local and parameter memory; all else is global.

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

/// A word for reports.
pub(crate) fn name(space: MemorySpace) -> &'static str {
    match space {
        MemorySpace::Generic | MemorySpace::Global => "global",
        MemorySpace::Shared => "shared",
        MemorySpace::Local => "local",
        MemorySpace::Param => "parameter",
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
