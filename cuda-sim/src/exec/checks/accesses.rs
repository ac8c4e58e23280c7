//! Has the watches over shared, device and local memory look at an access, and says what they find.

use crate::exec::access::address_space;
use crate::exec::access::load_store::Word;
use crate::exec::access::locate::{Part, bad_access};
use crate::exec::access::pattern::{Run, Site};
use crate::exec::checks::happens_before::Access as Watched;
use crate::exec::checks::shared_memory::Problem;
use crate::exec::host_simd::Vectors;
use crate::exec::host_thread::{Core, Mistake, OtherSide, Thread, Trap};
use crate::exec::registers::{Registers, lanes};
use crate::fault::{FaultKind, Race, RaceSide};
use crate::program::op::{Access, MemorySpace, R};

pub(crate) fn watched(thread: &Thread<'_>, sync: bool) -> Watched {
    Watched {
        warp: thread.warp,
        pc: thread.pc,
        sync,
    }
}

pub(crate) fn watch_load<V: Vectors>(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    access: &Access,
    part: &Part,
) -> Result<(), Trap> {
    let bytes = u64::from(access.ty.bytes()) * u64::from(access.count);
    let who = watched(thread, access.order.is_sync());
    let site = &core.sites[access.site as usize];
    match part.space {
        MemorySpace::Shared if bytes >= 4 => {
            for run in &site.runs {
                let at = part.first.wrapping_add_signed(i64::from(run.start));
                let word = (at / 4) as usize;
                if let Err((lane, problem)) = core.watch.read(who, site, run, word) {
                    let seen = seen(part, access, site, lane, false);
                    return Err(shared_mistake(thread, core, seen, problem));
                }
            }
        }
        MemorySpace::Generic | MemorySpace::Global if bytes >= 4 => {
            for run in &site.runs {
                let at = part.first.wrapping_add_signed(i64::from(run.start));
                if !core.global.shadow.is_written(at, 4 * u64::from(run.words)) {
                    core.global.doubt();
                    return Err(unwritten_global(thread, core, part, access, bytes));
                }
                let order = &core.watch.order;
                if let Err((lane, other)) = core.global.read::<V>(order, who, site, run, at) {
                    let seen = seen(part, access, site, lane, false);
                    return Err(global_mistake(thread, core, seen, other));
                }
            }
        }
        MemorySpace::Param => return Ok(()),
        _ => watch_lanes(thread, core, access, None, part, bytes)?,
    }
    Ok(())
}

/// As [`watch_load`], for a load of which only some bytes are used: it looks at those.
#[inline(never)]
pub(crate) fn watch_used(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    access: &Access,
    part: &Part,
) -> Result<(), Trap> {
    if part.space == MemorySpace::Param {
        return Ok(());
    }
    let deltas = core.sites[access.site as usize].deltas.0;
    let who = watched(thread, access.order.is_strong());
    for lane in lanes(part.mask) {
        for (start, bytes) in access.used_pieces() {
            let seen = Seen {
                space: part.space,
                at: part.first.wrapping_add_signed(i64::from(deltas[lane])) + start,
                bytes,
                lane: lane as u32,
                sharers: 1 << lane,
                write: false,
            };
            watch_bytes(thread, core, who, seen, &mut || false)?;
        }
    }
    Ok(())
}

