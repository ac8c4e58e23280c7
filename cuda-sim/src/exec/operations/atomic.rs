//! Atomic operations on device and shared memory, lane by lane in lane order, and of a vector
//! element by element.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::exec::active_warp::ActiveWarp;
use crate::exec::half_float::{BF16, F16, narrow, widen};
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::half::{least, odd_sum};
use crate::exec::operations::locate::AccessParts;
use crate::exec::operations::peers::at_part;
use crate::exec::operations::rounding::Float;
use crate::exec::registers::f32_bits;
use crate::program::op::{AccessKind, Atomic, HalfAtomic, MemorySpace, Op, Type};

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
        returns,
        d,
        a,
    } = *op
    else {
        unreachable!("not an atomic operation")
    };
    let (ty, elements) = (access.ty, usize::from(access.count));
    let values: [[u64; 32]; 4] = std::array::from_fn(|i| match i < op.values(&access) {
        true => warp.registers.read_either(a[i], access.wide),
        false => [0; 32],
    });
    let mut old = [[0u64; 32]; 4];
    let mut changed = false;
    let mut parts = AccessParts::new(warp.mask);
    while let Some(part) = parts.next(warp, worker, &address, &access, AccessKind::Atomic)? {
        at_part(
            warp,
            worker,
            &access,
            &part,
            AccessKind::Atomic,
            |warp, worker| {
                if worker.checks.enabled {
                    let (checks, checked) = worker.checked(&access, &part);
                    checks.atomic(warp, checked)?;
                }
                let update = Update {
                    op,
                    ty,
                    // PTX: additions of f32 flush subnormals in device memory, not in shared
                    // memory.
                    ftz: part.space == MemorySpace::Global,
                };
                let deltas = &worker.patterns[access.site as usize].deltas.0;
                for lane in lanes(part.mask) {
                    let place = part.place(deltas[lane], lane);
                    for element in 0..elements {
                        let place = place + u64::from(ty.bytes()) * element as u64;
                        let [b, c] = [values[element][lane], values[1][lane]];
                        // SAFETY: `AccessParts::next` found the whole vector in bounds and aligned.
                        let was = unsafe { update.apply(place, b, c) };
                        old[element][lane] = was;
                        let new = update.truncated(update.new_value(was, b, c));
                        changed = changed || new != was;
                    }
                }
                if worker.checks.enabled {
                    let (checks, checked) = worker.checked(&access, &part);
                    checks.read_flags(warp, checked);
                }
                Ok(())
            },
        )?;
    }
    worker.changed |= changed;
    if returns {
        let (registers, mask) = (&mut *warp.registers, warp.mask);
        for (d, old) in d.iter().zip(&old).take(elements) {
            registers.write_either(*d, access.wide, mask, old);
        }
    }
    Ok(())
}

/// The new value of an element.
pub(crate) struct Update {
    pub op: Atomic,
    pub ty: Type,
    pub ftz: bool,
}

impl Update {
    /// Updates the element at a host address and returns the old value.
    ///
    /// # Safety
    /// `place` is valid for reads and writes of the type, and aligned.
    pub(crate) unsafe fn apply(&self, place: u64, b: u64, c: u64) -> u64 {
        macro_rules! update {
            ($atomic:ty, $word:ty) => {
                // SAFETY: promised by the caller, for the width of the type.
                unsafe { <$atomic>::from_ptr(place as *mut $word) }
                    .fetch_update(Relaxed, Relaxed, |old| {
                        Some(self.new_value(u64::from(old), b, c) as $word)
                    })
                    .map_or(0, u64::from)
            };
        }
        match self.ty.bytes() {
            2 => update!(AtomicU16, u16),
            4 => update!(AtomicU32, u32),
            _ => update!(AtomicU64, u64),
        }
    }

    fn new_value(&self, old: u64, b: u64, c: u64) -> u64 {
        match (self.op, self.ty) {
            (Atomic::Add, Type::F32) => {
                let [old, b] = [old, b].map(|x| f32::from_bits(x as u32).flushed(self.ftz));
                u64::from(f32_bits((old + b).flushed(self.ftz)))
            }
            (Atomic::Add, Type::F64) => {
                let [old, b] = [old, b].map(f64::from_bits);
                // Of two NaNs the one that is added counts. The host leaves that to the compiler.
                let sum = if b.is_nan() { b + b } else { old + b };
                sum.to_bits()
            }
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
                if old == self.truncated(b) {
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
            (Atomic::Half { op, bf16 }, _) => {
                let half = if bf16 { half::<BF16> } else { half::<F16> };
                let result = |at: u32| u64::from(half(op, (old >> at) as u16, (b >> at) as u16));
                match self.ty.bytes() {
                    2 => result(0),
                    _ => result(16) << 16 | result(0),
                }
            }
        }
    }

    /// The bits of a register that the type has.
    fn truncated(&self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - 8 * self.ty.bytes()))
    }
}

/// Subnormals are kept; of a number and a NaN, the number is smaller and larger.
fn half<const FRACTION: u32>(op: HalfAtomic, old: u16, b: u16) -> u16 {
    let value = widen::<FRACTION>;
    match op {
        HalfAtomic::Add => narrow::<FRACTION>(odd_sum(value(old), value(b))),
        HalfAtomic::Min => least::<FRACTION>(old, b, false, false),
        HalfAtomic::Max => least::<FRACTION>(old, b, true, false),
    }
}
