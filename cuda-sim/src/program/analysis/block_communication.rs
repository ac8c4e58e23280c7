//! Kernels whose blocks may communicate.

use crate::program::instruction::Instruction;
use crate::program::op::{Access, Address, Atomic, BulkCopy, MemorySpace, Op, Order, Route, Type};

/// True if a thread may read what another block wrote, or leave a result that depends on which
/// block was first. The results of such a kernel may depend on the order of its blocks.
///
/// Atomic operations of one kind on integers whose results are not read give the same value in
/// every order.
pub(crate) fn blocks_communicate(code: &[Instruction]) -> bool {
    let mut kinds = Vec::new();
    for Instruction { op, .. } in code {
        match op {
            // Whoever pauses waits for another thread.
            Op::Print { .. } | Op::Yield => return true,
            Op::Load {
                access, address, ..
            }
            | Op::Store {
                access, address, ..
            } if access.order.is_strong() && is_device(address) => return true,
            Op::Atomic {
                op,
                access,
                address,
                returns,
                ..
            } if is_device(address) => {
                if *returns || !commutes(*op, access) {
                    return true;
                }
                kinds.push((*op, access.ty));
            }
            Op::BulkCopy(copy) if reduces(copy) => {
                let reduction = copy.reduction.and_then(|by| Some((by.op, by.ty?)));
                match reduction {
                    Some((op, ty)) if commutes(op, &Access::one(ty, Order::Relaxed)) => {
                        kinds.push((op, ty));
                    }
                    // Of a tile, the type is not known here.
                    _ => return true,
                }
            }
            _ => {}
        }
    }
    kinds.windows(2).any(|pair| pair[0] != pair[1])
}

/// True if a thread may change device memory by an atomic operation.
pub(crate) fn has_device_atomics(code: &[Instruction]) -> bool {
    code.iter().any(|i| match &i.op {
        Op::Atomic { address, .. } => is_device(address),
        Op::BulkCopy(copy) => reduces(copy),
        _ => false,
    })
}

/// True if a copy changes device memory atomically.
fn reduces(copy: &BulkCopy) -> bool {
    copy.route == Route::Store && copy.reduction.is_some()
}

fn is_device(address: &Address) -> bool {
    matches!(address.space, MemorySpace::Global | MemorySpace::Generic)
}

fn commutes(op: Atomic, access: &Access) -> bool {
    let integers = matches!(access.ty, Type::U32 | Type::S32 | Type::U64 | Type::S64);
    let kind = match op {
        Atomic::Add | Atomic::Min | Atomic::Max | Atomic::And | Atomic::Or | Atomic::Xor => true,
        Atomic::Exchange
        | Atomic::CompareSwap
        | Atomic::Increment
        | Atomic::Decrement
        | Atomic::Half { .. } => false,
    };
    integers && kind && !access.order.releases()
}
