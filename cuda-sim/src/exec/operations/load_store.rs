//! Loads and stores.
//!
//! An access is made in steps: find the place and the address pattern ([`super::locate`]), check
//! that all lanes lie inside what they may touch, count the traffic, check for races and unwritten
//! bytes, and move the values. The most frequent accesses take a shorter way,
//! [`super::word_access`]. Device memory is accessed by relaxed atomics, or by the processor's own
//! vector instructions, so that a kernel with races is not undefined behaviour here; shared and
//! local memory belong to one block, which one host thread runs.

use crate::exec::access::part::AccessPart;
use crate::exec::access::word::Word;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::locate::AccessParts;
use crate::exec::operations::peers::at_part;
use crate::exec::registers::Registers;
use crate::program::op::{Access, AccessKind, MemorySpace, Op, R, Type};

/// Runs a load or store. `warp.mask` is not empty.
pub(crate) fn execute(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let mut parts = AccessParts::new(warp.mask);
    match op {
        Op::Load { access, address, d } => {
            while let Some(part) = parts.next(warp, worker, address, access, AccessKind::Load)? {
                at_part(
                    warp,
                    worker,
                    access,
                    &part,
                    AccessKind::Load,
                    |warp, worker| load_part(warp, worker, access, d, &part),
                )?;
            }
        }
        Op::Store { access, address, a } => {
            while let Some(part) = parts.next(warp, worker, address, access, AccessKind::Store)? {
                at_part(
                    warp,
                    worker,
                    access,
                    &part,
                    AccessKind::Store,
                    |warp, worker| store_part(warp, worker, access, a, &part),
                )?;
            }
        }
        _ => unreachable!("not a load or store"),
    }
    Ok(())
}

/// Checks a part of a load, and makes it.
#[inline(always)]
fn load_part(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    access: &Access,
    d: &[Option<R>; 4],
    part: &AccessPart,
) -> Result<(), Trap> {
    let enabled = worker.checks.enabled;
    if enabled && access.is_partial() {
        let (checks, checked) = worker.checked(access, part);
        checks.load_used(warp, checked)?;
    } else if enabled && !is_on_record(warp, worker, access, part) {
        let (checks, checked) = worker.checked(access, part);
        checks.load(warp, checked)?;
    }
    load(warp.registers, worker, access, d, part);
    if enabled && access.order.is_strong() {
        let (checks, checked) = worker.checked(access, part);
        checks.read_flags(warp, checked);
    }
    Ok(())
}

/// Checks a part of a store, and makes it.
#[inline(always)]
fn store_part(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    access: &Access,
    a: &[R; 4],
    part: &AccessPart,
) -> Result<(), Trap> {
    let enabled = worker.checks.enabled;
    if enabled {
        let (checks, checked) = worker.checked(access, part);
        checks.store(warp, checked, a)?;
    }
    store(warp.registers, worker, access, a, part);
    if enabled && worker.patterns[access.site as usize].overlaps {
        let (checks, checked) = worker.checked(access, part);
        checks.equal_stores(warp, checked, a)?;
    }
    Ok(())
}

/// True if the same threads have read the same words of device memory before, and nothing has
/// changed since.
fn is_on_record(
    warp: &ActiveWarp<'_>,
    worker: &HostThread<'_>,
    access: &Access,
    part: &AccessPart,
) -> bool {
    let pattern = &worker.patterns[access.site as usize];
    matches!(part.space, MemorySpace::Generic | MemorySpace::Global)
        && worker
            .checks
            .device
            .has_read(warp.number, pattern, part.first)
}