pub(crate) fn watch_store<V: Vectors>(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    access: &Access,
    a: &[R; 4],
    part: &Part,
) -> Result<(), Trap> {
    let bytes = u64::from(access.ty.bytes()) * u64::from(access.count);
    let who = watched(thread, access.order.is_sync());
    if access.order.is_strong() {
        write_flags(thread, core, access, part);
    }
    let site = &core.sites[access.site as usize];
    match part.space {
        MemorySpace::Shared if bytes >= 4 => {
            for run in &site.runs {
                let at = part.first.wrapping_add_signed(i64::from(run.start));
                let mut same = |i| keeps_word(thread.registers, access, a, part, site, run, i);
                let word = (at / 4) as usize;
                let result = core.watch.write(who, site, run, word, &mut same);
                if let Err((lane, problem)) = result {
                    let seen = seen(part, access, site, lane, true);
                    return Err(shared_mistake(thread, core, seen, problem));
                }
            }
        }
        MemorySpace::Generic | MemorySpace::Global if bytes >= 4 => {
            for run in &site.runs {
                let at = part.first.wrapping_add_signed(i64::from(run.start));
                let mut same = |i| keeps_word(thread.registers, access, a, part, site, run, i);
                let order = &core.watch.order;
                let result = core.global.write::<V>(order, who, site, run, at, &mut same);
                if let Err((lane, other)) = result {
                    let seen = seen(part, access, site, lane, true);
                    return Err(global_mistake(thread, core, seen, other));
                }
            }
        }
        _ => watch_lanes(thread, core, access, Some(a), part, bytes)?,
    }
    Ok(())
}

/// Watches an atomic operation: a read and a write that do not race with others of their kind.
pub(crate) fn watch_atomic(
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
        let seen = Seen {
            space: part.space,
            at: part.first.wrapping_add_signed(i64::from(deltas[lane])),
            bytes,
            lane: lane as u32,
            sharers: 1 << lane,
            write: false,
        };
        watch_bytes(thread, core, who, seen, &mut || false)?;
        let write = Seen {
            write: true,
            ..seen
        };
        watch_bytes(thread, core, who, write, &mut || false)?;
    }
    Ok(())
}

/// What a lane just stored at the address `at` of a space holds no value: it counts as not written.
pub(crate) fn unwrite(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    space: MemorySpace,
    at: u64,
    lane: usize,
) {
    let (space, at) = match space {
        MemorySpace::Generic => (
            address_space::of(at),
            at - address_space::window(address_space::of(at)),
        ),
        space => (space, at),
    };
    match space {
        MemorySpace::Generic | MemorySpace::Global => core.global.unwrite(at),
        MemorySpace::Shared => core.watch.unwrite(at),
        MemorySpace::Local => {
            let start = lane * thread.local_bytes as usize;
            thread.local_written.as_mut_slice()[start + at as usize] = 0;
        }
        MemorySpace::Param => unreachable!("no store to parameters succeeds"),
    }
}

/// A fence of the warp: orders what it did for its block, and, if it reaches further, for other blocks.
pub(crate) fn fence(warp: usize, core: &mut Core<'_>, device: bool) {
    if !core.checks {
        return;
    }
    core.watch.order.fence(core.global.serial, warp, device);
}

/// An atomic or volatile store is a flag: it passes on what a fence before it has released.
fn write_flags(thread: &Thread<'_>, core: &mut Core<'_>, access: &Access, part: &Part) {
    if !core.kernel.has_fences {
        return;
    }
    if access.order.releases() {
        fence(thread.warp, core, true);
    }
    for address in flags(core, access, part) {
        let released = core.watch.order.write_flag(thread.warp, address);
        if part.space != MemorySpace::Shared {
            core.global.release(released, address);
        }
    }
}

pub(crate) fn read_flags(thread: &Thread<'_>, core: &mut Core<'_>, access: &Access, part: &Part) {
    if !core.kernel.has_fences {
        return;
    }
    for address in flags(core, access, part) {
        let released = match part.space {
            MemorySpace::Shared => None,
            _ => core.global.released(address),
        };
        core.watch.order.read_flag(thread.warp, address, released);
    }
}

