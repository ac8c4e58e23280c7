//! Short way of the most frequent accesses: loads and stores of a word per lane, or of a vector of
//! words, in shared or device memory, with the address pattern that the instruction had before.
//! Everything else goes through [`super::load_store`].

use crate::exec::access::part::AccessPart;
use crate::exec::access::pattern::{AccessPattern, Shape};
use crate::exec::access::word::Word;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::host_simd::HostSimd;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::load_store;
use crate::program::op::{Access, AccessKind, Address, MemorySpace, Op, R};

/// Loads words of shared memory.
#[inline(always)]
pub(crate) fn load_shared<V: HostSimd>(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Load { access, address, d } = op else {
        unreachable!("not a load")
    };
    let limits = |pattern: &AccessPattern| pattern.shared;
    let Some(first) = locate::<V>(warp, &mut worker.patterns, access, address, limits) else {
        return load_store::execute(warp, worker, op);
    };
    let pattern = &worker.patterns[access.site as usize];
    worker.counters.count_shared_words(pattern, access);
    let known = !worker.checks.enabled
        || worker
            .checks
            .shared
            .note_read(warp.number, warp.pc, pattern, access.site, first);
    if !known {
        let host = worker.memory.shared.pointer() as u64 + first;
        let part = part(warp, MemorySpace::Shared, first, host);
        worker.record_shared_reads();
        let (checks, checked) = worker.checked(access, &part);
        checks.load(warp, checked)?;
    }
    let pattern = &worker.patterns[access.site as usize];
    let host = worker.memory.shared.pointer() as u64 + first;
    if access.count > 1 {
        load_vectors::<V>(warp, pattern, host, access, d);
        return Ok(());
    }
    let Some(d) = d[0] else { return Ok(()) };
    // SAFETY: `locate` found all lanes in bounds and aligned; the handlers of an instruction set
    // run only where it is there. Shared memory belongs to this host warp.
    let words = unsafe {
        match pattern.shape {
            Shape::Row => {
                V::move_row(host, warp.registers.row(d));
                return Ok(());
            }
            Shape::Same => [*(host as *const u32); 32],
            Shape::Halves([false, false]) => {
                let high = host.wrapping_add_signed(i64::from(pattern.deltas.0[16]));
                let halves = [*(host as *const u32), *(high as *const u32)];
                std::array::from_fn(|lane| halves[lane / 16])
            }
            Shape::Halves([true, true]) => {
                let high = host.wrapping_add_signed(i64::from(pattern.deltas.0[16]));
                V::load_halves(host, high)
            }
            Shape::Halves(_) | Shape::Any => gather(host, &pattern.deltas.0),
        }
    };
    warp.registers.write(d, warp.mask, &words);
    Ok(())
}

/// Stores words to shared memory.
#[inline(always)]
pub(crate) fn store_shared<V: HostSimd>(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Store { access, address, a } = op else {
        unreachable!("not a store")
    };
    let limits = |pattern: &AccessPattern| pattern.shared;
    let located = locate::<V>(warp, &mut worker.patterns, access, address, limits);
    let pattern = &worker.patterns[access.site as usize];
    let first = match located {
        Some(first) if !pattern.overlaps => first,
        _ => return load_store::execute(warp, worker, op),
    };
    worker.counters.count_shared_words(pattern, access);
    worker.changed = true;
    let host = worker.memory.shared.pointer() as u64 + first;
    if worker.checks.enabled {
        worker.record_shared_reads();
        // No closure: it would be compiled without the instruction set.
        let mut recorded = true;
        for run in &worker.patterns[access.site as usize].runs {
            let at = first.wrapping_add_signed(i64::from(run.start)) as usize / 4;
            let shared = &mut worker.checks.shared;
            recorded = shared.record_write(warp.number, warp.pc, run, at);
            if !recorded {
                break;
            }
        }
        if !recorded {
            let part = part(warp, MemorySpace::Shared, first, host);
            let (checks, checked) = worker.checked(access, &part);
            checks.store(warp, checked, a)?;
        }
    }
    let pattern = &worker.patterns[access.site as usize];
    store_words::<V>(warp, pattern, host, access, a);
    Ok(())
}

