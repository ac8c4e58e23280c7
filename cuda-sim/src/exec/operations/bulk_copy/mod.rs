//! Bulk copies: what the tensor memory accelerator does for one thread.
//!
//! A copy is made when it is begun, lane by lane in lane order. That nobody can tell is a matter of
//! the checks ([`crate::exec::checks::async_proxy`]), which take it for the work of an engine:
//!
//! 1. The operands are checked, and what the copy reads of device memory, as reads of the thread
//!    that begins it.
//! 2. The engine begins; what it accesses of shared memory is checked, and what it writes to device
//!    memory. A second engine makes these writes, because a thread may wait for the reads alone.
//! 3. The bytes move, row by row ([`rows`]).
//! 4. The engine completes the bytes on the barrier ([`arrival`]), or the copy belongs to the
//!    thread's open bulk group.

mod arrival;
mod operands;
mod reduction;
mod rows;
mod transfer;

use crate::exec::active_warp::ActiveWarp;
use crate::exec::checks::async_proxy::AsyncOperation;
use crate::exec::checks::engines::Engine;
use crate::exec::checks::happens_before::thread;
use crate::exec::copies_under_way::BulkGroups;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::lane_mask::lanes;
use crate::program::op::{AccessKind, BulkCopy, Extent, Route};

use arrival::{Content, arrive};
use operands::{
    SharedPlace, blocks, check_device, moved, not_simulated, shared_place, shared_side, tensor_map,
};
use rows::{Moved, Row};

/// A copy of one lane, whose operands are checked.
struct LaneCopy<'c> {
    lane: u32,
    moved: &'c Moved,
    /// First byte in shared memory; of a copy within it, of its target.
    shared: u64,
}

/// Runs the copies of the lanes in `warp.mask`.
pub(crate) fn execute(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &BulkCopy,
) -> Result<(), Trap> {
    if worker.checks.enabled {
        worker.record_shared_reads();
    }
    for lane in lanes(warp.mask) {
        let lane = lane as u32;
        warp.mask = 1 << lane;
        match copy.route {
            Route::Load => load(warp, worker, copy, lane)?,
            Route::Store => store(warp, worker, copy, lane)?,
            Route::Within => within(warp, worker, copy, lane)?,
            Route::Prefetch => prefetch(warp, worker, copy, lane)?,
        }
    }
    Ok(())
}

/// Waits for the bulk groups of the lanes in `warp.mask`, but for their `newest` last ones; or for
/// what they read alone.
pub(crate) fn wait(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    newest: u32,
    only_reads: bool,
) {
    for lane in lanes(warp.mask) {
        let thread = thread(warp.number, lane as u32);
        let BulkGroups { reads, writes } = &mut worker.copies.bulk;
        let read = reads.wait(thread, newest);
        let written = match only_reads {
            true => None,
            false => writes.wait(thread, newest),
        };
        for ended in read.iter().chain(&written) {
            worker.checks.wait_async(ended, warp.number);
        }
    }
}

fn load(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &BulkCopy,
    lane: u32,
) -> Result<(), Trap> {
    let name = match copy.extent {
        Extent::Bytes(_) => "srcMem",
        Extent::Tile { .. } | Extent::Map => "tensorMap",
    };
    let moved = &moved(warp, worker, copy, (name, &copy.source.address()), lane)?;
    let [read, write] = copy.sites();
    let target = ("dstMem", &copy.target.address());
    let target = shared_side(warp, worker, target, moved, (write, true), lane)?;
    let barrier = barrier(warp, worker, copy, lane)?;
    let blocks = blocks(warp, worker, copy, [target, barrier], lane)?;
    check_device(warp, worker, moved, false, lane)?;
    let content = Content::Device {
        is_written: transfer::check_reads(warp, worker, moved, lane)?,
    };
    let lane_copy = LaneCopy {
        lane,
        moved,
        shared: target.at,
    };
    for block in blocks {
        let barrier = SharedPlace { block, ..barrier };
        arrive(warp, worker, &lane_copy, &content, barrier, write)?;
    }
    count_device(worker, read, AccessKind::Load, moved);
    Ok(())
}