/// The generic addresses of the words that the lanes access, each once.
fn flags(core: &Core<'_>, access: &Access, part: &Part) -> Vec<u64> {
    let deltas = &core.sites[access.site as usize].deltas.0;
    let first = part.first + address_space::window(part.space);
    let bytes = u64::from(access.bytes());
    let mut addresses: Vec<u64> = lanes(part.mask)
        .map(|lane| first.wrapping_add_signed(i64::from(deltas[lane])))
        .flat_map(|start| (start & !3..start + bytes).step_by(4))
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
    let who = watched(thread, access.order.is_sync());
    let mut left = part.mask;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        let sharers = match part.space {
            MemorySpace::Local => 1 << lane,
            _ => lanes(left).fold(0, |all, other| {
                all | u32::from(deltas[other] == deltas[lane]) << other
            }),
        };
        left &= !sharers;
        let at = part.first.wrapping_add_signed(i64::from(deltas[lane]));
        let host = part.place(deltas[lane], lane);
        // Only accesses narrower than a word come here, except in local memory, where nothing races.
        let keeps = stored.map(|a| {
            let value = stored_word(thread.registers, access, a, lane, 0);
            // SAFETY: `place` found the access in bounds.
            unsafe {
                match bytes {
                    1 => u8::load(host) == value as u8,
                    2 => u16::load(host) == value as u16,
                    _ => false,
                }
            }
        });
        let seen = Seen {
            space: part.space,
            at,
            bytes,
            lane: lane as u32,
            sharers,
            write: stored.is_some(),
        };
        watch_bytes(thread, core, who, seen, &mut || keeps == Some(true))?;
    }
    Ok(())
}

/// One lane's side of an access.
#[derive(Clone, Copy)]
struct Seen {
    space: MemorySpace,
    at: u64,
    bytes: u64,
    lane: u32,
    /// The lanes that access this place at once.
    sharers: u32,
    write: bool,
}

fn seen(part: &Part, access: &Access, site: &Site, lane: u32, write: bool) -> Seen {
    let delta = site.deltas.0[lane as usize & 31];
    Seen {
        space: part.space,
        at: part.first.wrapping_add_signed(i64::from(delta)),
        bytes: u64::from(access.ty.bytes()) * u64::from(access.count),
        lane,
        sharers: 1 << lane,
        write,
    }
}

fn watch_bytes(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    who: Watched,
    seen: Seen,
    same: &mut dyn FnMut() -> bool,
) -> Result<(), Trap> {
    let Seen {
        space,
        at,
        bytes,
        lane,
        sharers,
        write,
    } = seen;
    let unwritten = |core: &Core<'_>, thread: &Thread<'_>| {
        let bad = bad_access(core, thread, space, false, at, bytes);
        Mistake::new(FaultKind::UninitialisedRead(bad), lane)
    };
    if space == MemorySpace::Local {
        let start = (u64::from(lane * thread.local_bytes) + at) as usize;
        let written = &mut thread.local_written.as_mut_slice()[start..start + bytes as usize];
        if write {
            written.fill(1);
        } else if written.contains(&0) {
            return Err(unwritten(core, thread));
        }
        return Ok(());
    }
    // An access of eight bytes is two words.
    for at in (at..at + bytes).step_by(4) {
        let part = bytes.min(4);
        let mask = ((1u32 << part) - 1) << (at % 4);
        if space == MemorySpace::Shared {
            let word = (at / 4) as usize;
            let result = if write {
                core.watch.write_word(who, word, sharers, mask, same)
            } else {
                core.watch.read_word(who, word, sharers, mask)
            };
            if let Err((_, problem)) = result {
                return Err(shared_mistake(thread, core, seen, problem));
            }
        } else {
            let order = &core.watch.order;
            let result = if write {
                core.global.write_bytes(order, who, sharers, at, mask, same)
            } else if core.global.shadow.is_written(at, part) {
                core.global.read_bytes(order, who, sharers, at, mask)
            } else {
                core.global.doubt();
                return Err(unwritten(core, thread));
            };
            if let Err((_, other)) = result {
                return Err(global_mistake(thread, core, seen, other));
            }
        }
    }
    Ok(())
}