/// Loads words of device memory.
#[inline(always)]
pub(crate) fn load_global<V: HostSimd>(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Load { access, address, d } = op else {
        unreachable!("not a load")
    };
    let range = |pattern: &AccessPattern| pattern.range;
    let Some(first) = locate::<V>(warp, &mut worker.patterns, access, address, range) else {
        return load_store::execute(warp, worker, op);
    };
    let pattern = &worker.patterns[access.site as usize];
    let known = worker.checks.enabled && worker.checks.device.has_read(warp.number, pattern, first);
    let pattern = &mut worker.patterns[access.site as usize];
    if known {
        worker.counters.count_repeated_load(pattern, access, first);
    } else {
        let part = part(warp, MemorySpace::Global, first, first);
        worker
            .counters
            .count(pattern, access, &part, AccessKind::Load, true);
        if worker.checks.enabled {
            let (checks, checked) = worker.checked(access, &part);
            checks.load(warp, checked)?;
        }
    }
    let pattern = &worker.patterns[access.site as usize];
    if access.count > 1 {
        load_vectors::<V>(warp, pattern, first, access, d);
        return Ok(());
    }
    let Some(d) = d[0] else { return Ok(()) };
    // SAFETY: `locate` found all lanes in bounds and aligned; the handlers of an instruction set
    // run only where it is there.
    let words = unsafe {
        match pattern.shape {
            Shape::Row => {
                V::move_row(first, warp.registers.row(d));
                return Ok(());
            }
            Shape::Same => [u32::load(first); 32],
            Shape::Halves(_) | Shape::Any => gather(first, &pattern.deltas.0),
        }
    };
    warp.registers.write(d, warp.mask, &words);
    Ok(())
}

/// Stores words to device memory.
#[inline(always)]
pub(crate) fn store_global<V: HostSimd>(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Store { access, address, a } = op else {
        unreachable!("not a store")
    };
    let range = |pattern: &AccessPattern| pattern.range;
    let located = locate::<V>(warp, &mut worker.patterns, access, address, range);
    let first = match located {
        Some(first) if !worker.patterns[access.site as usize].overlaps => first,
        _ => return load_store::execute(warp, worker, op),
    };
    let part = part(warp, MemorySpace::Global, first, first);
    worker.changed = true;
    let pattern = &mut worker.patterns[access.site as usize];
    worker
        .counters
        .count(pattern, access, &part, AccessKind::Store, true);
    if worker.checks.enabled {
        let (checks, checked) = worker.checked(access, &part);
        checks.store(warp, checked, a)?;
    }
    let pattern = &worker.patterns[access.site as usize];
    store_words::<V>(warp, pattern, first, access, a);
    Ok(())
}

/// Loads a kernel parameter: one word or two for all lanes.
#[inline(always)]
pub(crate) fn load_param<V: HostSimd>(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Load { access, address, d } = op else {
        unreachable!("not a load")
    };
    let all = (0, worker.memory.params.len() as u64);
    let wide = access.ty.is_wide();
    let simple = access.count == 1 && (access.is_plain_words() || wide);
    let located = locate::<V>(warp, &mut worker.patterns, access, address, |_| all);
    let pattern = &worker.patterns[access.site as usize];
    let first = match located {
        Some(first) if simple && pattern.low == pattern.high => first,
        _ => return load_store::execute(warp, worker, op),
    };
    let Some(d) = d[0] else { return Ok(()) };
    let place = worker.memory.params.as_slice().as_ptr() as u64 + first;
    if wide {
        // SAFETY: `locate` found the parameter in bounds and aligned.
        let value = unsafe { u64::load(place) };
        warp.registers.write(d, warp.mask, &[value; 32]);
    } else {
        // SAFETY: as above.
        let value = unsafe { u32::load(place) };
        warp.registers.write(d, warp.mask, &[value; 32]);
    }
    Ok(())
}

