//! Finds lanes that exchange values through volatile shared memory with no barrier between.
//!
//! `v[t] += v[t + 16]; v[t] += v[t + 8]; …` by a warp was the way to end a sum before Volta, when
//! the lanes of a warp ran in step. Each line needs a `__syncwarp()` behind the load and one behind
//! the store. Volatile accesses do not race in the checks, because threads also wait for each other
//! by them. So this looks at the code: a volatile store, and behind it, with no barrier and the
//! same base register, a volatile load of another place.

use std::collections::HashMap;

use crate::program::instruction::Instruction;
use crate::program::op::{Address, MemorySpace, Op, Order, R, Use};

/// The first load that gets what another lane has stored, if lanes of a warp run in step.
pub(crate) fn first_load(code: &[Instruction]) -> Option<usize> {
    // Offsets of volatile stores, by base register.
    let mut stored: HashMap<R, Vec<i32>> = HashMap::new();
    for (at, Instruction { op, .. }) in code.iter().enumerate() {
        match op {
            Op::Store {
                access, address, ..
            } if access.order == Order::Relaxed && may_be_shared(address) => {
                stored.entry(address.base).or_default().push(address.offset);
            }
            Op::Load {
                access, address, ..
            } if access.order == Order::Relaxed && may_be_shared(address) => {
                let others = stored.get(&address.base).into_iter().flatten();
                if others.into_iter().any(|offset| *offset != address.offset) {
                    return Some(at);
                }
            }
            Op::WarpBarrier { .. } | Op::Barrier { .. } | Op::Shuffle { .. } => stored.clear(),
            _ => {}
        }
        for r in op.registers(Use::Write) {
            stored.remove(&r);
        }
    }
    None
}

fn may_be_shared(address: &Address) -> bool {
    matches!(address.space, MemorySpace::Shared | MemorySpace::Generic)
}
