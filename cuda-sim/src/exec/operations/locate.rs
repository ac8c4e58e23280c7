//! Location of an access in host memory: finds the address pattern, checks bounds and alignment,
//! counts the traffic.

use crate::exec::access::address_space;
use crate::exec::access::lane_operands::lane_address;
use crate::exec::access::part::AccessPart;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::cluster::block_rank;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{LaneFault, Trap};
use crate::exec::lane_mask::lanes;
use crate::exec::operations::peers::peer;
use crate::exec::registers::Registers;
use crate::fault::{BadAccess, FaultKind};
use crate::program::op::{Access, AccessKind, Address, MemorySpace};

/// The parts of an access, one after the other.
pub(crate) struct AccessParts {
    left: u32,
    /// Spaces that were counted as a request.
    counted: [bool; 5],
    counts: bool,
}

impl AccessParts {
    #[inline(always)]
    pub(crate) fn new(mask: u32) -> AccessParts {
        AccessParts {
            left: mask,
            counted: [false; 5],
            counts: true,
        }
    }

    /// The parts of an access that is counted apart from its checks.
    pub(crate) fn uncounted(mask: u32) -> AccessParts {
        AccessParts {
            counts: false,
            ..AccessParts::new(mask)
        }
    }

    /// The next part, checked and, unless it is counted apart, counted. The address pattern of the
    /// instruction is up to date then.
    pub(crate) fn next(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        worker: &mut HostThread<'_>,
        address: &Address,
        access: &Access,
        kind: AccessKind,
    ) -> Result<Option<AccessPart>, Trap> {
        if self.left == 0 {
            return Ok(None);
        }
        let bytes = u64::from(access.bytes());
        let (space, mut mask) = match address.space {
            MemorySpace::Generic => lanes_of_one_space(warp.registers, address, self.left),
            space => (space, self.left),
        };
        if space == MemorySpace::Shared && worker.checks.enabled {
            // Noted reads rely on their patterns, which may change now.
            worker.record_shared_reads();
        }
        let registers = &*warp.registers;
        let lane = mask.trailing_zeros() as usize & 31;
        let cluster = worker.cluster.as_ref();
        let mut rank = None;
        if let Some(cluster) = cluster.filter(|_| space == MemorySpace::Shared) {
            let rank_of = |lane| Some(block_rank(lane_address(registers, address, lane))?.0);
            rank = rank_of(lane).map(|rank| (rank, cluster.rank));
            mask = lanes(mask).fold(0, |here, other| {
                here | u32::from(rank_of(other) == rank_of(lane)) << other
            });
        }
        let pattern = &mut worker.patterns[access.site as usize];
        let known = pattern.mask == mask && {
            let first = lane_address(registers, address, lane);
            let distance = |lane| lane_address(registers, address, lane).wrapping_sub(first);
            lanes(mask).all(|lane| distance(lane) == pattern.deltas.0[lane] as u64)
        };
        if !known {
            mask = pattern.learn(mask, access, kind, |lane| {
                lane_address(registers, address, lane)
            });
        }
        let first = lane_address(registers, address, lane);
        let mut part = AccessPart {
            space,
            mask,
            first: first.wrapping_sub(if address.space == MemorySpace::Generic {
                address_space::window(space)
            } else {
                0
            }),
            host: 0,
            stride: 0,
            peer: None,
        };
        if let Some((rank, own)) = rank {
            part.first = block_rank(part.first).map_or(part.first, |(_, at)| at);
            part.peer = (rank != own).then_some(rank);
        }
        place(&mut part, warp, worker, address, access, kind, bytes)?;
        self.left &= !part.mask;
        worker.changed |= kind == AccessKind::Store;
        if self.counts {
            let request = !std::mem::replace(&mut self.counted[space as usize], true);
            let pattern = &mut worker.patterns[access.site as usize];
            worker.counters.count(pattern, access, &part, kind, request);
        }
        Ok(Some(part))
    }
}

/// The space of the first lane's generic address, and the lanes of `mask` that are in it.
fn lanes_of_one_space(registers: &Registers, address: &Address, mask: u32) -> (MemorySpace, u32) {
    let space_of = |lane| address_space::space_at(lane_address(registers, address, lane));
    let space = space_of(mask.trailing_zeros() as usize & 31);
    let here = lanes(mask).fold(0, |here, lane| {
        here | u32::from(space_of(lane) == space) << lane
    });
    (space, here)
}

