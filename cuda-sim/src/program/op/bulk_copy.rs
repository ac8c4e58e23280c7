//! Copies of the tensor memory accelerator: `cp.async.bulk`, `cp.reduce.async.bulk`, their forms
//! for tensors, and `prefetch.tensormap`.

use super::arithmetic::Type;
use super::memory::{Access, AccessKind, Address, Atomic, MemorySpace, Order};
use super::operands::R;

/// A copy that each thread begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BulkCopy {
    pub route: Route,
    /// Of a load of a tile, and of a prefetch, the tensor map.
    pub source: Side,
    /// Of a store of a tile, the tensor map; of a prefetch, the source again.
    pub target: Side,
    pub extent: Extent,
    pub reduction: Option<Reducing>,
    /// `mbar`: gets the bytes of copies to shared memory.
    pub barrier: Option<Side>,
    /// `ctaMask` of a multicast; [`NO_MASK`] without one.
    pub blocks: R,
    /// Number of the read within the kernel's memory accesses. The write has the next one.
    pub site: u32,
}

/// Stands for the lack of a mask: no bit of 16 is in it.
pub(crate) const NO_MASK: u32 = 1 << 16;

/// An address in a register. An operation has no room for more offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    pub base: R,
    pub space: MemorySpace,
    pub wide: bool,
}

impl Side {
    pub(crate) fn address(self) -> Address {
        let Side { base, space, wide } = self;
        Address {
            space,
            base,
            wide,
            offset: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Device memory to shared memory.
    Load,
    /// Shared memory to device memory.
    Store,
    /// From the shared memory of the block to itself, or to that of another one of the cluster.
    Within,
    /// To the second-level cache: addresses are checked, and nothing else happens.
    Prefetch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// So many bytes in a row.
    Bytes(R),
    /// The box of a tensor map, at these coordinates of its tensor. If it is one of `pixels`
    /// (`.im2col`), the coordinates between the first and the last are of 64 bits, with the offset
    /// of the filter above: an operation has no room for more registers.
    Tile {
        rank: u8,
        pixels: bool,
        coordinates: [R; 5],
    },
    /// The tensor map itself.
    Map,
}

/// The operation that combines the elements of target and source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reducing {
    pub op: Atomic,
    /// Of a tile, the tensor map has it.
    pub ty: Option<Type>,
}

impl BulkCopy {
    /// The read, then the write; none of a prefetch. The bytes of a copy are counted one by one.
    pub(crate) fn accesses(&self) -> Option<[(Access, Address, AccessKind); 2]> {
        let access = |site| Access {
            site,
            ..Access::one(Type::U8, Order::Weak)
        };
        let [read, write] = self.sites();
        let writing = match self.reduction {
            Some(_) => AccessKind::Atomic,
            None => AccessKind::Store,
        };
        (self.route != Route::Prefetch).then_some([
            (access(read), self.source.address(), AccessKind::Load),
            (access(write), self.target.address(), writing),
        ])
    }

    /// Numbers of the read and of the write.
    pub(crate) fn sites(&self) -> [u32; 2] {
        [self.site, self.site + 1]
    }

    /// The registers of the extent.
    pub(crate) fn extent_registers(&mut self) -> &mut [R] {
        match &mut self.extent {
            Extent::Bytes(size) => std::slice::from_mut(size),
            Extent::Tile {
                rank, coordinates, ..
            } => &mut coordinates[..usize::from(*rank)],
            Extent::Map => &mut [],
        }
    }
}
