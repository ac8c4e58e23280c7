//! Loads and stores.
//!
//! An access is made in steps: find the place and the pattern of its addresses (see [`super::site`]), check that all
//! lanes lie inside what they may touch, count it, have the watches look at it, and move the values. Device memory is
//! accessed by relaxed atomics, or by the processor's own vector instructions, so that a kernel with races is not
//! undefined behaviour here; shared and local memory belong to one block and one thread of ours.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::core::{Core, Mistake, OtherSide, Thread, Trap};
use super::registers::{Raw, Registers, lanes};
use super::site::Run;
use super::vectors::{Portable, Vectors};
use super::watch::Problem;
use super::{spaces, watch::Access as Watched};
use crate::fault::{BadAccess, FaultKind, Race, RaceSide};
use crate::program::op::{Access, Address, MemorySpace, Op, R, Type};

/// Runs a load or store. `thread.mask` is not empty.
pub(super) fn execute(thread: &mut Thread<'_>, core: &mut Core<'_>, op: &Op) -> Result<(), Trap> {
    let mut parts = Parts::new(thread.mask);
    match op {
        Op::Load { access, address, d } => {
            while let Some(part) = parts.next(thread, core, address, access, Kind::Load)? {
                if core.checks {
                    watch_load::<Portable>(thread, core, access, &part)?;
                }
                load(thread.registers, core, access, d, &part);
                if core.checks && access.order.is_strong() {
                    read_flags(thread, core, access, &part);
                }
            }
        }
        Op::Store { access, address, a } => {
            while let Some(part) = parts.next(thread, core, address, access, Kind::Store)? {
                if core.checks {
                    watch_store::<Portable>(thread, core, access, a, &part)?;
                }
                store(thread.registers, core, access, a, &part);
                if core.checks && core.sites[access.site as usize].overlaps {
                    check_equal(thread, core, access, a, &part)?;
                }
            }
        }
        _ => unreachable!("not a load or store"),
    }
    Ok(())
}

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Load,
    Store,
    Atomic,
}

/// The lanes of an access that can be handled at once: in one state space, and in one allocation.
#[derive(Clone, Copy)]
pub(super) struct Part {
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
    pub(super) fn place(&self, delta: i32, lane: usize) -> u64 {
        (self.host as i64 + i64::from(delta)) as u64 + self.stride * lane as u64
    }
}

/// The parts of an access, one after the other.
pub(super) struct Parts {
    left: u32,
    /// Spaces that were counted as a request.
    counted: [bool; 5],
}

impl Parts {
    #[inline(always)]
    pub(super) fn new(mask: u32) -> Parts {
        Parts {
            left: mask,
            counted: [false; 5],
        }
    }

