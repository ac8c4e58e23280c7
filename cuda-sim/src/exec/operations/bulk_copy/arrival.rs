//! Copies to shared memory arrive: in the own block, or in another one of the cluster. Their bytes
//! are completed on a barrier there.

use crate::exec::active_warp::ActiveWarp;
use crate::exec::checks::async_proxy::AsyncOperation;
use crate::exec::checks::engines::Engine;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::operations::atomic::Update;
use crate::exec::operations::bulk_copy::operands::SharedPlace;
use crate::exec::operations::bulk_copy::{LaneCopy, begin, reduction, transfer};
use crate::exec::operations::{mbarrier, peers};

/// The bytes that arrive.
pub(super) enum Content<'c> {
    /// Device memory, all of which was written, or not.
    Device { is_written: bool },
    /// Bytes of shared memory, which the operation reads from there; and how they change the
    /// target, if they do not replace it.
    Shared {
        bytes: &'c [u8],
        update: Option<Update>,
        reading: Option<AsyncOperation>,
    },
}

/// A copy arrives in the block of `barrier`. The memory instruction `site` writes it.
pub(super) fn arrive(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &LaneCopy<'_>,
    content: &Content<'_>,
    barrier: SharedPlace,
    site: u32,
) -> Result<(), Trap> {
    worker.changed = true;
    let at = barrier.at;
    if copy.moved.bytes == 0 {
        return match barrier.block {
            None => mbarrier::check(warp, worker, at, copy.lane),
            Some(rank) => peers::visit(worker, rank, warp.mask, |worker| {
                mbarrier::find(warp, worker, at, copy.lane)
            }),
        };
    }
    if let Some(rank) = barrier.block {
        return arrive_at_peer(warp, worker, copy, content, (rank, at), site);
    }
    mbarrier::check(warp, worker, at, copy.lane)?;
    let begun = begin(warp, worker, Engine::Barrier(at));
    put(warp, worker, copy, content, begun.as_ref(), site)?;
    let ends = mbarrier::complete_bytes(worker, at, copy.moved.bytes, copy.lane)?;
    if let Some(begun) = begun {
        // Whoever waits for the copy comes behind what its thread did before: also behind the reads
        // of device memory, which count as the thread's.
        let clocks = &mut worker.checks.shared.clocks;
        clocks.arrive_at_mbarrier(warp.number, at, true, false);
        worker.checks.complete_on_barrier(&begun, at, ends);
    }
    Ok(())
}

fn arrive_at_peer(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &LaneCopy<'_>,
    content: &Content<'_>,
    (rank, at): (usize, u64),
    site: u32,
) -> Result<(), Trap> {
    let (lane, bytes) = (copy.lane, copy.moved.bytes);
    if !worker.checks.enabled {
        return peers::visit(worker, rank, warp.mask, |worker| {
            mbarrier::find(warp, worker, at, lane)?;
            put(warp, worker, copy, content, None, site)?;
            mbarrier::complete_bytes(worker, at, bytes, lane).map(|_| ())
        });
    }
    let mut visitor = peers::set_out(warp, worker, lane, true);
    if let Content::Shared {
        reading: Some(reading),
        ..
    } = content
    {
        visitor.learn(&worker.checks.done(reading));
    }
    let own = worker.checks.shared.clocks.serial;
    peers::visit(worker, rank, warp.mask, |worker| {
        mbarrier::find(warp, worker, at, lane)?;
        let begun = worker
            .checks
            .receive_async(&visitor, Engine::Barrier(at), warp.pc);
        let there = worker.checks.shared.clocks.serial;
        worker.checks.check_initialisation(&begun, (at, lane))?;
        put(warp, worker, copy, content, Some(&begun), site)
            .map_err(|fault| peers::between_blocks(fault, &visitor, (own, there)))?;
        let ends = mbarrier::complete_bytes(worker, at, bytes, lane)?;
        worker.checks.complete_for(&visitor, &begun, at, ends);
        Ok(())
    })
}

/// Moves the bytes to where they arrive, and checks what the operation accesses there.
fn put(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &LaneCopy<'_>,
    content: &Content<'_>,
    begun: Option<&AsyncOperation>,
    site: u32,
) -> Result<(), Trap> {
    if let Some(begun) = begun {
        if let Some(swizzle) = copy.moved.tile_swizzle() {
            let swizzles = &mut worker.checks.shared.swizzles;
            let known = swizzles.entry(warp.pc).or_insert(Some(swizzle));
            *known = known.filter(|known| *known == swizzle);
        }
        let (checks, memory) = (&mut worker.checks, &worker.memory);
        let updates = matches!(
            content,
            Content::Shared {
                update: Some(_),
                ..
            }
        );
        copy.moved
            .each_stretch(copy.shared, |bytes| match updates {
                true => checks.async_update(warp, memory, begun, bytes),
                false => checks.async_write(warp, memory, begun, [bytes]),
            })?;
    }
    match content {
        Content::Device { is_written } => transfer::load(warp, worker, copy, !is_written),
        Content::Shared { bytes, update, .. } => match update {
            None => transfer::put(worker, copy.shared, bytes),
            Some(update) => reduction::put(worker, copy.shared, bytes, update),
        },
    }
    worker.counters.count_bulk_shared(site, copy.moved.bytes);
    Ok(())
}
