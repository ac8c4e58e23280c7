//! Data flow of registers between basic blocks, for 64 registers at a time.
//!
//! Most registers are written and read within one block. The flow of the others is followed from
//! block to block, and only through blocks that it reaches, so long kernels with very many
//! registers take no more than their code is long.

use std::collections::BinaryHeap;

use super::basic_blocks::Blocks;
use crate::program::instruction::Instruction;
use crate::program::op::Use;

/// Uses of 64 registers in a basic block, a bit for each register.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uses {
    pub block: usize,
    /// Read before they are written for certain.
    pub read_first: u64,
    /// Written for certain.
    pub written: u64,
}

/// For each 64 registers, in order: their uses in the blocks that name one of them, in order.
pub(crate) fn uses(code: &mut [Instruction], blocks: &Blocks, registers: usize) -> Vec<Vec<Uses>> {
    let mut all: Vec<Vec<Uses>> = vec![Vec::new(); registers.div_ceil(64)];
    for (block, range) in blocks.ranges.iter().enumerate() {
        for Instruction { op, guard, .. } in &mut code[range.clone()] {
            op.for_each_register(&mut |usage, r| {
                let (uses, bit) = (&mut all[r.0 as usize / 64], 1 << (r.0 % 64));
                if uses.last().is_none_or(|last| last.block != block) {
                    uses.push(Uses {
                        block,
                        ..Uses::default()
                    });
                }
                let Some(here) = uses.last_mut() else { return };
                match usage {
                    Use::Read => here.read_first |= bit & !here.written,
                    Use::Write if guard.is_none() => here.written |= bit,
                    Use::Write => {}
                }
            });
        }
    }
    all
}

/// For each register, whether some use of it may come before it is set. `is_set` tells which are
/// set at the start of the kernel. `None` if that takes too long.
pub(crate) fn read_unset(
    code: &mut [Instruction],
    blocks: &Blocks,
    registers: usize,
    is_set: impl Fn(usize) -> bool,
) -> Option<Vec<bool>> {
    let mut unset = vec![false; registers];
    let mut flow = RegisterFlow::new(&blocks.next, false);
    for (column, uses) in uses(code, blocks, registers).iter().enumerate() {
        let first = column * 64;
        let needed = uses.iter().fold(0, |all, u| all | u.read_first);
        let start = ones(needed)
            .filter(|r| !is_set(first + r))
            .fold(0, |all, r| all | 1 << r);
        if start == 0 {
            continue;
        }
        // What a block does not set may come unset to those behind it.
        for (uses, came) in flow.follow(uses, [(0, start)], |came, uses| came & !uses.written)? {
            ones(came & uses.read_first).for_each(|r| unset[first + r] = true);
        }
    }
    Some(unset)
}

/// Steps from block to block that one kernel may take.
const MAX_STEPS: usize = 1 << 27;

/// The flow of sets of 64 registers along the edges between blocks. It is reused for other
/// registers.
pub(crate) struct RegisterFlow<'a> {
    edges: &'a [Vec<usize>],
    backward: bool,
    /// By block: what has come to it, and whether it is to be visited.
    came: Vec<u64>,
    queued: Vec<bool>,
    read_first: Vec<u64>,
    written: Vec<u64>,
    steps: usize,
}

impl<'a> RegisterFlow<'a> {
    /// The flow along `edges`, which lead to earlier blocks mostly, if it is `backward`.
    pub(crate) fn new(edges: &'a [Vec<usize>], backward: bool) -> RegisterFlow<'a> {
        RegisterFlow {
            edges,
            backward,
            came: vec![0; edges.len()],
            queued: vec![false; edges.len()],
            read_first: vec![0; edges.len()],
            written: vec![0; edges.len()],
            steps: 0,
        }
    }

    /// Follows the registers of `uses` from the blocks in `starts`, to each of which the given ones
    /// come. `pass` says what goes on behind a block, by what came to it and by its uses. Returns
    /// the blocks that were visited, each with its uses and what came to it; `None` if the kernel
    /// has taken too many steps.
    pub(crate) fn follow(
        &mut self,
        uses: &[Uses],
        starts: impl IntoIterator<Item = (usize, u64)>,
        pass: impl Fn(u64, Uses) -> u64,
    ) -> Option<Vec<(Uses, u64)>> {
        for u in uses {
            (self.read_first[u.block], self.written[u.block]) = (u.read_first, u.written);
        }
        let mut visited = Vec::new();
        // In program order, or against it, most blocks are visited once.
        let mut queue = BinaryHeap::new();
        let rank = |block: usize| {
            if self.backward {
                block
            } else {
                usize::MAX - block
            }
        };
        for (block, bits) in starts {
            self.came[block] |= bits;
            if !std::mem::replace(&mut self.queued[block], true) {
                queue.push(rank(block));
            }
        }
        while let Some(first) = queue.pop() {
            let block = rank(first);
            self.queued[block] = false;
            visited.push(block);
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return None;
            }
            let on = pass(self.came[block], self.uses_in(block));
            for &next in &self.edges[block] {
                if on & !self.came[next] != 0 {
                    self.came[next] |= on;
                    if !std::mem::replace(&mut self.queued[next], true) {
                        queue.push(rank(next));
                    }
                }
            }
        }
        visited.sort_unstable();
        visited.dedup();
        let results = visited
            .iter()
            .map(|&b| (self.uses_in(b), self.came[b]))
            .collect();
        visited.into_iter().for_each(|block| self.came[block] = 0);
        for u in uses {
            (self.read_first[u.block], self.written[u.block]) = (0, 0);
        }
        Some(results)
    }

