//! Register allocation: packs the virtual registers of a kernel into few planes of 32 lanes.
//!
//! PTX writes each register once. Registers whose lifetimes do not overlap share a plane, so that a
//! warp's registers stay in the first-level cache of the host. A lifetime is an interval of program
//! order around all places where the register is live (backward data flow over basic blocks).
//! Linear scan hands out the planes. Sharing is safe when lanes diverge: a lane only writes its own
//! column, and it follows one path.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::analysis::basic_blocks::Blocks;
use super::analysis::register_flow::{self, RegisterFlow, Uses, ones};
use super::instruction::{Instruction, VirtualRegister};
use super::op::R;

/// Places that [`pack`] chose.
pub(super) struct Packing {
    /// The new number of each virtual register; `None` if it is not used.
    pub places: Vec<Option<R>>,
    /// Planes in all.
    pub planes: u32,
    /// The first planes, which hold the pinned registers.
    pub pinned: u32,
}

/// Renumbers all registers in `code`. Those that are `alone` share their planes with no other.
/// `None` if that takes too long.
pub(super) fn pack(
    code: &mut [Instruction],
    branch_tables: &[Vec<u32>],
    registers: &[VirtualRegister],
    alone: &[bool],
) -> Option<Packing> {
    let lifetimes = lifetimes(code, branch_tables, registers.len())?;
    let packing = assign(&lifetimes, registers, alone);
    for instruction in code.iter_mut() {
        instruction.op.for_each_register(&mut |_, r| {
            // Every register in the code has a lifetime, because it is read or written there.
            *r = packing.places[r.0 as usize].unwrap_or(R(0));
        });
    }
    Some(packing)
}

/// First and last position where a register is live.
type Lifetime = Option<(u32, u32)>;

fn lifetimes(
    code: &mut [Instruction],
    branch_tables: &[Vec<u32>],
    registers: usize,
) -> Option<Vec<Lifetime>> {
    let blocks = Blocks::new(code, branch_tables);
    let mut lifetimes: Vec<Lifetime> = vec![None; registers];
    for (at, instruction) in code.iter_mut().enumerate() {
        let mut extend = |_, r: &mut R| extend(&mut lifetimes[r.0 as usize], at as u32);
        instruction.op.for_each_register(&mut extend);
    }
    let before = blocks.before();
    let mut flow = RegisterFlow::new(&before, true);
    for (column, uses) in register_flow::uses(code, &blocks, registers)
        .iter()
        .enumerate()
    {
        let starts = uses
            .iter()
            .filter(|u| u.read_first != 0)
            .map(|u| (u.block, 0));
        // What is live at the end of a block comes to it; what is live at its start goes on to
        // those before it.
        let at_start = |at_end: u64, uses: Uses| uses.read_first | (at_end & !uses.written);
        for (uses, at_end) in flow.follow(uses, starts, at_start)? {
            let range = &blocks.ranges[uses.block];
            for r in ones(at_start(at_end, uses)) {
                extend(&mut lifetimes[column * 64 + r], range.start as u32);
            }
            for r in ones(at_end) {
                extend(&mut lifetimes[column * 64 + r], range.end as u32 - 1);
            }
        }
    }
    Some(lifetimes)
}

fn extend(lifetime: &mut Lifetime, at: u32) {
    *lifetime = Some(lifetime.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
}

/// Linear scan. Pinned registers come first and keep their planes.
fn assign(lifetimes: &[Lifetime], registers: &[VirtualRegister], alone: &[bool]) -> Packing {
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
        if alone[v] {
            places[v] = Some(grow(&mut planes, wide));
            continue;
        }
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

/// A new register behind the others. 64-bit registers start at an even plane, aligned to their
/// size.
fn grow(planes: &mut u32, wide: bool) -> R {
    if wide {
        *planes += *planes % 2;
    }
    let r = R(*planes);
    *planes += 1 + u32::from(wide);
    r
}
