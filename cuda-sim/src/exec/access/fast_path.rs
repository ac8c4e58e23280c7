//! The most frequent accesses by themselves: loads and stores of one word per lane, in shared or device memory, with
//! the pattern that the instruction had before. Everything else goes the long way, through [`crate::exec::access::load_store`].

use crate::exec::access::load_store::{self, Word};
use crate::exec::access::locate::{self, Kind, Part};
use crate::exec::access::pattern::{Shape, Site};
use crate::exec::checks::accesses;
use crate::exec::host_simd::Vectors;
use crate::exec::host_thread::{Core, Thread, Trap};
use crate::exec::registers::lanes;
use crate::program::op::{Address, MemorySpace, Op, R};

/// Loads a word of shared memory.
#[inline(always)]
pub(crate) fn load_shared<V: Vectors>(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Load { access, address, d } = op else {
        unreachable!("not a load")
    };
    let limits = |site: &Site| site.shared;
    let Some(first) = locate::<V>(thread, &mut core.sites, access.site, address, limits, 4) else {
        return load_store::execute(thread, core, op);
    };
    let site = &core.sites[access.site as usize];
    core.tallies.traffic[access.site as usize].shared += &site.shared_cost;
    let known = !core.checks
        || core
            .watch
            .read_quickly::<V>(thread.warp, thread.pc, site, access.site, first);
    if !known {
        let host = core.shared.pointer() as u64 + first;
        let part = part(thread, MemorySpace::Shared, first, host);
        core.watch.record_reads::<V>(&core.sites);
        accesses::watch_load::<V>(thread, core, access, &part)?;
    }
    let Some(d) = d[0] else { return Ok(()) };
    let site = &core.sites[access.site as usize];
    let host = core.shared.pointer() as u64 + first;
    // SAFETY: `locate` found all lanes in bounds and aligned; the handlers of an instruction set run only where it is
    // there. Shared memory belongs to this host thread.
    let words = unsafe {
        match site.shape {
            Shape::Row => V::load_row(host),
            Shape::Same => [*(host as *const u32); 32],
            Shape::Halves([false, false]) => {
                let high = host.wrapping_add_signed(i64::from(site.deltas.0[16]));
                let halves = [*(host as *const u32), *(high as *const u32)];
                std::array::from_fn(|lane| halves[lane / 16])
            }
            Shape::Halves([true, true]) => {
                let high = host.wrapping_add_signed(i64::from(site.deltas.0[16]));
                V::load_halves(host, high)
            }
            Shape::Halves(_) | Shape::Any => gather(host, &site.deltas.0),
        }
    };
    thread.registers.write(d, thread.mask, &words);
    Ok(())
}

/// Stores a word to shared memory.
#[inline(always)]
pub(crate) fn store_shared<V: Vectors>(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Store { access, address, a } = op else {
        unreachable!("not a store")
    };
    let limits = |site: &Site| site.shared;
    let located = locate::<V>(thread, &mut core.sites, access.site, address, limits, 4);
    let site = &core.sites[access.site as usize];
    let first = match located {
        Some(first) if !site.overlaps => first,
        _ => return load_store::execute(thread, core, op),
    };
    core.tallies.traffic[access.site as usize].shared += &site.shared_cost;
    core.global.changed = true;
    let host = core.shared.pointer() as u64 + first;
    if core.checks {
        core.watch.record_reads::<V>(&core.sites);
        for run in &site.runs {
            let at = first.wrapping_add_signed(i64::from(run.start)) as usize / 4;
            if !core
                .watch
                .write_quickly::<V>(thread.warp, thread.pc, run, at)
            {
                let part = part(thread, MemorySpace::Shared, first, host);
                accesses::watch_store::<V>(thread, core, access, a, &part)?;
                break;
            }
        }
    }
    store_words::<V>(thread, &core.sites[access.site as usize], host, a[0]);
    Ok(())
}

/// Loads a word of device memory.
#[inline(always)]
pub(crate) fn load_global<V: Vectors>(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Load { access, address, d } = op else {
        unreachable!("not a load")
    };
    let range = |site: &Site| site.range;
    let Some(first) = locate::<V>(thread, &mut core.sites, access.site, address, range, 4) else {
        return load_store::execute(thread, core, op);
    };
    let site = &core.sites[access.site as usize];
    let known = core.checks && core.global.has_read::<V>(thread.warp, site, first);
    if known {
        let site = &mut core.sites[access.site as usize];
        let traffic = &mut core.tallies.traffic[access.site as usize].global;
        traffic.requests += 1;
        traffic.lanes += u64::from(thread.mask.count_ones());
        traffic.units += site.sectors(first);
        traffic.ideal += site.lines;
    } else {
        let part = part(thread, MemorySpace::Global, first, first);
        locate::count(core, access, &part, Kind::Load, true);
        if core.checks {
            accesses::watch_load::<V>(thread, core, access, &part)?;
        }
    }
    let Some(d) = d[0] else { return Ok(()) };
    let site = &core.sites[access.site as usize];
    // SAFETY: `locate` found all lanes in bounds and aligned; the handlers of an instruction set run only where it is
    // there.
    let words = unsafe {
        match site.shape {
            Shape::Row => V::load_row(first),
            Shape::Same => [u32::load(first); 32],
            Shape::Halves(_) | Shape::Any => gather(first, &site.deltas.0),
        }
    };
    thread.registers.write(d, thread.mask, &words);
    Ok(())
}

