//! Bulk copies that combine each element with the one at its target: `cp.reduce.async.bulk`.

use crate::exec::active_warp::ActiveWarp;
use crate::exec::checks::async_proxy::AsyncOperation;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::operations::atomic::Update;
use crate::exec::operations::bulk_copy::LaneCopy;
use crate::exec::operations::bulk_copy::operands::bad;
use crate::exec::operations::bulk_copy::transfer::{RowBytes, gather, lane_range};
use crate::program::op::{Atomic, HalfAtomic, Reducing, Type};
use crate::tensor_map::Element;

/// Combines shared memory with device memory.
pub(super) fn store(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &LaneCopy<'_>,
    update: Update,
    writing: Option<&AsyncOperation>,
) -> Result<(), Trap> {
    let size = update.ty.bytes() as usize;
    let mut bytes = RowBytes::new();
    for row in copy.moved.rows.iter().filter(|row| !row.inside.is_empty()) {
        gather(worker, copy, row, &mut bytes);
        if let Some(writing) = writing {
            let range = lane_range(row, copy.lane);
            let memory = &worker.memory;
            worker.checks.update_range(warp, memory, writing, range)?;
        }
        let inside = &bytes.0[row.inside.start as usize..row.inside.end as usize];
        for (place, value) in (row.device..).step_by(size).zip(inside.chunks_exact(size)) {
            // SAFETY: the copy's bytes were found in bounds, and elements are aligned.
            unsafe { update.apply(place, element(value), 0) };
            worker.counters.tallies.atomics.count(place);
        }
    }
    Ok(())
}

/// Combines bytes with shared memory.
pub(super) fn put(worker: &mut HostThread<'_>, shared: u64, bytes: &[u8], update: &Update) {
    let size = update.ty.bytes() as usize;
    let first = worker.memory.shared.pointer() as u64 + shared;
    for (place, value) in (first..).step_by(size).zip(bytes.chunks_exact(size)) {
        // SAFETY: the copy's bytes were found within shared memory, and elements are aligned.
        unsafe { update.apply(place, element(value), 0) };
    }
}

fn element(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// How an element is made. The tensor map has the type of a tile's elements, which must allow the
/// operation.
pub(super) fn update(copy: &LaneCopy<'_>, reducing: Reducing) -> Result<Update, Trap> {
    let Reducing { op, ty } = reducing;
    let (op, ty) = match (ty, copy.moved.map) {
        (Some(ty), _) => (op, ty),
        (None, Some(map)) => of_element(op, map.element).ok_or_else(|| {
            let what = format!(
                "has elements of {:?}, which .{} does not take",
                map.element,
                name(op)
            );
            bad("tensorMap", what, copy.lane)
        })?,
        (None, None) => unreachable!("the instruction has the type"),
    };
    Ok(Update {
        op,
        ty,
        // As of atomic operations on device memory.
        ftz: true,
    })
}

/// The operation on elements of a tensor.
fn of_element(op: Atomic, element: Element) -> Option<(Atomic, Type)> {
    let ty = match element {
        Element::U8 | Element::U16 => return None,
        Element::U32 => Type::U32,
        Element::S32 => Type::S32,
        Element::U64 => Type::U64,
        Element::S64 => Type::S64,
        Element::F16 => Type::F16,
        Element::Bf16 => Type::Bf16,
        Element::F32 | Element::F32Ftz | Element::Tf32 | Element::Tf32Ftz => Type::F32,
        Element::F64 => Type::F64,
    };
    let is_half = matches!(ty, Type::F16 | Type::Bf16);
    let is_integer = matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64);
    let half = |half| {
        let bf16 = ty == Type::Bf16;
        Some((Atomic::Half { op: half, bf16 }, Type::U16))
    };
    match op {
        Atomic::Add if is_half => half(HalfAtomic::Add),
        Atomic::Min if is_half => half(HalfAtomic::Min),
        Atomic::Max if is_half => half(HalfAtomic::Max),
        Atomic::Add => Some((op, ty)),
        Atomic::Increment | Atomic::Decrement => (ty == Type::U32).then_some((op, ty)),
        _ => is_integer.then_some((op, ty)),
    }
}

fn name(op: Atomic) -> &'static str {
    match op {
        Atomic::Add => "add",
        Atomic::Min => "min",
        Atomic::Max => "max",
        Atomic::And => "and",
        Atomic::Or => "or",
        Atomic::Xor => "xor",
        Atomic::Increment => "inc",
        Atomic::Decrement => "dec",
        Atomic::Exchange | Atomic::CompareSwap | Atomic::Half { .. } => "another operation",
    }
}