fn load(
    registers: &mut Registers,
    worker: &HostThread<'_>,
    access: &Access,
    d: &[Option<R>; 4],
    part: &AccessPart,
) {
    let deltas = &worker.patterns[access.site as usize].deltas.0;
    for (i, d) in d.iter().take(usize::from(access.count)).enumerate() {
        let Some(d) = *d else { continue };
        let part = AccessPart {
            host: part.host + i as u64 * u64::from(access.ty.bytes()),
            ..*part
        };
        if access.is_partial() {
            load_bytes(registers, access, i, d, deltas, &part);
            continue;
        }
        let out = match access.ty {
            Type::U8 => lanes_of::<u8>(deltas, &part, u64::from),
            Type::S8 => lanes_of::<u8>(deltas, &part, |x| x as i8 as u64),
            Type::U16 | Type::F16 | Type::Bf16 => lanes_of::<u16>(deltas, &part, u64::from),
            Type::S16 => lanes_of::<u16>(deltas, &part, |x| x as i16 as u64),
            Type::U32 | Type::F32 => lanes_of::<u32>(deltas, &part, u64::from),
            Type::S32 => lanes_of::<u32>(deltas, &part, |x| x as i32 as u64),
            Type::U64 | Type::S64 | Type::F64 => lanes_of::<u64>(deltas, &part, |x| x),
        };
        registers.write_either(d, access.wide, part.mask, &out);
    }
}

/// Loads the lanes, each extended to 64 bits.
fn lanes_of<T: Word>(
    deltas: &[i32; 32],
    part: &AccessPart,
    extend: impl Fn(T) -> u64,
) -> [u64; 32] {
    let mut out = [0; 32];
    for lane in lanes(part.mask) {
        // SAFETY: `locate` found all lanes in bounds and aligned.
        out[lane] = extend(unsafe { T::load(part.place(deltas[lane], lane)) });
    }
    out
}

/// Loads the used bytes of an element. The others, which nobody looks at, are all ones.
#[inline(never)]
fn load_bytes(
    registers: &mut Registers,
    access: &Access,
    element: usize,
    d: R,
    deltas: &[i32; 32],
    part: &AccessPart,
) {
    let used = access.used_of(element);
    let spare = 64 - 8 * access.ty.bytes();
    let mut out = [0u64; 32];
    for lane in lanes(part.mask) {
        let place = part.place(deltas[lane], lane);
        let mut bytes = [0xff; 8];
        for (i, byte) in bytes.iter_mut().enumerate() {
            if used >> i & 1 != 0 {
                // SAFETY: `locate` found the used bytes of all lanes in bounds.
                *byte = unsafe { u8::load(place + i as u64) };
            }
        }
        let high = u64::from_le_bytes(bytes) << spare;
        out[lane] = match access.ty {
            Type::S8 | Type::S16 | Type::S32 => (high as i64 >> spare) as u64,
            _ => high >> spare,
        };
    }
    registers.write_either(d, access.wide, part.mask, &out);
}

fn store(
    registers: &Registers,
    worker: &HostThread<'_>,
    access: &Access,
    a: &[R; 4],
    part: &AccessPart,
) {
    let deltas = &worker.patterns[access.site as usize].deltas.0;
    for (i, a) in a.iter().take(usize::from(access.count)).enumerate() {
        let part = AccessPart {
            host: part.host + i as u64 * u64::from(access.ty.bytes()),
            ..*part
        };
        let values = registers.read_either(*a, access.wide);
        match access.ty.bytes() {
            1 => store_lanes(&values, deltas, &part, |x| x as u8),
            2 => store_lanes(&values, deltas, &part, |x| x as u16),
            4 => store_lanes(&values, deltas, &part, |x| x as u32),
            _ => store_lanes(&values, deltas, &part, |x| x),
        }
    }
}

fn store_lanes<T: Word>(
    values: &[u64; 32],
    deltas: &[i32; 32],
    part: &AccessPart,
    narrow: impl Fn(u64) -> T,
) {
    for lane in lanes(part.mask) {
        // SAFETY: `locate` found all lanes in bounds and aligned.
        unsafe { narrow(values[lane]).store(part.place(deltas[lane], lane)) };
    }
}
