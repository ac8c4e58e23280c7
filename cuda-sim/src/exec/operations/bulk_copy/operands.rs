//! Operands of a bulk copy in one thread: where they lie, and what PTX forbids.

use crate::exec::access::lane_operands::lane_place;
use crate::exec::access::word::Word;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::checks::ranges::LaneRange;
use crate::exec::cluster::{RANK, block_rank};
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{LaneFault, Trap};
use crate::exec::operations::bulk_copy::rows::{Moved, Row};
use crate::fault::{BadTensor, FaultKind};
use crate::program::op::{Address, BulkCopy, Extent, MemorySpace, NO_MASK};
use crate::tensor_map::{MAX_RANK, Pixels, TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, TensorMap};

/// Bytes by which the addresses and the size of a copy of bytes are divisible.
const BYTES_GRAIN: u64 = 16;
/// Bytes by which the shared address of a tile is divisible.
const TILE_GRAIN: u64 = 128;

/// The fault of an operand of the instruction.
pub(super) fn bad(operand: &'static str, what: String, lane: u32) -> Trap {
    LaneFault::new(FaultKind::BadBulkCopy { operand, what }, lane)
}

/// What a lane moves. `device` is the operand in device memory, by its name.
pub(super) fn moved(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &BulkCopy,
    (name, device): (&'static str, &Address),
    lane: u32,
) -> Result<Moved, Trap> {
    let registers = &*warp.registers;
    match copy.extent {
        Extent::Bytes(size) => {
            let bytes = u64::from(registers.read::<u32>(size)[lane as usize]);
            if !bytes.is_multiple_of(BYTES_GRAIN) {
                let what = format!("is {bytes}, no multiple of {BYTES_GRAIN}");
                return Err(bad("size", what, lane));
            }
            let (_, device) = lane_place(registers, device, lane as usize);
            check_multiple(name, device, BYTES_GRAIN, lane)?;
            Ok(Moved::bytes(device, bytes))
        }
        Extent::Tile {
            rank,
            pixels,
            coordinates,
        } => {
            let map = tensor_map(warp, worker, device, lane)?;
            if map.rank != usize::from(rank) {
                let what = format!(
                    "has {} dimensions, and the instruction copies {rank}",
                    map.rank
                );
                return Err(bad("tensorMap", what, lane));
            }
            if map.pixels.is_some() != pixels {
                let what = match pixels {
                    true => "describes tiles, and the instruction copies pixels (.im2col)",
                    false => {
                        "describes pixels (cuTensorMapEncodeIm2col), and the instruction copies a tile"
                    }
                };
                return Err(bad("tensorMap", what.to_owned(), lane));
            }
            let (mut first, mut offsets) = ([0; MAX_RANK], [0; MAX_RANK]);
            for (i, &r) in coordinates[..map.rank].iter().enumerate() {
                let has_offset = pixels && (1..map.rank - 1).contains(&i);
                let both = registers.read_either(r, has_offset)[lane as usize];
                first[i] = both as i32;
                offsets[i] = u32::from((both >> 32) as u16);
            }
            if let Some(pixels) = &map.pixels {
                check_pixels(&map, pixels, (&first, &offsets), lane)?;
            }
            Ok(Moved::tile(map, &first, &offsets))
        }
        Extent::Map => unreachable!("copies nothing"),
    }
}

/// Checks the base of the filter and its offsets in the dimensions between channels and images.
fn check_pixels(
    map: &TensorMap,
    pixels: &Pixels,
    (first, offsets): (&[i32; MAX_RANK], &[u32; MAX_RANK]),
    lane: u32,
) -> Result<(), Trap> {
    let spatial = map.rank - 2;
    let most = (1 << (16 / spatial)) - 1;
    for i in 1..=spatial {
        let [low, high] = map.bounds(pixels, i);
        if !(low..=high).contains(&first[i].into()) {
            let what = format!(
                "has {} in dimension {i}, outside of the bounding box from {low} to {high}",
                first[i]
            );
            return Err(bad("tensorCoords", what, lane));
        }
        if offsets[i] > most {
            let what = format!(
                "has {} in dimension {i}; it goes from 0 to {most}",
                offsets[i]
            );
            return Err(bad("im2colInfo", what, lane));
        }
    }
    Ok(())
}

/// The tensor map that an operand points to.
pub(super) fn tensor_map(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    address: &Address,
    lane: u32,
) -> Result<TensorMap, Trap> {
    const NAME: &str = "tensorMap";
    let (space, at) = lane_place(warp.registers, address, lane as usize);
    check_multiple(NAME, at, TENSOR_MAP_ALIGNMENT, lane)?;
    let memory = &worker.memory;
    let length = TENSOR_MAP_BYTES as u64;
    let outside = || {
        let bad = memory.bad_access(warp, space, false, (at, length), None);
        LaneFault::new(FaultKind::OutOfBounds(bad), lane)
    };
    let bytes = match space {
        MemorySpace::Param => {
            let params = memory.params.as_slice().get(at as usize..);
            let found = params.and_then(<[u8]>::first_chunk);
            *found.ok_or_else(outside)?
        }
        MemorySpace::Generic | MemorySpace::Global => {
            let allocation = memory.map.containing(at);
            if !allocation.is_some_and(|a| a.live && at + length <= a.end()) {
                return Err(outside());
            }
            if worker.checks.enabled {
                let range = LaneRange {
                    lane,
                    at,
                    bytes: length,
                };
                worker.checks.read_range(warp, memory, range)?;
            }
            // SAFETY: the bytes lie in a live allocation.
            std::array::from_fn(|i| unsafe { u8::load(at + i as u64) })
        }
        MemorySpace::Shared | MemorySpace::Local => {
            let what = "lies in shared or local memory; it must be a __grid_constant__ parameter \
                        or lie in device memory";
            return Err(bad(NAME, what.to_owned(), lane));
        }
    };
    let none = || {
        let what = "points to no tensor map; cuTensorMapEncodeTiled makes one on the host";
        bad(NAME, what.to_owned(), lane)
    };
    TensorMap::from_bytes(&bytes).ok_or_else(none)
}

/// The place in shared memory that an operand holds, of the copy's accesses the one with number
/// `site`.
pub(super) fn shared_side(
    warp: &ActiveWarp<'_>,
    worker: &HostThread<'_>,
    (name, address): (&'static str, &Address),
    moved: &Moved,
    (site, write): (u32, bool),
    lane: u32,
) -> Result<SharedPlace, Trap> {
    let place = shared_place(warp, worker, (name, address), lane)?;
    let at = place.at;
    let grain = match moved.map {
        None => BYTES_GRAIN,
        Some(_) => TILE_GRAIN,
    };
    check_multiple(name, at, grain, lane)?;
    let span = u64::from(moved.swizzle().span().unwrap_or(1));
    let end = at.checked_add(moved.bytes.next_multiple_of(span));
    let (first, behind) = worker.patterns[site as usize].shared;
    if at >= first && end.is_some_and(|end| end <= behind) {
        return Ok(place);
    }
    let array = worker.memory.kernel.arrays[site as usize].map(|(start, _)| start);
    let lost = (at, moved.bytes);
    let bad = worker
        .memory
        .bad_access(warp, MemorySpace::Shared, write, lost, array);
    Err(LaneFault::new(FaultKind::OutOfBounds(bad), lane))
}

/// The place in shared memory that an operand holds. In a cluster, it may be in another block.
pub(super) fn shared_place(
    warp: &ActiveWarp<'_>,
    worker: &HostThread<'_>,
    (name, address): (&'static str, &Address),
    lane: u32,
) -> Result<SharedPlace, Trap> {
    let (_, at) = lane_place(warp.registers, address, lane as usize);
    let named = worker.cluster.as_ref().zip(block_rank(at));
    let Some((cluster, (rank, at))) = named else {
        return Ok(SharedPlace { block: None, at });
    };
    let blocks = cluster.peers.len();
    if rank >= blocks {
        let what = format!("is in block {rank} of a cluster of {blocks}");
        return Err(bad(name, what, lane));
    }
    let block = (rank != cluster.rank).then_some(rank);
    Ok(SharedPlace { block, at })
}

/// A place in shared memory.
#[derive(Clone, Copy)]
pub(super) struct SharedPlace {
    /// Rank of the block, if it is another one of the cluster.
    pub block: Option<usize>,
    pub at: u64,
}

impl SharedPlace {
    /// Its address, with the block if it is another one.
    pub(super) fn address(self) -> u64 {
        self.at + self.block.map_or(0, |rank| (rank as u64 + 1) << RANK)
    }

    /// The address, if it is in the own block.
    pub(super) fn own(self, name: &str, lane: u32) -> Result<u64, Trap> {
        match self.block {
            None => Ok(self.at),
            Some(rank) => {
                let what = format!("{name} in shared memory of block {rank} of the cluster");
                Err(not_simulated(&what, lane))
            }
        }
    }
}

/// The fault of a copy that the simulator does not make.
pub(super) fn not_simulated(what: &str, lane: u32) -> Trap {
    let text = format!("cp.async.bulk with {what}");
    LaneFault::new(FaultKind::UnknownInstruction { text }, lane)
}

/// Checks that each row of device memory that a copy accesses lies in one live allocation.
pub(super) fn check_device(
    warp: &ActiveWarp<'_>,
    worker: &HostThread<'_>,
    moved: &Moved,
    write: bool,
    lane: u32,
) -> Result<(), Trap> {
    let memory = &worker.memory;
    let rows = || moved.rows.iter().filter(|row| !row.inside.is_empty());
    let holder = |at: u64, end: Option<u64>| {
        let holder = memory.map.containing(at);
        holder.filter(|a| a.live && end.is_some_and(|end| end <= a.end()))
    };
    // Mostly one allocation holds all of them.
    let ends = rows().map(|row| row.device.checked_add(row.length()));
    let end = ends.reduce(|end, next| Some(end?.max(next?)));
    let start = rows().map(|row| row.device).min();
    if start.is_none_or(|start| holder(start, end.flatten()).is_some()) {
        return Ok(());
    }
    let lost = |row: &&Row| holder(row.device, row.device.checked_add(row.length())).is_none();
    let Some(row) = rows().find(lost) else {
        return Ok(());
    };
    let bytes = match moved.map {
        Some(_) => (row.device, row.length()),
        None => (moved.rows[0].device, moved.bytes),
    };
    let access = memory.bad_access(warp, MemorySpace::Global, write, bytes, None);
    let is_freed = memory.map.containing(row.device).is_some_and(|a| !a.live);
    let dimension = moved.map.and_then(|map| {
        let behind = memory.map.containing(map.address)?.end();
        Some((map, too_large(&map, behind)?))
    });
    let kind = match dimension {
        _ if is_freed => FaultKind::UseAfterFree(access),
        Some((map, dimension)) => FaultKind::TensorOutOfBounds(BadTensor {
            access,
            dimension: dimension as u32,
            elements: map.sizes[dimension],
            stride: map.strides[dimension],
        }),
        None => FaultKind::OutOfBounds(access),
    };
    Err(LaneFault::new(kind, lane))
}

/// The first dimension with which the tensor goes beyond its allocation, which ends before
/// `behind`.
fn too_large(map: &TensorMap, behind: u64) -> Option<usize> {
    let room = behind - map.address;
    let mut bytes = u64::from(map.element.bytes());
    (0..map.rank).find(|&i| {
        bytes = bytes.saturating_add((map.sizes[i] - 1).saturating_mul(map.strides[i]));
        bytes > room
    })
}

/// The blocks to which a load copies: the one of its target, or those that a multicast's mask
/// names. `None` is the own one.
pub(super) fn blocks(
    warp: &ActiveWarp<'_>,
    worker: &HostThread<'_>,
    copy: &BulkCopy,
    [target, barrier]: [SharedPlace; 2],
    lane: u32,
) -> Result<Vec<Option<usize>>, Trap> {
    let mask = warp.registers.read::<u32>(copy.blocks)[lane as usize];
    if mask == NO_MASK {
        return match target.block == barrier.block {
            true => Ok(vec![target.block]),
            false => Err(not_simulated("dstMem and mbar in different blocks", lane)),
        };
    }
    let cluster = worker.cluster.as_ref();
    let [own, blocks] = cluster.map_or([0, 1], |cluster| [cluster.rank, cluster.peers.len()]);
    let mask = mask & 0xffff;
    if !(1..1 << blocks).contains(&mask) {
        let what = format!("is {mask:#x}, in a cluster of {blocks}");
        return Err(bad("ctaMask", what, lane));
    }
    let named = (0..blocks).filter(|rank| mask >> rank & 1 != 0);
    Ok(named.map(|rank| (rank != own).then_some(rank)).collect())
}

fn check_multiple(name: &'static str, at: u64, bytes: u64, lane: u32) -> Result<(), Trap> {
    match at.is_multiple_of(bytes) {
        true => Ok(()),
        false => Err(bad(
            name,
            format!("is {at:#x}, no multiple of {bytes}"),
            lane,
        )),
    }
}
