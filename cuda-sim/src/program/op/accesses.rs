//! The memory accesses of an operation.

use super::mbarrier::Mbarrier;
use super::memory::{Access, AccessKind, Address, Order};
use super::operation::{Op, between_lanes, on_registers, warp_operations};

impl Op {
    /// True if it is an operation of a warp on a matrix in memory.
    pub(crate) fn accesses_matrix(&self) -> bool {
        matches!(
            self,
            Op::MatrixLoad(_) | Op::MatrixStore(_) | Op::MatrixStart(_)
        )
    }

    /// True for a fence, and for an access that is one: acquire or release.
    pub(crate) fn is_fence(&self) -> bool {
        let is_ordered = |access: &Access| {
            matches!(
                access.order,
                Order::Acquire | Order::Release | Order::AcquireRelease
            )
        };
        matches!(self, Op::Fence(_))
            || matches!(self, Op::Load { access, .. } | Op::Store { access, .. } | Op::Atomic { access, .. }
                if is_ordered(access))
    }

    /// Its memory accesses.
    pub(crate) fn accesses(mut self) -> impl Iterator<Item = (Access, Address, AccessKind)> {
        let (mut found, mut count) = ([None; 2], 0);
        self.for_each_access(|access, address, kind| {
            found[count] = Some((*access, *address, kind));
            count += 1;
        });
        found.into_iter().flatten()
    }

    /// Calls `visit` for each of its memory accesses, at most two. The number of an access, its
    /// `site`, may be changed.
    pub(crate) fn for_each_access(
        &mut self,
        mut visit: impl FnMut(&mut Access, &Address, AccessKind),
    ) {
        match self {
            Op::Load {
                access, address, ..
            } => visit(access, address, AccessKind::Load),
            Op::Store {
                access, address, ..
            } => visit(access, address, AccessKind::Store),
            Op::Atomic {
                access, address, ..
            } => visit(access, address, AccessKind::Atomic),
            Op::Mbarrier(Mbarrier {
                op,
                access,
                address,
                ..
            }) => visit(access, address, op.access_kind()),
            Op::MatrixLoad(rows) => visit(&mut rows.access, &rows.address, AccessKind::Load),
            Op::MatrixStore(rows) => visit(&mut rows.access, &rows.address, AccessKind::Store),
            Op::CopyAsync(copy) => {
                let [(mut read, from), (mut write, to)] = copy.accesses();
                visit(&mut read, &from, AccessKind::Load);
                visit(&mut write, &to, AccessKind::Store);
                copy.sites = [read.site, write.site];
            }
            Op::BulkCopy(copy) => {
                if let Some([(mut read, from, _), (mut write, to, writing)]) = copy.accesses() {
                    visit(&mut read, &from, AccessKind::Load);
                    visit(&mut write, &to, writing);
                    copy.site = read.site;
                }
            }
            on_registers!()
            | between_lanes!()
            | Op::MatrixProduct(_)
            | Op::MatrixProduct64(_)
            | Op::QuadPairProducts(_)
            | Op::MatrixStart(_)
            | Op::MatrixTranspose { .. }
            | Op::WarpgroupProduct(_)
            | Op::ProductFence
            | Op::ProductCommit
            | Op::ProductWait { .. }
            | warp_operations!() => {}
        }
    }
}