/// Finds the part in host memory, after checking the bounds of what all its lanes use, and the
/// alignment of all they access.
fn place(
    part: &mut AccessPart,
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    address: &Address,
    access: &Access,
    kind: AccessKind,
    bytes: u64,
) -> Result<(), Trap> {
    let pattern = &worker.patterns[access.site as usize];
    let (start, end) = match part.space {
        MemorySpace::Generic | MemorySpace::Global => pattern.range,
        MemorySpace::Shared => pattern.shared,
        MemorySpace::Local => (0, u64::from(warp.local_bytes)),
        MemorySpace::Param if kind == AccessKind::Load => (0, worker.memory.params.len() as u64),
        MemorySpace::Param => (0, 0),
    };
    // As i128 nothing wraps: addresses are 64 bits, deltas 31.
    let used = access.used_range();
    let low = i128::from(part.first) + i128::from(pattern.low) + i128::from(used.start);
    let high = i128::from(part.first) + i128::from(pattern.high) + i128::from(used.end);
    let fits = low >= i128::from(start)
        && high <= i128::from(end)
        && pattern.is_aligned(part.first, bytes);
    if !fits
        && (part.space != MemorySpace::Global
            || !find(part, warp, worker, address, access, kind, bytes))
    {
        return Err(explain(part, warp, worker, access, kind, bytes));
    }
    match part.space {
        MemorySpace::Generic | MemorySpace::Global => part.host = part.first,
        MemorySpace::Shared => {
            let shared = match part.peer {
                None => worker.memory.shared.pointer(),
                Some(rank) => peer(&mut worker.cluster, rank, part.mask)?.shared.pointer(),
            };
            part.host = shared as u64 + part.first;
        }
        MemorySpace::Param => {
            part.host = worker.memory.params.as_slice().as_ptr() as u64 + part.first
        }
        MemorySpace::Local => {
            part.host = warp.local.pointer() as u64 + part.first;
            part.stride = u64::from(warp.local_bytes);
        }
    }
    Ok(())
}

/// Looks for the allocation that holds the access, and remembers it. Of lanes in several
/// allocations, those that are in the first one's make the part. False if a lane is in none, or
/// misaligned.
#[cold]
#[inline(never)]
fn find(
    part: &mut AccessPart,
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    address: &Address,
    access: &Access,
    kind: AccessKind,
    bytes: u64,
) -> bool {
    let pattern = &mut worker.patterns[access.site as usize];
    let mut ranges = Vec::new();
    let used = access.used_range();
    for lane in lanes(part.mask) {
        let at = part
            .first
            .wrapping_add_signed(i64::from(pattern.deltas.0[lane]));
        match worker.memory.map.containing(at.wrapping_add(used.start)) {
            Some(a) if a.live && at + used.end <= a.end() && at.is_multiple_of(bytes) => {
                ranges.push((a.start, a.end()));
            }
            _ => return false,
        }
    }
    pattern.range = ranges[0];
    let here = lanes(part.mask)
        .zip(&ranges)
        .filter(|(_, range)| **range == ranges[0])
        .fold(0, |here, (lane, _)| here | 1 << lane);
    if here != part.mask {
        part.mask = here;
        pattern.learn(part.mask, access, kind, |lane| {
            lane_address(warp.registers, address, lane)
        });
    }
    true
}

/// The fault of the first lane that has one.
#[cold]
#[inline(never)]
fn explain(
    part: &AccessPart,
    warp: &ActiveWarp<'_>,
    worker: &HostThread<'_>,
    access: &Access,
    kind: AccessKind,
    bytes: u64,
) -> Trap {
    let write = kind != AccessKind::Load;
    let pattern = &worker.patterns[access.site as usize];
    let limits = match part.space {
        MemorySpace::Generic | MemorySpace::Global => None,
        MemorySpace::Shared => Some(pattern.shared),
        MemorySpace::Local => Some((0, u64::from(warp.local_bytes))),
        MemorySpace::Param => Some((
            0,
            if write {
                0
            } else {
                worker.memory.params.len() as u64
            },
        )),
    };
    // The address may lie in another array, but is meant to lie in this one.
    let array = match part.space {
        MemorySpace::Shared => worker.memory.kernel.arrays[access.site as usize],
        _ => None,
    };
    let array = array.map(|(start, _)| start);
    let deltas = pattern.deltas.0;
    let used = access.used_range();
    for lane in lanes(part.mask) {
        let at = part.first.wrapping_add_signed(i64::from(deltas[lane]));
        let end = at.checked_add(used.end);
        let aligned = at & (bytes - 1) == 0;
        let mistake: fn(BadAccess) -> FaultKind = match limits {
            Some((first, behind))
                if at.saturating_add(used.start) < first || end.is_none_or(|end| end > behind) =>
            {
                FaultKind::OutOfBounds
            }
            Some(_) if aligned => continue,
            Some(_) => FaultKind::Misaligned,
            None => match worker.memory.map.containing(at.wrapping_add(used.start)) {
                Some(a) if !a.live => FaultKind::UseAfterFree,
                Some(a) if end.is_some_and(|end| end <= a.end()) && aligned => continue,
                Some(a) if end.is_some_and(|end| end <= a.end()) => FaultKind::Misaligned,
                _ => FaultKind::OutOfBounds,
            },
        };
        let memory = &worker.memory;
        let bad = memory.bad_access(warp, part.space, write, (at, bytes), array);
        return LaneFault::new(mistake(bad), lane as u32);
    }
    unreachable!("an access was refused, but every lane of it is fine")
}
