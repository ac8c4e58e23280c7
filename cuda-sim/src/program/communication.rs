//! Whether blocks of a kernel may pass on to each other what they do.

use super::module::Instruction;
use super::op::{Access, Address, Atomic, MemorySpace, Op, Type};

/// Whether a thread may act on what another block did, or leave a trace that depends on which block was first. Then what
/// the kernel does depends on the order of its blocks, or is made to depend on it by flags and fences.
///
/// Atomic operations of one kind on integers, whose results nobody looks at, come to the same in every order.
pub(super) fn blocks_communicate(code: &[Instruction]) -> bool {
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
                d,
                ..
            } if is_device(address) => {
                if d.is_some() || !commutes(*op, access) {
                    return true;
                }
                kinds.push((*op, access.ty));
            }
            _ => {}
        }
    }
    kinds.windows(2).any(|pair| pair[0] != pair[1])
}

/// Whether a thread may change device memory by an atomic operation.
pub(super) fn has_device_atomics(code: &[Instruction]) -> bool {
    code.iter()
        .any(|i| matches!(&i.op, Op::Atomic { address, .. } if is_device(address)))
}

fn is_device(address: &Address) -> bool {
    matches!(address.space, MemorySpace::Global | MemorySpace::Generic)
}

fn commutes(op: Atomic, access: &Access) -> bool {
    let integers = matches!(access.ty, Type::U32 | Type::S32 | Type::U64 | Type::S64);
    let kind = match op {
        Atomic::Add | Atomic::Min | Atomic::Max | Atomic::And | Atomic::Or | Atomic::Xor => true,
        Atomic::Exchange | Atomic::CompareSwap | Atomic::Increment | Atomic::Decrement => false,
    };
    integers && kind && !access.order.releases()
}