    /// The next part, checked and counted. The site of the access knows its pattern then.
    pub(super) fn next(
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
        let bytes = u64::from(access.ty.bytes()) * u64::from(access.count);
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
            mask = site.learn(mask, bytes as u32, |lane| {
                lane_address(registers, address, lane)
            });
        }
        let first = lane_address(registers, address, lane);
        let mut part = Part {
            space,
            mask,
            first: first.wrapping_sub(if address.space == MemorySpace::Generic {
                spaces::window(space)
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
fn lane_address(registers: &Registers, address: &Address, lane: usize) -> u64 {
    if address.wide {
        registers.read::<u64>(address.base)[lane].wrapping_add(address.offset as u64)
    } else {
        u64::from(registers.read::<u32>(address.base)[lane].wrapping_add(address.offset as u32))
    }
}

/// The space of the first lane's generic address, and the lanes of `mask` that are in it.
fn lanes_of_one_space(registers: &Registers, address: &Address, mask: u32) -> (MemorySpace, u32) {
    let of = |lane| spaces::of(lane_address(registers, address, lane));
    let space = of(mask.trailing_zeros() as usize & 31);
    let here = lanes(mask).fold(0, |here, lane| here | u32::from(of(lane) == space) << lane);
    (space, here)
}

/// Finds the part in host memory, after checking bounds and alignment of all its lanes.
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
        MemorySpace::Shared => (0, core.shared.len() as u64),
        MemorySpace::Local => (0, u64::from(thread.local_bytes)),
        MemorySpace::Param if kind == Kind::Load => (0, core.params.len() as u64),
        MemorySpace::Param => (0, 0),
    };
    // As i128 nothing wraps: addresses are 64 bits, deltas 31.
    let low = i128::from(part.first) + i128::from(site.low);
    let high = i128::from(part.first) + i128::from(site.high) + i128::from(bytes);
    let fits =
        low >= i128::from(start) && high <= i128::from(end) && site.is_aligned(part.first, bytes);
    if !fits
        && (part.space != MemorySpace::Global || !find(part, thread, core, address, access, bytes))
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
    bytes: u64,
) -> bool {
    let site = &mut core.sites[access.site as usize];
    let mut ranges = Vec::new();
    for lane in lanes(part.mask) {
        let at = part
            .first
            .wrapping_add_signed(i64::from(site.deltas.0[lane]));
        match core.map.containing(at) {
            Some(a) if a.live && at + bytes <= a.end() && at.is_multiple_of(bytes) => {
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
        site.learn(part.mask, bytes as u32, |lane| {
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
    let size = match part.space {
        MemorySpace::Generic | MemorySpace::Global => None,
        MemorySpace::Shared => Some(core.shared.len() as u64),
        MemorySpace::Local => Some(u64::from(thread.local_bytes)),
        MemorySpace::Param => Some(if write { 0 } else { core.params.len() as u64 }),
    };
    let deltas = core.sites[access.site as usize].deltas.0;
    for lane in lanes(part.mask) {
        let at = part.first.wrapping_add_signed(i64::from(deltas[lane]));
        let end = at.checked_add(bytes);
        let aligned = at & (bytes - 1) == 0;
        let mistake: fn(BadAccess) -> FaultKind = match size {
            Some(size) if end.is_none_or(|end| end > size) => FaultKind::OutOfBounds,
            Some(_) if aligned => continue,
            Some(_) => FaultKind::Misaligned,
            None => match core.map.containing(at) {
                Some(a) if !a.live => FaultKind::UseAfterFree,
                Some(a) if end.is_some_and(|end| end <= a.end()) && aligned => continue,
                Some(a) if end.is_some_and(|end| end <= a.end()) => FaultKind::Misaligned,
                _ => FaultKind::OutOfBounds,
            },
        };
        let bad = bad_access(core, thread, part.space, write, at, bytes);
        return Mistake::new(mistake(bad), lane as u32);
    }
    unreachable!("an access was refused, but every lane of it is fine")
}

fn bad_access(
    core: &Core<'_>,
    thread: &Thread<'_>,
    space: MemorySpace,
    write: bool,
    address: u64,
    bytes: u64,
) -> BadAccess {
    BadAccess {
        space: spaces::name(space),
        write,
        address,
        bytes: bytes as u32,
        nearest: core.nearest(space, thread.local_bytes, address),
    }
}

/// Counts the traffic of a part.
#[inline(always)]
pub(super) fn count(core: &mut Core<'_>, access: &Access, part: &Part, kind: Kind, request: bool) {
    let bytes = u64::from(access.ty.bytes()) * u64::from(access.count);
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
            let (shadow, marks) = (core.global.shadow, core.global.marks);
            let mut fresh = [0, 0];
            site.for_each_span(part.first, bytes, |start, bytes| {
                if kind != Kind::Store {
                    fresh[0] += shadow.touch(marks, start, bytes, false);
                }
                if kind != Kind::Load {
                    fresh[1] += shadow.touch(marks, start, bytes, true);
                }
            });
            core.tallies.sectors_read += fresh[0];
            core.tallies.sectors_written += fresh[1];
            &mut traffic.global
        }
    };
    transfers.requests += u64::from(request);
    transfers.lanes += u64::from(part.mask.count_ones());
}

// --- watching -------------------------------------------------------------------------------------------------

fn watched(thread: &Thread<'_>, sync: bool) -> Watched {
    Watched {
        warp: thread.warp,
        pc: thread.pc,
        sync,
    }
}

pub(super) fn watch_load<V: Vectors>(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    access: &Access,
    part: &Part,
) -> Result<(), Trap> {
    let bytes = u64::from(access.ty.bytes()) * u64::from(access.count);
    let who = watched(thread, access.order.is_strong());
    let site = &core.sites[access.site as usize];
    match part.space {
        MemorySpace::Shared if bytes >= 4 => {
            for run in &site.runs {
                let at = part.first.wrapping_add_signed(i64::from(run.start));
                if let Err((i, lane, problem)) = core.watch.read(who, run, (at / 4) as usize) {
                    let at = at + 4 * u64::from(i);
                    return Err(shared_mistake(thread, core, at, false, lane, problem));
                }
            }
        }
        MemorySpace::Generic | MemorySpace::Global if bytes >= 4 => {
            for run in &site.runs {
                let at = part.first.wrapping_add_signed(i64::from(run.start));
                if !core.global.shadow.is_written(at, 4 * u64::from(run.words)) {
                    return Err(unwritten_global(thread, core, part, access, bytes));
                }
                let word = core.global.shadow.word(at);
                if let Err((i, lane, other)) = core.global.read::<V>(who, run, word) {
                    let at = at + 4 * u64::from(i);
                    return Err(global_mistake(thread, core, at, false, lane, other));
                }
            }
        }
        MemorySpace::Param => return Ok(()),
        _ => watch_lanes(thread, core, access, None, part, bytes)?,
    }
    Ok(())
}

pub(super) fn watch_store<V: Vectors>(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    access: &Access,
    a: &[R; 4],
    part: &Part,
) -> Result<(), Trap> {
    let bytes = u64::from(access.ty.bytes()) * u64::from(access.count);
    let who = watched(thread, access.order.is_strong());
    if access.order.is_strong() {
        write_flags(thread, core, access, part);
    }
    let site = &core.sites[access.site as usize];
    match part.space {
        MemorySpace::Shared if bytes >= 4 => {
            for run in &site.runs {
                let at = part.first.wrapping_add_signed(i64::from(run.start));
                let mut same = |i| keeps_word(thread.registers, access, a, part, run, i);
                let word = (at / 4) as usize;
                if let Err((i, lane, problem)) = core.watch.write(who, run, word, &mut same) {
                    let at = at + 4 * u64::from(i);
                    return Err(shared_mistake(thread, core, at, true, lane, problem));
                }
            }
        }
        MemorySpace::Generic | MemorySpace::Global if bytes >= 4 => {
            for run in &site.runs {
                let at = part.first.wrapping_add_signed(i64::from(run.start));
                core.global.shadow.set_written(at, 4 * u64::from(run.words));
                let mut same = |i| keeps_word(thread.registers, access, a, part, run, i);
                let word = core.global.shadow.word(at);
                if let Err((i, lane, other)) = core.global.write::<V>(who, run, word, &mut same) {
                    let at = at + 4 * u64::from(i);
                    return Err(global_mistake(thread, core, at, true, lane, other));
                }
            }
        }
        _ => watch_lanes(thread, core, access, Some(a), part, bytes)?,
    }
    Ok(())
}

/// Watches an atomic operation: a read and a write that do not race with others of their kind.
pub(super) fn watch_atomic(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    access: &Access,
    part: &Part,
) -> Result<(), Trap> {
    let bytes = u64::from(access.ty.bytes());
    write_flags(thread, core, access, part);
    let deltas = core.sites[access.site as usize].deltas.0;
    let who = watched(thread, true);
    for lane in lanes(part.mask) {
        let at = part.first.wrapping_add_signed(i64::from(deltas[lane]));
        watch_bytes(
            thread,
            core,
            who,
            part.space,
            at,
            bytes,
            lane as u32,
            false,
            &mut || false,
        )?;
        watch_bytes(
            thread,
            core,
            who,
            part.space,
            at,
            bytes,
            lane as u32,
            true,
            &mut || false,
        )?;
    }
    Ok(())
}

/// A fence of the warp: orders what it did for its block, and, if it reaches further, for other blocks.
pub(super) fn fence(warp: usize, core: &mut Core<'_>, device: bool) {
    if !core.checks {
        return;
    }
    core.watch.order.fence(warp);
    if device {
        core.global.fence(warp);
    }
}

fn write_flags(thread: &Thread<'_>, core: &mut Core<'_>, access: &Access, part: &Part) {
    if !core.kernel.has_fences {
        return;
    }
    if access.order.releases() {
        fence(thread.warp, core, true);
    }
    for address in flags(core, access, part) {
        core.watch.order.write_flag(thread.warp, address);
        core.global.write_flag(address);
    }
}

pub(super) fn read_flags(thread: &Thread<'_>, core: &mut Core<'_>, access: &Access, part: &Part) {
    if !core.kernel.has_fences {
        return;
    }
    for address in flags(core, access, part) {
        core.watch.order.read_flag(thread.warp, address);
        core.global.read_flag(address);
    }
}

/// The generic addresses of the lanes, each once.
fn flags(core: &Core<'_>, access: &Access, part: &Part) -> Vec<u64> {
    let deltas = &core.sites[access.site as usize].deltas.0;
    let first = part.first + spaces::window(part.space);
    let mut addresses: Vec<u64> = lanes(part.mask)
        .map(|lane| first.wrapping_add_signed(i64::from(deltas[lane])))
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Watches lane by lane: parts of words, and local memory.
#[inline(never)]
fn watch_lanes(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    access: &Access,
    stored: Option<&[R; 4]>,
    part: &Part,
    bytes: u64,
) -> Result<(), Trap> {
    let deltas = core.sites[access.site as usize].deltas.0;
    let who = watched(thread, access.order.is_strong());
    for lane in lanes(part.mask) {
        let at = part.first.wrapping_add_signed(i64::from(deltas[lane]));
        let host = part.place(deltas[lane], lane);
        // Only accesses narrower than a word come here, except in local memory, where nothing races.
        let keeps = stored.map(|a| {
            let value = stored_word(thread.registers, access, a, lane, 0);
            // SAFETY: `place` found the access in bounds.
            let old = unsafe { u8::load(host) };
            bytes == 1 && old == value as u8
        });
        let mut same = || keeps == Some(true);
        let write = stored.is_some();
        watch_bytes(
            thread,
            core,
            who,
            part.space,
            at,
            bytes,
            lane as u32,
            write,
            &mut same,
        )?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // Each says one thing of the access.
fn watch_bytes(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    who: Watched,
    space: MemorySpace,
    at: u64,
    bytes: u64,
    lane: u32,
    write: bool,
    same: &mut dyn FnMut() -> bool,
) -> Result<(), Trap> {
    if space == MemorySpace::Local {
        let start = (u64::from(lane * thread.local_bytes) + at) as usize;
        let written = &mut thread.local_written.as_mut_slice()[start..start + bytes as usize];
        if write {
            written.fill(1);
        } else if written.contains(&0) {
            let bad = bad_access(core, thread, space, false, at, bytes);
            return Err(Mistake::new(FaultKind::UninitialisedRead(bad), lane));
        }
        return Ok(());
    }
    // An access of eight bytes is two words.
    for at in (at..at + bytes).step_by(4) {
        let part = bytes.min(4);
        let mask = ((1u64 << part) - 1) << (at % 4);
        if space == MemorySpace::Shared {
            let word = (at / 4) as usize;
            let result = if write {
                core.watch.write_word(who, word, lane, mask, same)
            } else {
                core.watch.read_word(who, word, lane, false, mask)
            };
            if let Err(problem) = result {
                return Err(shared_mistake(thread, core, at, write, lane, problem));
            }
        } else {
            if write {
                core.global.shadow.set_written(at, part);
            } else if !core.global.shadow.is_written(at, part) {
                let bad = bad_access(core, thread, space, false, at, part);
                return Err(Mistake::new(FaultKind::UninitialisedRead(bad), lane));
            }
            let word = core.global.shadow.word(at);
            let result = if write {
                core.global.write_bytes(who, word, lane, mask, same)
            } else {
                core.global.read_bytes(who, word, lane, mask)
            };
            if let Err(other) = result {
                return Err(global_mistake(thread, core, at, write, lane, other));
            }
        }
    }
    Ok(())
}

/// The word that a store would write at word `i` of a lane.
fn stored_word(registers: &Registers, access: &Access, a: &[R; 4], lane: usize, i: u32) -> u32 {
    if access.ty.bytes() == 8 {
        let value = registers.read::<u64>(a[i as usize / 2])[lane];
        (value >> (32 * (i % 2))) as u32
    } else if access.wide {
        registers.read::<u64>(a[i as usize])[lane] as u32
    } else {
        registers.read::<u32>(a[i as usize])[lane]
    }
}

/// Whether a store leaves word `i` of a run as it is.
fn keeps_word(
    registers: &Registers,
    access: &Access,
    a: &[R; 4],
    part: &Part,
    run: &Run,
    i: u32,
) -> bool {
    let place = (part.host as i64 + i64::from(run.start)) as u64 + 4 * u64::from(i);
    let words = access.ty.bytes() * u32::from(access.count) / 4;
    let value = match run.lanes {
        super::site::RunLanes::Each { .. } => {
            let lane = run.lane_of(i) as usize;
            stored_word(registers, access, a, lane, i % words)
        }
        // Several lanes: whether they agree is looked at after the store.
        super::site::RunLanes::Many => {
            let lane = part.mask.trailing_zeros() as usize & 31;
            if words > 1 {
                return false;
            }
            stored_word(registers, access, a, lane, 0)
        }
    };
    // SAFETY: `place` found the whole access in bounds and aligned.
    unsafe { u32::load(place) == value }
}

/// Lanes of one store that write to the same place must agree on the value.
#[cold]
#[inline(never)]
fn check_equal(
    thread: &Thread<'_>,
    core: &Core<'_>,
    access: &Access,
    a: &[R; 4],
    part: &Part,
) -> Result<(), Trap> {
    let deltas = core.sites[access.site as usize].deltas.0;
    let bytes = access.ty.bytes() * u32::from(access.count);
    for lane in lanes(part.mask) {
        let place = part.place(deltas[lane], lane);
        let kept = (0..bytes.div_ceil(4)).all(|i| {
            let value = stored_word(thread.registers, access, a, lane, i);
            // SAFETY: `place` found the whole access in bounds and aligned.
            unsafe {
                match bytes {
                    1 => u8::load(place) == value as u8,
                    2 => u16::load(place) == value as u16,
                    _ => u32::load(place + 4 * u64::from(i)) == value,
                }
            }
        });
        if !kept && !matches!(part.space, MemorySpace::Local | MemorySpace::Param) {
            let at = part.first.wrapping_add_signed(i64::from(deltas[lane]));
            let winner = lanes(part.mask)
                .filter(|other| deltas[*other] == deltas[lane])
                .last();
            let other = OtherSide {
                pc: thread.pc,
                thread: winner.map(|winner| thread.warp as u32 * 32 + winner as u32),
                block: None,
            };
            return Err(race(
                thread,
                core,
                part.space,
                at,
                true,
                lane as u32,
                other,
                true,
            ));
        }
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn unwritten_global(
    thread: &Thread<'_>,
    core: &Core<'_>,
    part: &Part,
    access: &Access,
    bytes: u64,
) -> Trap {
    let deltas = core.sites[access.site as usize].deltas.0;
    let at = |lane: &usize| part.first.wrapping_add_signed(i64::from(deltas[*lane]));
    let unwritten = |lane: &usize| !core.global.shadow.is_written(at(lane), bytes);
    let lane = lanes(part.mask).find(unwritten).unwrap_or(0);
    let bad = bad_access(core, thread, part.space, false, at(&lane), bytes);
    Mistake::new(FaultKind::UninitialisedRead(bad), lane as u32)
}

#[cold]
#[inline(never)]
fn shared_mistake(
    thread: &Thread<'_>,
    core: &Core<'_>,
    at: u64,
    write: bool,
    lane: u32,
    problem: Problem,
) -> Trap {
    let space = MemorySpace::Shared;
    match problem {
        Problem::Uninitialised => {
            let bad = bad_access(core, thread, space, write, at, 4);
            Mistake::new(FaultKind::UninitialisedRead(bad), lane)
        }
        Problem::Race(other) => race(
            thread,
            core,
            space,
            at,
            write,
            lane,
            OtherSide::from(other),
            other.write,
        ),
    }
}

#[cold]
#[inline(never)]
fn global_mistake(
    thread: &Thread<'_>,
    core: &Core<'_>,
    at: u64,
    write: bool,
    lane: u32,
    other: super::global::Other,
) -> Trap {
    let side = OtherSide {
        pc: other.pc,
        thread: other.thread,
        block: other.block,
    };
    race(
        thread,
        core,
        MemorySpace::Global,
        at,
        write,
        lane,
        side,
        other.write,
    )
}

#[allow(clippy::too_many_arguments)] // Each says one thing of the race.
fn race(
    thread: &Thread<'_>,
    core: &Core<'_>,
    space: MemorySpace,
    at: u64,
    write: bool,
    lane: u32,
    other: OtherSide,
    other_writes: bool,
) -> Trap {
    let kind = FaultKind::Race(Race {
        access: bad_access(core, thread, space, write, at, 4),
        // The rest is filled in where blocks and lines are known.
        other: RaceSide {
            write: other_writes,
            source: None,
            block: None,
            thread: None,
        },
    });
    Box::new(Mistake {
        kind,
        lane,
        other: Some(other),
    })
}

// --- moving ---------------------------------------------------------------------------------------------------

fn load(
    registers: &mut Registers,
    core: &Core<'_>,
    access: &Access,
    d: &[Option<R>; 4],
    part: &Part,
) {
    let deltas = &core.sites[access.site as usize].deltas.0;
    for (i, d) in d.iter().take(usize::from(access.count)).enumerate() {
        let Some(d) = *d else { continue };
        let part = Part {
            host: part.host + i as u64 * u64::from(access.ty.bytes()),
            ..*part
        };
        match (access.ty, access.wide) {
            (Type::U32 | Type::S32 | Type::F32, false) => {
                load_one::<u32, u32>(registers, d, deltas, &part, |x| x)
            }
            (Type::U64 | Type::S64 | Type::F64, _) => {
                load_one::<u64, u64>(registers, d, deltas, &part, |x| x)
            }
            (Type::U8, false) => load_one::<u8, u32>(registers, d, deltas, &part, u32::from),
            (Type::S8, false) => {
                load_one::<u8, u32>(registers, d, deltas, &part, |x| x as i8 as u32)
            }
            (Type::S16, false) => {
                load_one::<u16, u32>(registers, d, deltas, &part, |x| x as i16 as u32)
            }
            (Type::U16 | Type::F16 | Type::Bf16, false) => {
                load_one::<u16, u32>(registers, d, deltas, &part, u32::from)
            }
            (Type::U8, true) => load_one::<u8, u64>(registers, d, deltas, &part, u64::from),
            (Type::S8, true) => {
                load_one::<u8, u64>(registers, d, deltas, &part, |x| x as i8 as u64)
            }
            (Type::S16, true) => {
                load_one::<u16, u64>(registers, d, deltas, &part, |x| x as i16 as u64)
            }
            (Type::U16 | Type::F16 | Type::Bf16, true) => {
                load_one::<u16, u64>(registers, d, deltas, &part, u64::from)
            }
            (Type::S32, true) => {
                load_one::<u32, u64>(registers, d, deltas, &part, |x| x as i32 as u64)
            }
            (Type::U32 | Type::F32, true) => {
                load_one::<u32, u64>(registers, d, deltas, &part, u64::from)
            }
        }
    }
}

fn load_one<T: Word, D: Raw>(
    registers: &mut Registers,
    d: R,
    deltas: &[i32; 32],
    part: &Part,
    extend: impl Fn(T) -> D,
) {
    let mut out = [D::default(); 32];
    for lane in lanes(part.mask) {
        // SAFETY: `place` found all lanes in bounds and aligned.
        out[lane] = extend(unsafe { T::load(part.place(deltas[lane], lane)) });
    }
    registers.write(d, part.mask, &out);
}

fn store(registers: &Registers, core: &Core<'_>, access: &Access, a: &[R; 4], part: &Part) {
    let deltas = &core.sites[access.site as usize].deltas.0;
    for (i, a) in a.iter().take(usize::from(access.count)).enumerate() {
        let part = Part {
            host: part.host + i as u64 * u64::from(access.ty.bytes()),
            ..*part
        };
        match (access.ty.bytes(), access.wide) {
            (1, false) => store_one::<u8, u32>(registers, *a, deltas, &part, |x| x as u8),
            (2, false) => store_one::<u16, u32>(registers, *a, deltas, &part, |x| x as u16),
            (4, false) => store_one::<u32, u32>(registers, *a, deltas, &part, |x| x),
            (1, true) => store_one::<u8, u64>(registers, *a, deltas, &part, |x| x as u8),
            (2, true) => store_one::<u16, u64>(registers, *a, deltas, &part, |x| x as u16),
            (4, true) => store_one::<u32, u64>(registers, *a, deltas, &part, |x| x as u32),
            _ => store_one::<u64, u64>(registers, *a, deltas, &part, |x| x),
        }
    }
}

fn store_one<T: Word, S: Raw>(
    registers: &Registers,
    a: R,
    deltas: &[i32; 32],
    part: &Part,
    narrow: impl Fn(S) -> T,
) {
    let values: &[S; 32] = registers.read(a);
    for lane in lanes(part.mask) {
        // SAFETY: `place` found all lanes in bounds and aligned.
        unsafe { narrow(values[lane]).store(part.place(deltas[lane], lane)) };
    }
}

/// A word of memory, accessed atomically: other blocks may access device memory at the same time.
pub(super) trait Word: Copy {
    /// # Safety
    /// The host address is valid for reads, and aligned.
    unsafe fn load(address: u64) -> Self;
    /// # Safety
    /// The host address is valid for writes, and aligned.
    unsafe fn store(self, address: u64);
}

macro_rules! word {
    ($($ty:ident, $atomic:ident;)*) => {$(
        impl Word for $ty {
            #[inline(always)]
            unsafe fn load(address: u64) -> Self {
                // SAFETY: promised by the caller.
                unsafe { $atomic::from_ptr(address as *mut $ty).load(Relaxed) }
            }
            #[inline(always)]
            unsafe fn store(self, address: u64) {
                // SAFETY: promised by the caller.
                unsafe { $atomic::from_ptr(address as *mut $ty).store(self, Relaxed) }
            }
        }
    )*};
}

word! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// A zero-terminated text at a generic address of one lane, for messages: at most 4096 bytes.
pub(super) fn text(thread: &Thread<'_>, core: &Core<'_>, address: u64, lane: u32) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < 4096 {
        match byte(thread, core, address.wrapping_add(bytes.len() as u64), lane) {
            None | Some(0) => break,
            Some(byte) => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One byte at a generic address, or `None` outside memory.
pub(super) fn byte(thread: &Thread<'_>, core: &Core<'_>, address: u64, lane: u32) -> Option<u8> {
    let space = spaces::of(address);
    let within = address.wrapping_sub(spaces::window(space));
    let at = usize::try_from(within).ok()?;
    match space {
        MemorySpace::Shared => core.shared.as_slice().get(at).copied(),
        MemorySpace::Local if within < u64::from(thread.local_bytes) => thread
            .local
            .as_slice()
            .get(at + (lane * thread.local_bytes) as usize)
            .copied(),
        MemorySpace::Local => None,
        MemorySpace::Param => core.params.as_slice().get(at).copied(),
        MemorySpace::Generic | MemorySpace::Global => {
            let live = core.map.containing(address).is_some_and(|a| a.live);
            // SAFETY: the byte lies in a live allocation.
            live.then(|| unsafe { u8::load(address) })
        }
    }
}
