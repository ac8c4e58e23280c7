//! Atomic operations on device and shared memory, lane by lane in lane order.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::exec::active_warp::ActiveWarp;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::locate::AccessParts;
use crate::exec::operations::rounding::Float;
use crate::program::op::{AccessKind, Atomic, MemorySpace, Op, Type};

/// Runs an atomic operation.
pub(crate) fn execute(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    op: &Op,
) -> Result<(), Trap> {
    let Op::Atomic {
        op,
        access,
        address,
        d,
        b,
        c,
    } = *op
    else {
        unreachable!("not an atomic operation")
    };
    let ty = access.ty;
    let [b, c] = [b, c].map(|r| warp.registers.read_either(r, access.wide));
    let mut old = [0u64; 32];
    let mut changed = false;
    let mut parts = AccessParts::new(warp.mask);
    while let Some(part) = parts.next(warp, worker, &address, &access, AccessKind::Atomic)? {
        if worker.checks.enabled {
            let (checks, checked) = worker.checked(&access, &part);
            checks.atomic(warp, checked)?;
        }
        // PTX: additions of f32 flush subnormals in device memory, not in shared memory.
        let ftz = part.space == MemorySpace::Global;
        let deltas = &worker.patterns[access.site as usize].deltas.0;
        for lane in lanes(part.mask) {
            let place = part.place(deltas[lane], lane);
            // SAFETY: `AccessParts::next` found the address in bounds and aligned.
            old[lane] = unsafe { apply(op, ty, ftz, place, b[lane], c[lane]) };
            changed = changed || new_value(op, ty, ftz, old[lane], b[lane], c[lane]) != old[lane];
        }
        if worker.checks.enabled {
            let (checks, checked) = worker.checked(&access, &part);
            checks.read_flags(warp, checked);
        }
    }
    worker.changed |= changed;
    if let Some(d) = d {
        let (registers, mask) = (&mut *warp.registers, warp.mask);
        registers.write_either(d, access.wide, mask, &old);
    }
    Ok(())
}

/// Applies `op` at a host address and returns the old value.
///
/// # Safety
/// `place` is valid for reads and writes of `ty`, and aligned.
unsafe fn apply(op: Atomic, ty: Type, ftz: bool, place: u64, b: u64, c: u64) -> u64 {
    // SAFETY: promised by the caller, for the width of the type.
    unsafe {
        match ty.bytes() {
            2 => u64::from(update16(
                AtomicU16::from_ptr(place as *mut u16),
                b as u16,
                c as u16,
            )),
            4 => {
                let update = |old: u32| new_value(op, ty, ftz, u64::from(old), b, c) as u32;
                u64::from(
                    AtomicU32::from_ptr(place as *mut u32)
                        .fetch_update(Relaxed, Relaxed, |old| Some(update(old)))
                        .unwrap_or(0),
                )
            }
            _ => AtomicU64::from_ptr(place as *mut u64)
                .fetch_update(Relaxed, Relaxed, |old| {
                    Some(new_value(op, ty, ftz, old, b, c))
                })
                .unwrap_or(0),
        }
    }
}

/// 16-bit words know only compare-and-swap.
fn update16(word: &AtomicU16, b: u16, c: u16) -> u16 {
    word.compare_exchange(b, c, Relaxed, Relaxed)
        .unwrap_or_else(|old| old)
}

fn new_value(op: Atomic, ty: Type, ftz: bool, old: u64, b: u64, c: u64) -> u64 {
    match (op, ty) {
        (Atomic::Add, Type::F32) => {
            let [old, b] = [old, b].map(|x| f32::from_bits(x as u32).flushed(ftz));
            u64::from((old + b).flushed(ftz).to_bits())
        }
        (Atomic::Add, Type::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        (Atomic::Add, _) => old.wrapping_add(b),
        (Atomic::Min, Type::S32) => (old as i32).min(b as i32) as u64,
        (Atomic::Max, Type::S32) => (old as i32).max(b as i32) as u64,
        (Atomic::Min, Type::S64) => (old as i64).min(b as i64) as u64,
        (Atomic::Max, Type::S64) => (old as i64).max(b as i64) as u64,
        (Atomic::Min, _) => old.min(b),
        (Atomic::Max, _) => old.max(b),
        (Atomic::And, _) => old & b,
        (Atomic::Or, _) => old | b,
        (Atomic::Xor, _) => old ^ b,
        (Atomic::Exchange, _) => b,
        (Atomic::CompareSwap, _) => {
            if old == b {
                c
            } else {
                old
            }
        }
        (Atomic::Increment, _) => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        (Atomic::Decrement, _) => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    }
}
