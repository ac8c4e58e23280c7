//! Finds registers that may be used before they are set, and has the warp keep watch over them.
//!
//! Nearly every register is set on all ways to each of its uses: those need nothing. For the others a bit per lane
//! tells whether the lane has set the register. Operations are put in that set the bits, pass them on where a value is
//! moved or computed with, and look at them where it leaves the registers: as an address, in a store, for other lanes.
//! Computing with an unset value is no mistake by itself, because compilers do it: `found ? 2 * best : -1` becomes a
//! product and a selection, and what a guarded loop body computes moves out of the loop and its guard. What is reported
//! is the line of the computation, if it is one. A variable that only a comparison sees unset is not reported: predicates
//! are not kept watch over.

use super::module::Instruction;
use super::op::{Op, R, Tracking};
use super::registers::{Blocks, VirtualRegister};
use super::uses::Use;
use crate::ptx::SourceLine;

/// Puts the operations in. Registers are virtual, branch targets are places in `code`. Returns the number of registers
/// that are kept watch over.
pub(super) fn watch(
    code: &mut Vec<Instruction>,
    source: &mut Vec<SourceLine>,
    branch_tables: &mut [Vec<u32>],
    registers: &[VirtualRegister],
) -> u32 {
    let Suspects { slots, origins } = suspects(code, branch_tables, registers);
    let count = slots.iter().flatten().count() as u32;
    if count == 0 {
        return 0;
    }
    let mut new_code = Vec::with_capacity(code.len());
    let mut new_source = Vec::with_capacity(code.len());
    let mut places = Vec::with_capacity(code.len() + 1);
    for (at, instruction) in code.iter_mut().enumerate() {
        places.push(new_code.len() as u32);
        let (before, after) = tracking(&mut instruction.op, &slots);
        let guard = instruction.guard;
        let mut track = |tracking| {
            let line = match tracking {
                Tracking::Check { slot } => match origins[slot as usize] {
                    Origin::At(origin) => source[origin],
                    Origin::Nowhere | Origin::Several => source[at],
                },
                _ => source[at],
            };
            let op = Op::Track(tracking);
            (Instruction::new(op, guard), line)
        };
        let before: Vec<_> = before.into_iter().map(&mut track).collect();
        let after: Vec<_> = after.into_iter().map(&mut track).collect();
        let all = before
            .into_iter()
            .chain([(*instruction, source[at])])
            .chain(after);
        for (instruction, line) in all {
            new_code.push(instruction);
            new_source.push(line);
        }
    }
    places.push(new_code.len() as u32);
    for instruction in &mut new_code {
        if let Op::Branch { target } = &mut instruction.op {
            *target = places[*target as usize];
        }
    }
    for target in branch_tables.iter_mut().flatten() {
        *target = places[*target as usize];
    }
    *code = new_code;
    *source = new_source;
    count
}

/// What goes before and behind an operation.
fn tracking(op: &mut Op, slots: &[Option<u32>]) -> (Vec<Tracking>, Vec<Tracking>) {
    if computes(op) {
        return (combination(op, slots), Vec::new());
    }
    let slot = |r: R| slots[r.0 as usize];
    let moved = match *op {
        Op::Move { d, a, .. } => slot(d).map(|d| Tracking::Copy { d, a: slot(a) }),
        Op::Select { d, a, b, p, .. } => slot(d).map(|d| Tracking::Select {
            d,
            a: slot(a),
            b: slot(b),
            p,
        }),
        Op::Shuffle { op, d, a, b, c, .. } => slot(d).map(|d| Tracking::Shuffle {
            op,
            d,
            a: slot(a),
            b,
            c,
        }),
        _ => None,
    };
    let is_move = moves(op);
    let mut before: Vec<Tracking> = moved.into_iter().collect();
    let mut after = Vec::new();
    // Of a shuffle's operands, the value is moved; the others are used.
    let value = match *op {
        Op::Shuffle { a, .. } => Some(a),
        _ => None,
    };
    // What is compared may be thrown away: `if (!found || x > best)` becomes both tests and an `or` of them.
    let compared = matches!(op, Op::Compare { .. });
    let all_moved = (is_move && value.is_none()) || compared;
    op.for_each_register(&mut |usage, r| {
        let Some(slot) = slots[r.0 as usize] else {
            return;
        };
        match usage {
            Use::Read if all_moved || value == Some(*r) => {}
            Use::Read => before.insert(0, Tracking::Check { slot }),
            Use::Write if is_move => {}
            Use::Write => after.push(Tracking::Set { slot }),
        }
    });
    (before, after)
}

/// The results of an operation are set where all that it reads is.
fn combination(op: &mut Op, slots: &[Option<u32>]) -> Vec<Tracking> {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    op.for_each_register(&mut |usage, r| {
        let list = match usage {
            Use::Read => &mut read,
            Use::Write => &mut written,
        };
        list.extend(slots[r.0 as usize]);
    });
    let of = |&d: &u32| -> Vec<Tracking> {
        let from = read.iter().filter(|a| **a != d);
        let ands = from.map(|&a| Tracking::And { d, a });
        let start = (!read.contains(&d)).then_some(Tracking::Set { slot: d });
        start.into_iter().chain(ands).collect()
    };
    written.iter().flat_map(of).collect()
}

