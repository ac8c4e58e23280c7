//! Phases of a kernel: code that no block barrier cuts. A loop that copies a tile, waits at a
//! barrier, uses the tile and waits again has two.
//!
//! Basic blocks are cut behind their barriers. Pieces that follow each other without a barrier
//! belong to one phase, so the code before a loop and behind it joins phases of the loop.

use super::basic_blocks::Blocks;
use crate::program::instruction::Instruction;
use crate::program::op::Op;

/// Phases of a kernel's instructions.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    /// By instruction: number of its phase.
    pub of: Vec<u32>,
    pub count: u32,
    /// By instruction: an asynchronous copy that is waited for behind it, before the next barrier
    /// or branch.
    pub waited: Vec<bool>,
}

impl Phases {
    pub(crate) fn new(code: &[Instruction], branch_tables: &[Vec<u32>]) -> Phases {
        let blocks = Blocks::new(code, branch_tables);
        // Pieces are numbered in the order of the code.
        let mut piece = vec![0; code.len()];
        let mut ends = Vec::new();
        let mut count = 0;
        for range in &blocks.ranges {
            let first = count;
            for at in range.clone() {
                piece[at] = count;
                count += usize::from(is_of_block(&code[at].op));
            }
            // What is behind a barrier at the end of a block is an empty piece.
            ends.push((first, count));
            count += 1;
        }
        let mut joined: Vec<usize> = (0..count).collect();
        for (&(_, last), next) in ends.iter().zip(&blocks.next) {
            for &next in next {
                let (a, b) = (root(&joined, last), root(&joined, ends[next].0));
                joined[a.max(b)] = a.min(b);
            }
        }
        // Roots in the order of the code.
        let mut numbers = vec![None; count];
        let mut phases = 0;
        let of = piece.iter().map(|&piece| {
            *numbers[root(&joined, piece)].get_or_insert_with(|| {
                phases += 1;
                phases - 1
            })
        });
        let of: Vec<u32> = of.collect();
        Phases {
            waited: waited(code, &piece),
            of,
            count: phases,
        }
    }
}

/// True for a barrier of the whole block. One that counts threads is for some of them.
fn is_of_block(op: &Op) -> bool {
    matches!(op, Op::Barrier { count: None, .. })
}

fn root(joined: &[usize], mut piece: usize) -> usize {
    while joined[piece] != piece {
        piece = joined[piece];
    }
    piece
}

/// The asynchronous copies that are waited for in their own piece.
fn waited(code: &[Instruction], piece: &[usize]) -> Vec<bool> {
    let mut waited = vec![false; code.len()];
    let mut waits = None;
    for (at, Instruction { op, .. }) in code.iter().enumerate().rev() {
        match op {
            Op::CopyWait {
                newest: None | Some(0),
            } => waits = Some(piece[at]),
            Op::CopyAsync(_) => waited[at] = waits == Some(piece[at]),
            _ => {}
        }
    }
    waited
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Module;

    /// The phases of the instructions up to the end.
    fn phases(body: &str) -> Vec<u32> {
        let ptx = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {{\n\
             .reg .b32 %r<9>; .reg .pred %p<9>; .shared .align 4 .b8 s[64];\n{body}\n}}\n"
        );
        let module = Module::load(&ptx).expect("valid PTX");
        let kernel = module.kernel("k").expect("the kernel");
        let is_end = |instruction: &Instruction| matches!(instruction.op, Op::Exit);
        let end = kernel.code.iter().position(is_end).expect("an end");
        kernel.phases.of[..=end].to_vec()
    }

    #[test]
    fn a_loop_with_two_barriers_has_two_phases() {
        // What is before the loop and behind it is the phase of the loop's ends.
        let body = "mov.u32 %r1, 9; LOOP: st.shared.u32 [s], %r1; bar.sync 0; ld.shared.u32 %r2, [s]; bar.sync 0;\n\
                    sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOOP; ret;";
        assert_eq!(phases(body), [0, 0, 0, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn one_barrier_in_a_loop_cuts_nothing_and_in_straight_code_it_does() {
        let body = "mov.u32 %r1, 9; LOOP: bar.sync 0; sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0;\n\
                    @%p1 bra LOOP; ret;";
        assert_eq!(phases(body), [0; 6]);
        assert_eq!(
            phases("mov.u32 %r1, 9; bar.sync 0; mov.u32 %r2, 1; ret;"),
            [0, 0, 1, 1]
        );
    }

    #[test]
    fn a_barrier_for_some_threads_cuts_nothing() {
        assert_eq!(
            phases("mov.u32 %r1, 9; bar.sync 1, 64; mov.u32 %r2, 1; ret;"),
            [0; 4]
        );
    }
}
