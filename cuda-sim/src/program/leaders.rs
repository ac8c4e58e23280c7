//! Finds accesses whose addresses differ from those of an earlier one by a constant.
//!
//! Kernels read a row or a tile through one register and many offsets. Between two such accesses the same threads run,
//! and nobody writes the register; so the lanes of the later one lie at the distances that those of the earlier one have.

use super::module::Instruction;
use super::op::{Op, R};
use super::registers::Blocks;
use super::uses::Use;

/// By memory instruction: the earlier one that has its base register, if there is one.
pub(super) fn leaders(code: &mut [Instruction], branch_tables: &[Vec<u32>]) -> Vec<Option<u32>> {
    let mut leaders = Vec::new();
    for range in Blocks::new(code, branch_tables).ranges {
        // Registers that some access had as its base, unchanged since, and the access.
        let mut known: Vec<(R, u32)> = Vec::new();
        for Instruction { op, guard } in &mut code[range] {
            if threads_may_join_or_leave(op) {
                known.clear();
            }
            if let Op::Load {
                access, address, ..
            }
            | Op::Store {
                access, address, ..
            }
            | Op::Atomic {
                access, address, ..
            } = op
            {
                let leader = known.iter().find(|(base, _)| *base == address.base);
                leaders.push(leader.map(|&(_, site)| site).filter(|_| guard.is_none()));
                if guard.is_none() && leader.is_none() {
                    known.push((address.base, access.site));
                }
            }
            op.for_each_register(&mut |usage, r| {
                if usage == Use::Write {
                    known.retain(|(base, _)| base != r);
                }
            });
        }
    }
    leaders
}

/// Whether behind the operation other threads may run than before it, though it is within a basic block.
fn threads_may_join_or_leave(op: &Op) -> bool {
    matches!(
        op,
        Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Ballot { .. }
            | Op::MatchAny { .. }
            | Op::MatchAll { .. }
            | Op::Reduce { .. }
            | Op::Elect { .. }
            | Op::WarpBarrier { .. }
            | Op::Barrier { .. }
    )
}
