//! Asynchronous copies from device memory to shared memory: `cp.async`.

use super::arithmetic::Type;
use super::memory::{ALL_BYTES, Access, Address, MemorySpace, Order};
use super::operands::{Condition, R};

/// A copy of 4, 8 or 16 bytes by each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AsyncCopy {
    /// In device memory.
    pub source: CopySide,
    /// In shared memory.
    pub target: CopySide,
    /// `cp-size`.
    pub bytes: u8,
    /// Bytes that are read (`src-size`); the rest of the target becomes zero.
    pub size: R,
    /// Where it holds, nothing is read (`ignore-src`).
    pub ignore: Condition,
    /// `.ca`: through the first-level cache.
    pub through_l1: bool,
    /// Numbers of the read and of the write within the kernel's memory accesses.
    pub sites: [u32; 2],
}

/// Address of one side: `[base + offset]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopySide {
    pub base: R,
    pub wide: bool,
    pub offset: i32,
}

impl AsyncCopy {
    /// The read, then the write.
    pub(crate) fn accesses(&self) -> [(Access, Address); 2] {
        let access = |site| Access {
            ty: Type::U32,
            count: self.bytes / 4,
            wide: false,
            order: Order::Weak,
            used: ALL_BYTES,
            row: false,
            site,
        };
        let [read, write] = self.sites;
        let address = |space, side: CopySide| Address {
            space,
            base: side.base,
            wide: side.wide,
            offset: side.offset,
        };
        [
            (access(read), address(MemorySpace::Global, self.source)),
            (access(write), address(MemorySpace::Shared, self.target)),
        ]
    }
}
