//! Basic blocks: code that is entered at its first instruction and left at its last.

use crate::program::{instruction::Instruction, op::Op};

/// Basic blocks and where each may go.
pub(crate) struct Blocks {
    pub ranges: Vec<std::ops::Range<usize>>,
    pub next: Vec<Vec<usize>>,
}

impl Blocks {
    pub(crate) fn new(code: &[Instruction], branch_tables: &[Vec<u32>]) -> Blocks {
        let mut starts = vec![false; code.len() + 1];
        starts[0] = true;
        let targets = |op: &Op| targets(op, branch_tables);
        for (at, instruction) in code.iter().enumerate() {
            if ends(&instruction.op) {
                starts[at + 1] = true;
                targets(&instruction.op)
                    .into_iter()
                    .for_each(|t| starts[t] = true);
            }
        }
        let mut block_at = vec![0; code.len() + 1];
        let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
        for at in 0..code.len() {
            if starts[at] {
                ranges.push(at..at);
            }
            block_at[at] = ranges.len() - 1;
            ranges
                .last_mut()
                .expect("the first instruction starts a block")
                .end = at + 1;
        }
        let next = ranges
            .iter()
            .map(|range| {
                let last = &code[range.end - 1];
                let mut next: Vec<usize> =
                    targets(&last.op).into_iter().map(|t| block_at[t]).collect();
                if (!ends(&last.op) || last.guard.is_some()) && range.end < code.len() {
                    next.push(block_at[range.end]);
                }
                next
            })
            .collect();
        Blocks { ranges, next }
    }

    /// By block, the blocks that go to it.
    pub(crate) fn before(&self) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); self.next.len()];
        for (block, next) in self.next.iter().enumerate() {
            next.iter().for_each(|&n| before[n].push(block));
        }
        before
    }
}

/// Successors of each instruction.
pub(crate) fn successors(code: &[Instruction], branch_tables: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let next = |(at, instruction): (usize, &Instruction)| {
        let mut next = targets(&instruction.op, branch_tables);
        if (!ends(&instruction.op) || instruction.guard.is_some()) && at + 1 < code.len() {
            next.push(at + 1);
        }
        next.into_iter().map(|at| at as u32).collect()
    };
    code.iter().enumerate().map(next).collect()
}

fn targets(op: &Op, branch_tables: &[Vec<u32>]) -> Vec<usize> {
    match *op {
        Op::Branch { target } => vec![target as usize],
        Op::BranchTable { table, .. } => branch_tables[table as usize]
            .iter()
            .map(|&t| t as usize)
            .collect(),
        _ => Vec::new(),
    }
}

/// True if no thread that runs the operation goes on behind it.
fn ends(op: &Op) -> bool {
    matches!(op, Op::Branch { .. } | Op::BranchTable { .. } | Op::Exit)
}
