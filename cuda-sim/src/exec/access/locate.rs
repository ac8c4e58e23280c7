//! Finds the places of an access in host memory, checks them, and counts the traffic.

use crate::exec::access::address_space;
use crate::exec::host_simd::Portable;
use crate::exec::host_thread::{Core, Mistake, Thread, Trap};
use crate::exec::registers::{Registers, lanes};
use crate::fault::{BadAccess, FaultKind};
use crate::program::op::{Access, Address, MemorySpace};

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Load,
    Store,
    Atomic,
}

/// The lanes of an access that can be handled at once: in one state space, and in one allocation.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub space: MemorySpace,
    pub mask: u32,
    /// Address of the first lane within the space.
    pub first: u64,
    /// The same in host memory.
    pub host: u64,
    /// What host addresses have on top for each lane (not counted from the first one): local memory.
    pub stride: u64,
}

impl Part {
    /// Host address of a lane.
    #[inline(always)]
    pub(crate) fn place(&self, delta: i32, lane: usize) -> u64 {
        (self.host as i64 + i64::from(delta)) as u64 + self.stride * lane as u64
    }
}

/// The parts of an access, one after the other.
pub(crate) struct Parts {
    left: u32,
    /// Spaces that were counted as a request.
    counted: [bool; 5],
}

impl Parts {
    #[inline(always)]
    pub(crate) fn new(mask: u32) -> Parts {
        Parts {
            left: mask,
            counted: [false; 5],
        }
    }

    /// The next part, checked and counted. The site of the access knows its pattern then.
    pub(crate) fn next(
        &mut self,
        thread: &mut Thread<'_>,
        core: &mut Core<'_>,
        address: &Address,
        access: &Access,
        kind: Kind,
    ) -> Result<Option<Part>, Trap> {
        if self.left == 0 {
            return Ok(None);
        }
        let bytes = u64::from(access.bytes());
        let (space, mut mask) = match address.space {
            MemorySpace::Generic => lanes_of_one_space(thread.registers, address, self.left),
            space => (space, self.left),
        };
        if space == MemorySpace::Shared && core.checks {
            // Noted reads rely on what their sites know, which may change now.
            core.watch.record_reads::<Portable>(&core.sites);
        }
        let registers = &*thread.registers;
        let site = &mut core.sites[access.site as usize];
        let lane = mask.trailing_zeros() as usize & 31;
        let known = site.mask == mask && {
            let first = lane_address(registers, address, lane);
            let distance = |lane| lane_address(registers, address, lane).wrapping_sub(first);
            lanes(mask).all(|lane| distance(lane) == site.deltas.0[lane] as u64)
        };
        if !known {
            mask = site.learn(mask, bytes as u32, kind, |lane| {
                lane_address(registers, address, lane)
            });
        }
        let first = lane_address(registers, address, lane);
        let mut part = Part {
            space,
            mask,
            first: first.wrapping_sub(if address.space == MemorySpace::Generic {
                address_space::window(space)
            } else {
                0
            }),
            host: 0,
            stride: 0,
        };
        place(&mut part, thread, core, address, access, kind, bytes)?;
        self.left &= !part.mask;
        let request = !std::mem::replace(&mut self.counted[space as usize], true);
        count(core, access, &part, kind, request);
        Ok(Some(part))
    }
}

/// Address of a lane, as the program has it.
#[inline(always)]
pub(crate) fn lane_address(registers: &Registers, address: &Address, lane: usize) -> u64 {
    if address.wide {
        registers.read::<u64>(address.base)[lane].wrapping_add(address.offset as u64)
    } else {
        u64::from(registers.read::<u32>(address.base)[lane].wrapping_add(address.offset as u32))
    }
}

/// The space of the first lane's generic address, and the lanes of `mask` that are in it.
fn lanes_of_one_space(registers: &Registers, address: &Address, mask: u32) -> (MemorySpace, u32) {
    let of = |lane| address_space::of(lane_address(registers, address, lane));
    let space = of(mask.trailing_zeros() as usize & 31);
    let here = lanes(mask).fold(0, |here, lane| here | u32::from(of(lane) == space) << lane);
    (space, here)
}

/// Finds the part in host memory, after checking the bounds of what all its lanes use, and the alignment of all they
/// access.
fn place(
    part: &mut Part,
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    address: &Address,
    access: &Access,
    kind: Kind,
    bytes: u64,
) -> Result<(), Trap> {
    let site = &core.sites[access.site as usize];
    let (start, end) = match part.space {
        MemorySpace::Generic | MemorySpace::Global => site.range,
        MemorySpace::Shared => site.shared,
        MemorySpace::Local => (0, u64::from(thread.local_bytes)),
        MemorySpace::Param if kind == Kind::Load => (0, core.params.len() as u64),
        MemorySpace::Param => (0, 0),
    };
    // As i128 nothing wraps: addresses are 64 bits, deltas 31.
    let used = access.used_range();
    let low = i128::from(part.first) + i128::from(site.low) + i128::from(used.start);
    let high = i128::from(part.first) + i128::from(site.high) + i128::from(used.end);
    let fits =
        low >= i128::from(start) && high <= i128::from(end) && site.is_aligned(part.first, bytes);
    if !fits
        && (part.space != MemorySpace::Global
            || !find(part, thread, core, address, access, kind, bytes))
    {
        return Err(explain(part, thread, core, access, kind, bytes));
    }
    match part.space {
        MemorySpace::Generic | MemorySpace::Global => part.host = part.first,
        MemorySpace::Shared => part.host = core.shared.pointer() as u64 + part.first,
        MemorySpace::Param => part.host = core.params.as_slice().as_ptr() as u64 + part.first,
        MemorySpace::Local => {
            part.host = thread.local.pointer() as u64 + part.first;
            part.stride = u64::from(thread.local_bytes);
        }
    }
    Ok(())
}

