//! Shared memory of another block of the cluster: accesses that a warp makes there as a visitor.

use crate::exec::access::part::AccessPart;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::block::Block;
use crate::exec::checks::vector_clock::Visitor;
use crate::exec::cluster::Cluster;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{LaneFault, Trap};
use crate::exec::lane_mask::lanes;
use crate::fault::FaultKind;
use crate::program::op::{Access, AccessKind};

/// Another block of the cluster, by its rank.
pub(crate) fn peer(
    cluster: &mut Option<Box<Cluster>>,
    rank: usize,
    mask: u32,
) -> Result<&mut Block, Trap> {
    let peer = match cluster {
        Some(cluster) => cluster.peer(rank),
        None => Err(FaultKind::BadCluster {
            what: format!("there is no block {rank} in a cluster of 1"),
        }),
    };
    peer.map_err(|kind| LaneFault::new(kind, mask.trailing_zeros() & 31))
}

/// Runs the rest of an access where its part lies. In shared memory of another block, that block's
/// memory and records stand in the place of the own ones meanwhile.
#[inline(always)]
pub(crate) fn at_part(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    access: &Access,
    part: &AccessPart,
    kind: AccessKind,
    rest: impl FnOnce(&mut ActiveWarp<'_>, &mut HostThread<'_>) -> Result<(), Trap>,
) -> Result<(), Trap> {
    match part.peer {
        None => rest(warp, worker),
        Some(rank) => at_peer(warp, worker, access, (part, rank, kind), rest),
    }
}

#[cold]
#[inline(never)]
fn at_peer(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    access: &Access,
    (part, rank, kind): (&AccessPart, usize, AccessKind),
    rest: impl FnOnce(&mut ActiveWarp<'_>, &mut HostThread<'_>) -> Result<(), Trap>,
) -> Result<(), Trap> {
    if !worker.checks.enabled {
        return visit(worker, rank, part.mask, |worker| rest(warp, worker));
    }
    let releases = access.order.releases();
    let lane = part.mask.trailing_zeros() & 31;
    let mut visitor = set_out(warp, worker, lane, releases);
    visitor.is_relaxed = access.order.is_sync() && !releases;
    let (number, pc) = (warp.number, warp.pc);
    let own = worker.checks.shared.clocks.serial;
    let knowledge = visit(worker, rank, part.mask, |worker| {
        let clocks = &mut worker.checks.shared.clocks;
        let Some((place, _)) = clocks.receive(&visitor, visitor.engine(), pc) else {
            let knowledge = clocks.meet(&visitor);
            worker.checks.enabled = false;
            let result = rest(warp, worker);
            worker.checks.enabled = true;
            if kind != AccessKind::Load {
                mark_written(worker, access, part);
            }
            return result.map(|()| knowledge);
        };
        warp.number = place;
        let result = rest(warp, worker);
        warp.number = number;
        let clocks = &worker.checks.shared.clocks;
        match result {
            Ok(()) => Ok(clocks.send_off(place)),
            Err(fault) => Err(between_blocks(fault, &visitor, (own, clocks.serial))),
        }
    })?;
    worker.checks.shared.clocks.come_back(number, &knowledge);
    Ok(())
}

/// The warp as a visitor of another block, for its lanes from `lane` on.
pub(crate) fn set_out(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    lane: u32,
    releases: bool,
) -> Visitor {
    let block = worker.checks.device.records.number();
    let clocks = &mut worker.checks.shared.clocks;
    let mut visitor = clocks.set_out(block, warp.number, releases);
    visitor.lane = lane;
    visitor
}

/// Calls `visit` with the shared memory of a block of the cluster, and the records of it, in the
/// place of the own ones.
pub(crate) fn visit<T>(
    worker: &mut HostThread<'_>,
    rank: usize,
    mask: u32,
    visit: impl FnOnce(&mut HostThread<'_>) -> Result<T, Trap>,
) -> Result<T, Trap> {
    exchange(worker, rank, mask)?;
    let result = visit(worker);
    exchange(worker, rank, mask)?;
    result
}

fn exchange(worker: &mut HostThread<'_>, rank: usize, mask: u32) -> Result<(), Trap> {
    let block = peer(&mut worker.cluster, rank, mask)?;
    std::mem::swap(&mut worker.memory.shared, &mut block.shared);
    std::mem::swap(&mut worker.checks.shared, &mut block.checks);
    Ok(())
}

/// The race of a visitor: which blocks its sides are in. `serials` are those of the visitor's block
/// and of the one that it visits.
pub(crate) fn between_blocks(mut fault: Trap, visitor: &Visitor, serials: (u32, u32)) -> Trap {
    let (own, there) = serials;
    if let (FaultKind::Race(race), Some(other)) = (&mut fault.kind, &mut fault.other) {
        if race.within_block {
            other.block = Some(there - (own - visitor.block));
        }
        race.within_block = other.block == Some(visitor.block);
    }
    fault
}

/// Notes that what lanes store is written.
fn mark_written(worker: &mut HostThread<'_>, access: &Access, part: &AccessPart) {
    let deltas = worker.patterns[access.site as usize].deltas.0;
    for lane in lanes(part.mask) {
        let start = part.first.wrapping_add_signed(i64::from(deltas[lane]));
        let records = &mut worker.checks.shared;
        records.mark_written(start..start + u64::from(access.bytes()));
    }
}
