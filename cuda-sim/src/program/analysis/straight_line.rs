//! Stretches of straight-line code: operations that the same threads run one after the other.
//!
//! The set of running threads changes only at branches, at their targets, and where threads wait
//! for each other. Within a stretch, operations without a guard run equally often, so they are
//! counted together. Accesses through one unchanged base register have addresses that differ by a
//! constant, as in kernels that read a tile through many offsets.

use std::collections::HashMap;
use std::ops::Range;

use super::basic_blocks::Blocks;
use crate::program::instruction::Instruction;
use crate::program::op::{Class, Op, R, Use, matrix_operations};

/// Cuts the code into stretches.
pub(crate) fn stretches(code: &[Instruction], branch_tables: &[Vec<u32>]) -> Vec<Range<usize>> {
    let mut stretches = Vec::new();
    for block in Blocks::new(code, branch_tables).ranges {
        let mut start = block.start;
        for at in block.clone() {
            if stands_alone(&code[at].op) {
                // Where threads wait, they are there before the others come.
                stretches.extend([start..at, at..at + 1]);
                start = at + 1;
            }
        }
        stretches.push(start..block.end);
    }
    stretches.retain(|stretch| !stretch.is_empty());
    stretches
}

/// True if the operation is a stretch of its own, though it is within a basic block: behind it
/// other threads may run than before it, or it tells how many instructions the warp has run.
fn stands_alone(op: &Op) -> bool {
    matches!(op.class(), Class::Warp | Class::Barrier)
        || matches!(
            op,
            Op::Clock { .. } | Op::WarpgroupProduct(_) | matrix_operations!()
        )
}

/// Has the first operation without a guard count for all of its stretch. Returns where each
/// operation is counted; `None` if it is not.
pub(crate) fn count_together(
    code: &mut [Instruction],
    stretches: &[Range<usize>],
) -> Vec<Option<u32>> {
    let mut counted_at = vec![None; code.len()];
    for stretch in stretches {
        let mut first = None;
        for at in stretch.clone() {
            if !code[at].op.is_counted() {
                continue;
            }
            let counter = match code[at].guard {
                Some(_) => at,
                None => *first.get_or_insert(at),
            };
            code[counter].counts += 1;
            counted_at[at] = Some(counter as u32);
        }
    }
    counted_at
}

/// Finds the form of each operation, which stays as it is from here on, and the operations in a row
/// that have one and that the same threads run.
pub(crate) fn runs(code: &mut [Instruction], stretches: &[Range<usize>]) {
    for stretch in stretches {
        let mut next: Option<Instruction> = None;
        for instruction in code[stretch.clone()].iter_mut().rev() {
            instruction.form = instruction.op.form();
            // By which threads one with a guard is run is known when it is reached.
            let joins = instruction.guard.is_none();
            if instruction.form.is_some() {
                let next = next.filter(|_| joins);
                let alike = next.filter(|next| next.form == instruction.form);
                instruction.run = 1 + next.map_or(0, |next| next.run);
                instruction.alike = 1 + alike.map_or(0, |next| next.alike);
            }
            next = Some(*instruction).filter(|this| joins && this.form.is_some());
        }
    }
}

/// For each of the `sites` memory accesses, by number, the first one of its stretch that has the
/// same base register, if it is another one.
pub(crate) fn leaders(
    code: &[Instruction],
    stretches: &[Range<usize>],
    sites: u32,
) -> Vec<Option<u32>> {
    let mut leaders = vec![None; sites as usize];
    for stretch in stretches {
        // Base registers, unchanged since, and the first access through each.
        let mut known: HashMap<R, u32> = HashMap::new();
        for Instruction { op, guard, .. } in &code[stretch.clone()] {
            // Which threads run an instruction with a guard, a copy or a load of matrices is known
            // when it is reached.
            let is_plain = matches!(op, Op::Load { .. } | Op::Store { .. } | Op::Atomic { .. });
            let all_threads = is_plain && guard.is_none();
            for (access, address, _) in op.accesses() {
                let first = known.get(&address.base).copied();
                let leader = first.filter(|_| all_threads);
                leaders[access.site as usize] = leader;
                if all_threads && leader.is_none() {
                    known.insert(address.base, access.site);
                }
            }
            for r in op.registers(Use::Write) {
                known.remove(&r);
            }
        }
    }
    leaders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::op::{Condition, FloatMode, P};

    #[test]
    fn runs_and_operations_of_one_form_end_at_guards_and_at_what_has_no_form() {
        let [a, b] = [R(0), R(1)];
        let plain = |op| Instruction::new(op, None);
        let guarded = |op| {
            let (p, negate) = (P(2), false);
            Instruction::new(op, Some(Condition { p, negate }))
        };
        let fma = Op::Fma {
            wide: false,
            mode: FloatMode::PLAIN,
            d: a,
            a,
            b,
            c: a,
        };
        let copy = Op::Move {
            wide: false,
            d: b,
            a,
        };
        let mut code = [
            plain(fma),
            plain(fma),
            plain(copy),
            plain(Op::CopyCommit),
            plain(copy),
            guarded(copy),
            plain(copy),
            plain(copy),
            plain(copy),
        ];
        runs(&mut code, &[0..8, 8..9]);
        let found = code.map(|instruction| (instruction.run, instruction.alike));
        let [second_of_two, alone, no_form] = [(2, 1), (1, 1), (0, 0)];
        assert_eq!(
            found,
            [
                (3, 2),
                second_of_two,
                alone,
                no_form,
                alone,
                alone,
                (2, 2),
                alone,
                alone
            ]
        );
    }
}