/// Looks for the allocation that holds the access, and remembers it. Of lanes in several allocations, those that are in
/// the first one's make the part. False if a lane is in none, or misaligned.
#[cold]
#[inline(never)]
fn find(
    part: &mut Part,
    thread: &Thread<'_>,
    core: &mut Core<'_>,
    address: &Address,
    access: &Access,
    kind: Kind,
    bytes: u64,
) -> bool {
    let site = &mut core.sites[access.site as usize];
    let mut ranges = Vec::new();
    let used = access.used_range();
    for lane in lanes(part.mask) {
        let at = part
            .first
            .wrapping_add_signed(i64::from(site.deltas.0[lane]));
        match core.map.containing(at.wrapping_add(used.start)) {
            Some(a) if a.live && at + used.end <= a.end() && at.is_multiple_of(bytes) => {
                ranges.push((a.start, a.end()));
            }
            _ => return false,
        }
    }
    site.range = ranges[0];
    let here = lanes(part.mask)
        .zip(&ranges)
        .filter(|(_, range)| **range == ranges[0])
        .fold(0, |here, (lane, _)| here | 1 << lane);
    if here != part.mask {
        part.mask = here;
        site.learn(part.mask, bytes as u32, kind, |lane| {
            lane_address(thread.registers, address, lane)
        });
    }
    true
}

/// The fault of the first lane that has one.
#[cold]
#[inline(never)]
fn explain(
    part: &Part,
    thread: &Thread<'_>,
    core: &Core<'_>,
    access: &Access,
    kind: Kind,
    bytes: u64,
) -> Trap {
    let write = kind != Kind::Load;
    let site = &core.sites[access.site as usize];
    let limits = match part.space {
        MemorySpace::Generic | MemorySpace::Global => None,
        MemorySpace::Shared => Some(site.shared),
        MemorySpace::Local => Some((0, u64::from(thread.local_bytes))),
        MemorySpace::Param => Some((0, if write { 0 } else { core.params.len() as u64 })),
    };
    let array = match part.space {
        MemorySpace::Shared => core.kernel.arrays[access.site as usize],
        _ => None,
    };
    let deltas = site.deltas.0;
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
            None => match core.map.containing(at.wrapping_add(used.start)) {
                Some(a) if !a.live => FaultKind::UseAfterFree,
                Some(a) if end.is_some_and(|end| end <= a.end()) && aligned => continue,
                Some(a) if end.is_some_and(|end| end <= a.end()) => FaultKind::Misaligned,
                _ => FaultKind::OutOfBounds,
            },
        };
        let mut bad = bad_access(core, thread, part.space, write, at, bytes);
        if let Some((start, _)) = array {
            // It may lie in another array, but is meant to lie in this one.
            bad.nearest = core.nearest(part.space, thread.local_bytes, start);
        }
        return Mistake::new(mistake(bad), lane as u32);
    }
    unreachable!("an access was refused, but every lane of it is fine")
}

pub(crate) fn bad_access(
    core: &Core<'_>,
    thread: &Thread<'_>,
    space: MemorySpace,
    write: bool,
    address: u64,
    bytes: u64,
) -> BadAccess {
    BadAccess {
        space: address_space::name(space),
        write,
        address,
        bytes: bytes as u32,
        nearest: core.nearest(space, thread.local_bytes, address),
    }
}

/// Counts the traffic of a part: of the whole access, used or not. Unused bytes may lie behind an allocation, but in a
/// sector of which used ones are inside, because the access is aligned and no larger than a sector.
#[inline(always)]
pub(crate) fn count(core: &mut Core<'_>, access: &Access, part: &Part, kind: Kind, request: bool) {
    let bytes = u64::from(access.bytes());
    let site = &mut core.sites[access.site as usize];
    let traffic = &mut core.tallies.traffic[access.site as usize];
    let transfers = match part.space {
        MemorySpace::Param => return,
        MemorySpace::Shared => {
            traffic.shared.units += site.wavefronts(part.first);
            traffic.shared.ideal += site.ideal_wavefronts();
            &mut traffic.shared
        }
        MemorySpace::Local => {
            traffic.local.units += site.local_sectors(part.first);
            &mut traffic.local
        }
        MemorySpace::Generic | MemorySpace::Global => {
            traffic.global.units += site.sectors(part.first);
            traffic.global.ideal += site.lines;
            let mut fresh = [0, 0];
            if let Some(sectors) = core.global.sectors {
                site.for_each_span(part.first, bytes, |start, bytes| {
                    if kind != Kind::Store {
                        fresh[0] += sectors.touch(start, bytes, false);
                    }
                    if kind != Kind::Load {
                        fresh[1] += sectors.touch(start, bytes, true);
                    }
                });
            }
            core.tallies.sectors_read += fresh[0];
            core.tallies.sectors_written += fresh[1];
            &mut traffic.global
        }
    };
    core.global.changed |= kind == Kind::Store;
    transfers.requests += u64::from(request);
    transfers.lanes += u64::from(part.mask.count_ones());
}