/// Whether the results of an operation are made of what it reads, and it does nothing else.
fn computes(op: &Op) -> bool {
    matches!(
        op,
        Op::IntUnary { .. }
            | Op::Count { .. }
            | Op::FloatUnary { .. }
            | Op::Convert { .. }
            | Op::Cvta { .. }
            | Op::IntBinary { .. }
            | Op::FloatBinary { .. }
            | Op::ConvertPair { .. }
            | Op::SignExtend { .. }
            | Op::IntTernary { .. }
            | Op::MadWide { .. }
            | Op::Bits { .. }
            | Op::BitExtract { .. }
            | Op::BitInsert { .. }
            | Op::Fma { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
    )
}

fn moves(op: &Op) -> bool {
    matches!(op, Op::Move { .. } | Op::Select { .. } | Op::Shuffle { .. })
}

/// The registers that are kept watch over.
struct Suspects {
    /// A number for each of them, by register.
    slots: Vec<Option<u32>>,
    /// By that number.
    origins: Vec<Origin>,
}

/// Where a value was computed with a variable that may be unset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// It is that variable.
    Nowhere,
    At(usize),
    Several,
}

impl Origin {
    fn or(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Nowhere, origin) | (origin, Origin::Nowhere) => origin,
            (a, b) if a == b => a,
            _ => Origin::Several,
        }
    }
}

/// Finds the registers that may be used before they are set, and those that are made of them.
fn suspects(
    code: &mut [Instruction],
    branch_tables: &[Vec<u32>],
    registers: &[VirtualRegister],
) -> Suspects {
    let blocks = Blocks::new(code, branch_tables);
    let words = registers.len().div_ceil(64);
    let pinned = (0..words)
        .map(|w| {
            let bits = registers[w * 64..].iter().take(64).enumerate();
            bits.fold(0u64, |set, (bit, r)| set | u64::from(r.pinned) << bit)
        })
        .collect::<Vec<_>>();
    // Registers that are set for certain at the end of each block.
    let mut at_end = vec![vec![u64::MAX; words]; blocks.ranges.len()];
    let mut before = vec![Vec::new(); blocks.ranges.len()];
    for (b, next) in blocks.next.iter().enumerate() {
        next.iter().for_each(|&n| before[n].push(b));
    }
    let at_start = |b: usize, at_end: &[Vec<u64>]| -> Vec<u64> {
        if b == 0 {
            return pinned.clone();
        }
        let mut set = vec![u64::MAX; words];
        for &from in &before[b] {
            set.iter_mut().zip(&at_end[from]).for_each(|(s, o)| *s &= o);
        }
        set
    };
    let mut changed = true;
    while changed {
        changed = false;
        for (b, range) in blocks.ranges.iter().enumerate() {
            let mut set = at_start(b, &at_end);
            for at in range.clone() {
                visit(&mut code[at], &mut set, &mut |_| {});
            }
            changed |= set != at_end[b];
            at_end[b] = set;
        }
    }
    let mut suspect = vec![false; registers.len()];
    for (b, range) in blocks.ranges.iter().enumerate() {
        let mut set = at_start(b, &at_end);
        for at in range.clone() {
            visit(&mut code[at], &mut set, &mut |r| {
                suspect[r.0 as usize] = true
            });
        }
    }
    let variable = suspect.clone();
    let mut origins = vec![Origin::Nowhere; registers.len()];
    let mut spread = suspect.contains(&true);
    while spread {
        spread = false;
        for (at, Instruction { op, .. }) in code.iter_mut().enumerate() {
            let computes = computes(op);
            if !computes && !moves(op) {
                continue;
            }
            let (mut from_suspect, mut origin) = (false, Origin::Nowhere);
            // Reads come before writes.
            op.for_each_register(&mut |usage, r| {
                let r = r.0 as usize;
                match usage {
                    Use::Read => {
                        from_suspect |= suspect[r];
                        origin = origin.or(origins[r]);
                        if computes && variable[r] {
                            origin = origin.or(Origin::At(at));
                        }
                    }
                    Use::Write => {
                        let new = origins[r].or(origin);
                        spread |= (from_suspect && !suspect[r]) || new != origins[r];
                        suspect[r] |= from_suspect;
                        origins[r] = new;
                    }
                }
            });
        }
    }
    let kept = suspect.iter().zip(origins);
    let origins = kept
        .filter_map(|(suspect, origin)| suspect.then_some(origin))
        .collect();
    let mut next = 0;
    let number = |suspect: bool| {
        suspect.then(|| {
            next += 1;
            next - 1
        })
    };
    let slots = suspect.into_iter().map(number).collect();
    Suspects { slots, origins }
}

/// Steps over an instruction: calls `unset` with registers that it reads and that may not be set, and adds what it sets.
fn visit(instruction: &mut Instruction, set: &mut [u64], unset: &mut dyn FnMut(R)) {
    let guarded = instruction.guard.is_some();
    instruction.op.for_each_register(&mut |usage, r| {
        let (word, bit) = (r.0 as usize / 64, 1u64 << (r.0 % 64));
        match usage {
            Use::Read if set[word] & bit == 0 => unset(*r),
            Use::Read => {}
            Use::Write if !guarded => set[word] |= bit,
            Use::Write => {}
        }
    });
}