/// The first lane's address, if the access has its known pattern and lies aligned within `limits`.
#[inline(always)]
fn locate<V: HostSimd>(
    warp: &ActiveWarp<'_>,
    patterns: &mut [AccessPattern],
    access: &Access,
    address: &Address,
    limits: impl Fn(&AccessPattern) -> (u64, u64),
) -> Option<u64> {
    let bytes = u64::from(access.bytes());
    let pattern = &patterns[access.site as usize];
    let lane = pattern.first_lane();
    let first = if address.wide {
        warp.registers.read::<u64>(address.base)[lane].wrapping_add_signed(address.offset.into())
    } else {
        let base = warp.registers.read::<u32>(address.base)[lane];
        u64::from(base.wrapping_add_signed(address.offset))
    };
    let (start, end) = limits(pattern);
    // Simulated addresses have at most 48 bits, so that no sum below wraps.
    let inside = first >> 48 == 0
        && first as i64 + pattern.low >= start as i64
        && first as i64 + pattern.high + bytes as i64 <= end as i64;
    let good = inside && pattern.is_aligned(first, bytes);
    (good && is_known::<V>(warp, patterns, access.site, address)).then_some(first)
}

/// True if the active lanes are those of the pattern, at its distances.
#[inline(always)]
fn is_known<V: HostSimd>(
    warp: &ActiveWarp<'_>,
    patterns: &mut [AccessPattern],
    number: u32,
    address: &Address,
) -> bool {
    let pattern = &patterns[number as usize];
    // The leader has just compared the same base register and lanes. If it did not learn anything
    // since its pattern was this one's, it still is.
    let leader = pattern.leader.map(|leader| &patterns[leader as usize]);
    if leader.is_some_and(|leader| leader.generation == pattern.confirmed) {
        return true;
    }
    let lane = pattern.first_lane();
    let differ = if address.wide {
        let base: &[u64; 32] = warp.registers.read(address.base);
        // SAFETY: the handlers of an instruction set run only where it is there.
        unsafe { V::differ(base, base[lane], &pattern.deltas.0) }
    } else {
        let base: &[u32; 32] = warp.registers.read(address.base);
        // SAFETY: as above.
        unsafe { V::differ_narrow(base, base[lane], &pattern.deltas.0) }
    };
    let known = pattern.mask == warp.mask && differ & warp.mask == 0;
    if known
        && let Some(leader) = leader
        && leader.mask == warp.mask
    {
        let generation = leader.generation;
        patterns[number as usize].confirmed = generation;
    }
    known
}

#[inline(always)]
fn store_words<V: HostSimd>(
    warp: &mut ActiveWarp<'_>,
    pattern: &AccessPattern,
    host: u64,
    access: &Access,
    a: &[R; 4],
) {
    if pattern.shape == Shape::Row && access.count == 1 {
        // SAFETY: `locate` found all lanes in bounds and aligned; the handlers of an instruction
        // set run only where it is there.
        return unsafe { V::move_row(warp.registers.row(a[0]), host) };
    }
    for (i, a) in (0..).zip(&a[..usize::from(access.count)]) {
        let words: &[u32; 32] = warp.registers.read(*a);
        for lane in lanes(warp.mask) {
            let place = host.wrapping_add_signed(i64::from(pattern.deltas.0[lane])) + 4 * i;
            // SAFETY: as above.
            unsafe { words[lane].store(place) };
        }
    }
}

/// Loads a vector of words per lane, from `base` and the distances of a pattern.
#[inline(always)]
fn load_vectors<V: HostSimd>(
    warp: &mut ActiveWarp<'_>,
    pattern: &AccessPattern,
    base: u64,
    access: &Access,
    d: &[Option<R>; 4],
) {
    let deltas = &pattern.deltas.0;
    // SAFETY: `locate` found all lanes in bounds and aligned to the vector; the handlers of an
    // instruction set run only where it is there.
    unsafe {
        match access.count {
            2 => {
                let second = base + 4;
                write_vectors(warp, d, [gather(base, deltas), gather(second, deltas)]);
            }
            _ => write_vectors(warp, d, V::load_vectors(base, deltas)),
        }
    }
}

#[inline(always)]
fn write_vectors<const N: usize>(
    warp: &mut ActiveWarp<'_>,
    d: &[Option<R>; 4],
    words: [[u32; 32]; N],
) {
    for (d, words) in d.iter().zip(&words) {
        if let Some(d) = *d {
            warp.registers.write(d, warp.mask, words);
        }
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

fn part(warp: &ActiveWarp<'_>, space: MemorySpace, first: u64, host: u64) -> AccessPart {
    AccessPart {
        peer: None,
        space,
        mask: warp.mask,
        first,
        host,
        stride: 0,
    }
}