    fn uses_in(&self, block: usize) -> Uses {
        Uses {
            block,
            read_first: self.read_first[block],
            written: self.written[block],
        }
    }
}

/// The numbers of the bits that are set.
pub(crate) fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.trailing_zeros() as usize;
            word &= word - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Module;
    use std::fmt::Write;

    fn kernel(registers: usize, body: &str) -> String {
        format!(
            ".version 8.4\n.target sm_75\n.address_size 64\n.visible .entry t(.param .u64 p)\n{{\n.reg .pred %p<2>;\n\
             .reg .b32 %r<{registers}>;\n.reg .b64 %d<{registers}>;\nld.param.u64 %d0, [p];\nmov.u32 %r0, %tid.x;\n\
             setp.lt.u32 %p1, %r0, 9;\n{body}\nret;\n}}"
        )
    }

    /// Steps from block to block in a chain of blocks, in which a register is live from each to the
    /// one `far` behind it.
    fn steps(blocks: usize, far: usize) -> usize {
        let before: Vec<Vec<usize>> = (0..blocks)
            .map(|b| b.checked_sub(1).into_iter().collect())
            .collect();
        let mut flow = RegisterFlow::new(&before, true);
        for first in (0..blocks).step_by(64) {
            let mut uses: Vec<Uses> = Vec::new();
            for b in first..blocks.min(first + 64 + far) {
                let (made, read) = (b < first + 64, b >= first + far);
                uses.push(Uses {
                    block: b,
                    written: if made { 1 << (b - first) } else { 0 },
                    read_first: if read {
                        1 << ((b - first - far) % 64)
                    } else {
                        0
                    },
                });
            }
            let starts = uses
                .iter()
                .filter(|u| u.read_first != 0)
                .map(|u| (u.block, 0));
            let pass = |live: u64, u: Uses| u.read_first | (live & !u.written);
            let found = flow.follow(&uses, starts, pass).unwrap();
            // Live at the end of the block that makes it, and of all up to the one before its last
            // use.
            if first + 64 + far < blocks {
                let live = found
                    .iter()
                    .map(|(_, live)| live.count_ones() as usize)
                    .sum::<usize>();
                assert_eq!(live, 64 * far);
            }
        }
        flow.steps
    }

    #[test]
    fn steps_grow_with_the_distance_that_registers_cover() {
        // A column has 64 registers; each block that it is live in is visited once.
        let (blocks, columns) = (64 * 100, 100);
        for far in [1, 10, 50] {
            let steps = steps(blocks, far);
            assert!(steps <= columns * (64 + 2 * far), "{far}: {steps}");
        }
    }

    #[test]
    fn long_kernels_with_very_many_registers_load() {
        const MANY: usize = 100_000;
        let mut chain = String::new();
        for i in 1..MANY {
            let _ = writeln!(chain, "add.u32 %r{i}, %r{}, %r{};", i - 1, i / 2);
            if i % 5 == 0 {
                let _ = writeln!(chain, "@%p1 bra L{i};\nL{i}:");
            }
        }
        let last = MANY - 1;
        let mut loads = String::new();
        for i in 1..MANY {
            let _ = writeln!(
                loads,
                "add.u64 %d{i}, %d0, {i};\nld.global.u8 %r{i}, [%d{i}];"
            );
        }
        let mut swaps = String::new();
        for i in 1..MANY / 4 {
            let _ = writeln!(swaps, "ld.global.u32 %r{i}, [%d0];");
        }
        for body in [
            format!("{chain}st.global.u32 [%d0], %r{last};"),
            format!("{loads}st.global.u32 [%d0], %r{last};"),
            format!("{swaps}atom.global.cas.b32 %r1, [%d0], %r0, %r2;"),
            // An address that is made from itself.
            "add.u64 %d1, %d1, 8;\nld.global.u32 %r1, [%d1];\natom.global.cas.b32 %r2, [%d1], %r1, 5;".to_owned(),
        ] {
            let start = std::time::Instant::now();
            Module::load(&kernel(MANY, &body)).unwrap().kernel("t").unwrap();
            // A second or two, on a machine that does nothing else.
            assert!(start.elapsed().as_secs() < 60, "{:?}: {}", start.elapsed(), &body[..40]);
            eprintln!("{:?}: {}", start.elapsed(), &body[..40]);
        }
    }
}
