//! Copies of the tensor memory accelerator: `cp.async.bulk`, `cp.reduce.async.bulk`, their forms
//! for tensors, and `prefetch.tensormap`.

use super::arithmetic::Type;
use super::memory::{Access, AccessKind, Address, Atomic, Order};
use super::operands::R;

/// A copy that each thread begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BulkCopy {
    pub route: Route,
    /// Of a load of a tile, and of a prefetch, the tensor map.
    pub source: Address,
    /// Of a store of a tile, the tensor map; of a prefetch, the source again.
    pub target: Address,
    pub extent: Extent,
    pub reduction: Option<Reducing>,
    /// `mbar`: gets the bytes of copies to shared memory.
    pub barrier: Option<Address>,
    /// `ctaMask` of a multicast.
    pub blocks: Option<R>,
    /// Numbers of the read and of the write within the kernel's memory accesses.
    pub sites: [u32; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Device memory to shared memory.
    Load,
    /// Shared memory to device memory.
    Store,
    /// Within the shared memory of the block.
    Within,
    /// To the second-level cache: addresses are checked, and nothing else happens.
    Prefetch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// So many bytes in a row.
    Bytes(R),
    /// The box of a tensor map, at these coordinates of its tensor.
    Tile { rank: u8, coordinates: [R; 5] },
    /// The tensor map itself.
    Map,
}

/// What is made of the elements of target and source.
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
        let [read, write] = self.sites;
        let writing = match self.reduction {
            Some(_) => AccessKind::Atomic,
            None => AccessKind::Store,
        };
        (self.route != Route::Prefetch).then_some([
            (access(read), self.source, AccessKind::Load),
            (access(write), self.target, writing),
        ])
    }

    /// The registers of the extent.
    pub(crate) fn extent_registers(&mut self) -> &mut [R] {
        match &mut self.extent {
            Extent::Bytes(size) => std::slice::from_mut(size),
            Extent::Tile { rank, coordinates } => &mut coordinates[..usize::from(*rank)],
            Extent::Map => &mut [],
        }
    }
}