/// The word that a store would write at word `i` of a lane; of a store narrower than a word, its bits.
fn stored_word(registers: &Registers, access: &Access, a: &[R; 4], lane: usize, i: u32) -> u32 {
    let element = |i: u32| match access.wide {
        true => registers.read::<u64>(a[i as usize])[lane],
        false => u64::from(registers.read::<u32>(a[i as usize])[lane]),
    };
    match access.ty.bytes() {
        8 => (element(i / 2) >> (32 * (i % 2))) as u32,
        4 => element(i) as u32,
        bytes => {
            let bits = 8 * bytes;
            let here = (i * (4 / bytes)..u32::from(access.count)).take(4 / bytes as usize);
            here.enumerate().fold(0, |word, (at, i)| {
                let value = element(i) as u32 & (u32::MAX >> (32 - bits));
                word | value << (bits * at as u32)
            })
        }
    }
}

/// Whether a store leaves word `i` of a run as it is. If several lanes write it, whether they agree is looked at after
/// the store.
fn keeps_word(
    registers: &Registers,
    access: &Access,
    a: &[R; 4],
    part: &Part,
    site: &Site,
    run: &Run,
    i: u32,
) -> bool {
    let at = run.start + 4 * i as i32;
    let lane = run.owners.of(i) as usize & 31;
    let word = (at - site.deltas.0[lane]) as u32 / 4;
    let value = stored_word(registers, access, a, lane, word);
    // SAFETY: `place` found the whole access in bounds and aligned.
    unsafe { u32::load((part.host as i64 + i64::from(at)) as u64) == value }
}

/// Lanes of one store that write to the same place must agree on the value.
#[cold]
#[inline(never)]
pub(crate) fn check_equal(
    thread: &Thread<'_>,
    core: &mut Core<'_>,
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
            core.global.doubt();
            let site = &core.sites[access.site as usize];
            let seen = seen(part, access, site, lane as u32, true);
            let winner = lanes(part.mask)
                .filter(|other| deltas[*other] == deltas[lane])
                .last();
            let other = OtherSide {
                pc: thread.pc,
                thread: winner.map(|winner| thread.warp as u32 * 32 + winner as u32),
                block: Some(core.global.number()),
            };
            return Err(race(thread, core, seen, other, true, true));
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
fn shared_mistake(thread: &Thread<'_>, core: &Core<'_>, seen: Seen, problem: Problem) -> Trap {
    match problem {
        Problem::Uninitialised => {
            let bad = bad_access(core, thread, seen.space, seen.write, seen.at, seen.bytes);
            Mistake::new(FaultKind::UninitialisedRead(bad), seen.lane)
        }
        Problem::Race(other) => race(
            thread,
            core,
            seen,
            OtherSide::from(other),
            other.write,
            false,
        ),
    }
}

#[cold]
#[inline(never)]
fn global_mistake(
    thread: &Thread<'_>,
    core: &Core<'_>,
    seen: Seen,
    other: crate::exec::checks::device_memory::Other,
) -> Trap {
    let side = OtherSide {
        pc: other.pc,
        thread: other.thread,
        block: other.block,
    };
    race(thread, core, seen, side, other.write, false)
}

fn race(
    thread: &Thread<'_>,
    core: &Core<'_>,
    seen: Seen,
    other: OtherSide,
    other_writes: bool,
    at_once: bool,
) -> Trap {
    let kind = FaultKind::Race(Race {
        access: bad_access(core, thread, seen.space, seen.write, seen.at, seen.bytes),
        // The rest is filled in where blocks and lines are known.
        other: RaceSide {
            write: other_writes,
            source: None,
            block: None,
            thread: None,
        },
        at_once,
        within_block: seen.space == MemorySpace::Shared
            || other.block == Some(core.global.number()),
    });
    Box::new(Mistake {
        kind,
        lane: seen.lane,
        other: Some(other),
    })
}