/// Stores a word to device memory.
#[inline(always)]
pub(crate) fn store_global<V: Vectors>(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Store { access, address, a } = op else {
        unreachable!("not a store")
    };
    let range = |site: &Site| site.range;
    let located = locate::<V>(thread, &mut core.sites, access.site, address, range, 4);
    let first = match located {
        Some(first) if !core.sites[access.site as usize].overlaps => first,
        _ => return load_store::execute(thread, core, op),
    };
    let part = part(thread, MemorySpace::Global, first, first);
    locate::count(core, access, &part, Kind::Store, true);
    if core.checks {
        accesses::watch_store::<V>(thread, core, access, a, &part)?;
    }
    let site = &core.sites[access.site as usize];
    store_words::<V>(thread, site, first, a[0]);
    Ok(())
}

/// Loads a kernel parameter: one word or two for all lanes.
#[inline(always)]
pub(crate) fn load_param<V: Vectors>(
    thread: &mut Thread<'_>,
    core: &mut Core<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Load { access, address, d } = op else {
        unreachable!("not a load")
    };
    let (bytes, all) = (u64::from(access.ty.bytes()), (0, core.params.len() as u64));
    let wide = access.ty.is_wide();
    let simple = access.count == 1 && (access.is_plain_word() || wide);
    let located = locate::<V>(
        thread,
        &mut core.sites,
        access.site,
        address,
        |_| all,
        bytes,
    );
    let site = &core.sites[access.site as usize];
    let first = match located {
        Some(first) if simple && site.low == site.high => first,
        _ => return load_store::execute(thread, core, op),
    };
    let Some(d) = d[0] else { return Ok(()) };
    let place = core.params.as_slice().as_ptr() as u64 + first;
    if wide {
        // SAFETY: `locate` found the parameter in bounds and aligned.
        let value = unsafe { u64::load(place) };
        thread.registers.write(d, thread.mask, &[value; 32]);
    } else {
        // SAFETY: as above.
        let value = unsafe { u32::load(place) };
        thread.registers.write(d, thread.mask, &[value; 32]);
    }
    Ok(())
}

/// The first lane's address, if the access has the pattern that its site knows and all of it lies within `limits`, aligned.
#[inline(always)]
fn locate<V: Vectors>(
    thread: &Thread<'_>,
    sites: &mut [Site],
    number: u32,
    address: &Address,
    limits: impl Fn(&Site) -> (u64, u64),
    bytes: u64,
) -> Option<u64> {
    let site = &sites[number as usize];
    let lane = site.first_lane();
    let first = if address.wide {
        thread.registers.read::<u64>(address.base)[lane].wrapping_add(address.offset as u64)
    } else {
        let base = thread.registers.read::<u32>(address.base)[lane];
        u64::from(base.wrapping_add(address.offset as u32))
    };
    let (start, end) = limits(site);
    // No address of ours has the top bits, and without them nothing wraps.
    let inside = first >> 48 == 0
        && first as i64 + site.low >= start as i64
        && first as i64 + site.high + bytes as i64 <= end as i64;
    let good = inside && site.is_aligned(first, bytes);
    (good && is_known::<V>(thread, sites, number, address)).then_some(first)
}

/// Whether the lanes are those of the pattern that the site knows, and lie at its distances.
#[inline(always)]
fn is_known<V: Vectors>(
    thread: &Thread<'_>,
    sites: &mut [Site],
    number: u32,
    address: &Address,
) -> bool {
    let site = &sites[number as usize];
    // The leader has just met the base register and the lanes that are there now. If it did not learn anything since
    // its pattern was this one's, it still is.
    let leader = site.leader.map(|leader| &sites[leader as usize]);
    if leader.is_some_and(|leader| leader.generation == site.confirmed) {
        return true;
    }
    let lane = site.first_lane();
    let differ = if address.wide {
        let base: &[u64; 32] = thread.registers.read(address.base);
        // SAFETY: the handlers of an instruction set run only where it is there.
        unsafe { V::differ(base, base[lane], &site.deltas.0) }
    } else {
        let base: &[u32; 32] = thread.registers.read(address.base);
        // SAFETY: as above.
        unsafe { V::differ_narrow(base, base[lane], &site.deltas.0) }
    };
    let known = site.mask == thread.mask && differ & thread.mask == 0;
    if known
        && let Some(leader) = leader
        && leader.mask == thread.mask
    {
        let generation = leader.generation;
        sites[number as usize].confirmed = generation;
    }
    known
}

#[inline(always)]
fn store_words<V: Vectors>(thread: &Thread<'_>, site: &Site, host: u64, a: R) {
    let words: &[u32; 32] = thread.registers.read(a);
    if site.shape == Shape::Row {
        // SAFETY: `locate` found all lanes in bounds and aligned; the handlers of an instruction set run only where it
        // is there.
        return unsafe { V::store_row(host, words) };
    }
    for lane in lanes(thread.mask) {
        let place = host.wrapping_add_signed(i64::from(site.deltas.0[lane]));
        // SAFETY: as above.
        unsafe { words[lane].store(place) };
    }
}

/// The words at `base + deltas`.
///
/// # Safety
/// The words are readable and aligned.
#[inline(always)]
unsafe fn gather(base: u64, deltas: &[i32; 32]) -> [u32; 32] {
    // SAFETY: promised by the caller.
    deltas.map(|delta| unsafe { u32::load(base.wrapping_add_signed(i64::from(delta))) })
}

fn part(thread: &Thread<'_>, space: MemorySpace, first: u64, host: u64) -> Part {
    Part {
        space,
        mask: thread.mask,
        first,
        host,
        stride: 0,
    }
}
