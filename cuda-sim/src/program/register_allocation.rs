//! Register allocation: packs the virtual registers of a kernel into few planes of 32 lanes.
//!
//! PTX writes each register once. Registers whose lifetimes do not overlap share a plane, so that a warp's registers stay
//! in the first-level cache of the host. A lifetime is an interval of program order around all places where the register
//! is live (backward data flow over basic blocks). Linear scan hands out the planes. Sharing is safe when lanes diverge:
//! a lane only writes its own column, and it follows one path.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::analysis::basic_blocks::Blocks;
use super::instruction::{Instruction, VirtualRegister};
use super::op::{R, Use};

/// Where [`pack`] put things.
pub(super) struct Packing {
    /// The new number of each virtual register; `None` if it is not used.
    pub places: Vec<Option<R>>,
    /// Planes in all.
    pub planes: u32,
    /// The first planes, which hold the pinned registers.
    pub pinned: u32,
}

/// Renumbers all registers in `code`.
pub(super) fn pack(
    code: &mut [Instruction],
    branch_tables: &[Vec<u32>],
    registers: &[VirtualRegister],
) -> Packing {
    let lifetimes = lifetimes(code, branch_tables, registers.len());
    let packing = assign(&lifetimes, registers);
    for instruction in code.iter_mut() {
        instruction.op.for_each_register(&mut |_, r| {
            // Every register in the code has a lifetime, because it is read or written there.
            *r = packing.places[r.0 as usize].unwrap_or(R(0));
        });
    }
    packing
}

/// First and last position where a register is live.
type Lifetime = Option<(u32, u32)>;

fn lifetimes(
    code: &mut [Instruction],
    branch_tables: &[Vec<u32>],
    registers: usize,
) -> Vec<Lifetime> {
    let blocks = Blocks::new(code, branch_tables);
    let words = registers.div_ceil(64);
    let mut read_first = vec![vec![0u64; words]; blocks.ranges.len()];
    let mut written = vec![vec![0u64; words]; blocks.ranges.len()];
    let mut lifetimes: Vec<Lifetime> = vec![None; registers];
    for (b, range) in blocks.ranges.iter().enumerate() {
        for at in range.clone() {
            let guarded = code[at].guard.is_some();
            code[at].op.for_each_register(&mut |usage, r| {
                let (word, bit) = (r.0 as usize / 64, 1u64 << (r.0 % 64));
                extend(&mut lifetimes[r.0 as usize], at as u32);
                match usage {
                    Use::Read if written[b][word] & bit == 0 => read_first[b][word] |= bit,
                    Use::Read => {}
                    Use::Write if !guarded => written[b][word] |= bit,
                    Use::Write => {}
                }
            });
        }
    }
    let mut live_in = read_first.clone();
    let mut changed = true;
    while changed {
        changed = false;
        for b in (0..blocks.ranges.len()).rev() {
            for w in 0..words {
                let out = blocks.next[b].iter().fold(0, |all, &n| all | live_in[n][w]);
                let into = read_first[b][w] | (out & !written[b][w]);
                changed |= into != live_in[b][w];
                live_in[b][w] = into;
            }
        }
    }
    for (b, range) in blocks.ranges.iter().enumerate() {
        for w in 0..words {
            let out = blocks.next[b].iter().fold(0, |all, &n| all | live_in[n][w]);
            for r in ones(live_in[b][w]) {
                extend(&mut lifetimes[w * 64 + r], range.start as u32);
            }
            for r in ones(out) {
                extend(&mut lifetimes[w * 64 + r], range.end as u32 - 1);
            }
        }
    }
    lifetimes
}

fn extend(lifetime: &mut Lifetime, at: u32) {
    *lifetime = Some(lifetime.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
}

fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.trailing_zeros() as usize;
            word &= word - 1;
            bit
        })
    })
}

/// Linear scan. Pinned registers come first and keep their planes.
fn assign(lifetimes: &[Lifetime], registers: &[VirtualRegister]) -> Packing {
    let mut places = vec![None; registers.len()];
    let mut planes = 0;
    let mut order: Vec<(u32, u32, usize)> = Vec::new();
    for wide in [true, false] {
        for (v, register) in registers.iter().enumerate().filter(|(_, r)| r.wide == wide) {
            match lifetimes[v] {
                Some(_) if register.pinned => places[v] = Some(grow(&mut planes, wide)),
                Some((from, to)) => order.push((from, to, v)),
                None => {}
            }
        }
    }
    let pinned = planes;
    order.sort_unstable();
    // By the end of their lifetimes, the first one on top.
    let mut active: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
    let mut free: [Vec<R>; 2] = [Vec::new(), Vec::new()];
    for (from, to, v) in order {
        while let Some(&Reverse((end, other))) = active.peek()
            && end < from
        {
            active.pop();
            if let Some(place) = places[other] {
                free[usize::from(registers[other].wide)].push(place);
            }
        }
        let wide = registers[v].wide;
        let place = free[usize::from(wide)]
            .pop()
            .unwrap_or_else(|| grow(&mut planes, wide));
        places[v] = Some(place);
        active.push(Reverse((to, v)));
    }
    Packing {
        places,
        planes: planes.max(1),
        pinned,
    }
}

/// A new register behind the others. 64-bit registers start at an even plane, aligned to their size.
fn grow(planes: &mut u32, wide: bool) -> R {
    if wide {
        *planes += *planes % 2;
    }
    let r = R(*planes);
    *planes += 1 + u32::from(wide);
    r
}