fn store(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &BulkCopy,
    lane: u32,
) -> Result<(), Trap> {
    let name = match copy.extent {
        Extent::Bytes(_) => "dstMem",
        Extent::Tile { .. } | Extent::Map => "tensorMap",
    };
    let moved = &moved(warp, worker, copy, (name, &copy.target.address()), lane)?;
    let [read, write] = copy.sites();
    let source = ("srcMem", &copy.source.address());
    let source = shared_side(warp, worker, source, moved, (read, false), lane)?;
    let shared = source.own("srcMem", lane)?;
    check_device(warp, worker, moved, true, lane)?;
    let lane_copy = LaneCopy {
        lane,
        moved,
        shared,
    };
    let update = match copy.reduction {
        Some(reducing) => Some(reduction::update(&lane_copy, reducing)?),
        None => None,
    };
    let thread = thread(warp.number, lane);
    if let Some(reading) = begin(warp, worker, Engine::BulkGroups { warp: warp.number }) {
        let (checks, memory) = (&mut worker.checks, &worker.memory);
        transfer::each_read_stretch(moved, shared, |bytes| {
            checks.async_read_written(warp, memory, &reading, bytes)
        })?;
        worker.copies.bulk.reads.begin(thread, reading);
    }
    let writing = begin(warp, worker, Engine::BulkWrites { warp: warp.number });
    if let Some(writing) = writing {
        worker.copies.bulk.writes.begin(thread, writing);
    }
    let kind = match update {
        None => {
            transfer::store(warp, worker, &lane_copy, writing.as_ref())?;
            AccessKind::Store
        }
        Some(update) => {
            reduction::store(warp, worker, &lane_copy, update, writing.as_ref())?;
            AccessKind::Atomic
        }
    };
    worker.changed = true;
    let inside = count_device(worker, write, kind, moved);
    worker.counters.count_bulk_shared(read, inside);
    Ok(())
}

fn within(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &BulkCopy,
    lane: u32,
) -> Result<(), Trap> {
    // Its source takes the place of the operand in device memory.
    let moved = &moved(warp, worker, copy, ("srcMem", &copy.source.address()), lane)?;
    let [read, write] = copy.sites();
    let source = ("srcMem", &copy.source.address());
    let source = shared_side(warp, worker, source, moved, (read, false), lane)?;
    let from = source.own("srcMem", lane)?;
    let target = ("dstMem", &copy.target.address());
    let target = shared_side(warp, worker, target, moved, (write, true), lane)?;
    let barrier = barrier(warp, worker, copy, lane)?;
    if target.block != barrier.block {
        return Err(not_simulated("dstMem and mbar in different blocks", lane));
    }
    let reading = begin(warp, worker, Engine::Barrier(barrier.address()));
    if let Some(reading) = &reading {
        let (checks, memory) = (&mut worker.checks, &worker.memory);
        checks.async_read_written(warp, memory, reading, from..from + moved.bytes)?;
    }
    let lane_copy = LaneCopy {
        lane,
        moved,
        shared: target.at,
    };
    let reducing = copy.reduction;
    let update = reducing.map(|reducing| reduction::update(&lane_copy, reducing));
    let source = from as usize..(from + moved.bytes) as usize;
    let bytes = worker.memory.shared.as_slice()[source].to_vec();
    let content = Content::Shared {
        bytes: &bytes,
        update: update.transpose()?,
        reading,
    };
    worker.counters.count_bulk_shared(read, moved.bytes);
    arrive(warp, worker, &lane_copy, &content, barrier, write)
}

fn prefetch(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &BulkCopy,
    lane: u32,
) -> Result<(), Trap> {
    let name = match copy.extent {
        Extent::Map => return tensor_map(warp, worker, &copy.source.address(), lane).map(|_| ()),
        Extent::Bytes(_) => "srcMem",
        Extent::Tile { .. } => "tensorMap",
    };
    let moved = moved(warp, worker, copy, (name, &copy.source.address()), lane)?;
    check_device(warp, worker, &moved, false, lane)
}

/// Counts what a copy accesses of device memory. Returns the bytes.
fn count_device(worker: &mut HostThread<'_>, site: u32, kind: AccessKind, moved: &Moved) -> u64 {
    let ranges = moved.rows.iter().map(|row| (row.device, row.length()));
    worker.counters.count_bulk_device(site, kind, ranges);
    moved.rows.iter().map(Row::length).sum()
}

/// The place of the barrier that gets the bytes of a copy.
fn barrier(
    warp: &ActiveWarp<'_>,
    worker: &HostThread<'_>,
    copy: &BulkCopy,
    lane: u32,
) -> Result<SharedPlace, Trap> {
    let Some(barrier) = copy.barrier else {
        unreachable!("copies to shared memory have a barrier")
    };
    shared_place(warp, worker, ("mbar", &barrier.address()), lane)
}

fn begin(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    engine: Engine,
) -> Option<AsyncOperation> {
    let enabled = worker.checks.enabled;
    let issuers = warp.number..warp.number + 1;
    let at = (warp.pc, warp.mask.trailing_zeros() & 31);
    enabled.then(|| worker.checks.begin_async(engine, issuers, at))
}
