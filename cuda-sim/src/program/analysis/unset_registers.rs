//! Finds registers that may be used before they are set, and inserts operations that track them.
//!
//! Nearly every register is set on all paths to each of its uses, and needs no tracking. For each
//! byte of the others, the warp tracks the lanes in which it is unset. The inserted operations set
//! registers, pass on unset bytes where a value is moved or computed with ([`super::byte_flow`]),
//! and check a value where it leaves the registers: as an address, in a store, for other lanes.
//! Computing with an unset value is no mistake by itself, because compilers do it:
//! `found ? 2 * best : -1` becomes a product and a selection, and the computation of a guarded loop
//! body moves out of the loop and its guard. The report names the line of the computation, if there
//! is one. A variable that only a comparison reads unset is not reported, because predicates are
//! not tracked.
//!
//! To store padding is no mistake either. If a lane stores set and unset bytes together, the unset
//! ones count as memory that was never written. A byte that was computed from an unset value is no
//! padding.

use super::basic_blocks::Blocks;
use super::byte_flow::{Making, making, recipes};
use super::register_flow;
use crate::program::instruction::{Instruction, VirtualRegister};
use crate::program::op::{Access, AsyncCopy, Flow, Op, R, Tracking, Use, UsingLanes};
use crate::ptx::SourceLine;

/// Registers that a warp tracks, and flows between them.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// Number of registers.
    pub registers: u32,
    pub flows: Vec<Flow>,
}

/// Puts the operations in. Registers are virtual, branch targets are places in `code`. `constants`
/// has the values of registers that hold one. `None` if that takes too long.
pub(crate) fn watch(
    code: &mut Vec<Instruction>,
    source: &mut Vec<SourceLine>,
    branch_tables: &mut [Vec<u32>],
    registers: &[VirtualRegister],
    constants: &[Option<u64>],
) -> Option<Tracked> {
    let Suspects { slots, origins } = suspects(code, branch_tables, registers, constants)?;
    let count = slots.iter().flatten().count() as u32;
    if count == 0 {
        return Some(Tracked::default());
    }
    let mut tracker = Tracker {
        slots: &slots,
        registers,
        constants,
        flows: Vec::new(),
    };
    let mut new_code = Vec::with_capacity(code.len());
    let mut new_source = Vec::with_capacity(code.len());
    let mut places = Vec::with_capacity(code.len() + 1);
    for (at, instruction) in code.iter_mut().enumerate() {
        places.push(new_code.len() as u32);
        let (before, after) = tracker.tracking(&instruction.op);
        let guard = instruction.guard;
        let mut track = |tracking| {
            let line = match tracking {
                Tracking::Check { slot, .. } => match origins[slot as usize] {
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
    Some(Tracked {
        registers: count,
        flows: tracker.flows,
    })
}

/// Finds what goes before and behind an operation.
struct Tracker<'a> {
    /// The number of each register that is kept watch over.
    slots: &'a [Option<u32>],
    registers: &'a [VirtualRegister],
    constants: &'a [Option<u64>],
    flows: Vec<Flow>,
}

impl Tracker<'_> {
    fn slot(&self, r: R) -> Option<u32> {
        self.slots[r.0 as usize]
    }

    fn tracking(&mut self, op: &Op) -> (Vec<Tracking>, Vec<Tracking>) {
        if let Some(flows) = self.flows_of(op) {
            return (flows, Vec::new());
        }
        let moved = match *op {
            Op::Select { d, a, b, p, .. } => self.slot(d).map(|d| Tracking::Select {
                d,
                a: self.slot(a),
                b: self.slot(b),
                p,
            }),
            Op::Shuffle { op, d, a, b, c, .. } => self.slot(d).map(|d| Tracking::Shuffle {
                op,
                d,
                a: self.slot(a),
                b,
                c,
            }),
            _ => None,
        };
        // Of a shuffle's operands, the value is moved; the others are used. What is compared may be
        // thrown away: `if (!found || x > best)` becomes both tests and an `or` of them.
        let passed_on = |r: R| match *op {
            Op::Shuffle { a, .. } => r == a,
            Op::Select { .. } | Op::Compare { .. } | Op::ComparePair { .. } => true,
            _ => false,
        };
        let sets = !matches!(op, Op::Select { .. } | Op::Shuffle { .. });
        let (mut before, mut after): (Vec<Tracking>, Vec<Tracking>) = (
            moved.into_iter().collect(),
            self.stored(op).into_iter().collect(),
        );
        for r in op.registers(Use::Read) {
            if let Some(slot) = self.slot(r).filter(|_| !passed_on(r)) {
                before.insert(0, self.check(op, r, slot));
            }
        }
        if sets {
            let written = op.registers(Use::Write).into_iter();
            let slots = written.filter_map(|r| self.slot(r));
            after.extend(slots.map(|slot| Tracking::Set { slot }));
        }
        (before, after)
    }

    /// Flow of unset bytes to the results of an operation that moves or computes; `None` if it does
    /// something else.
    fn flows_of(&mut self, op: &Op) -> Option<Vec<Tracking>> {
        let constants = self.constants;
        let known = |r: R| constants[r.0 as usize];
        let computes = making(op, &known) == Making::Computes;
        let mut all = Vec::new();
        for recipe in recipes(op, &known)? {
            let Some(d) = self.slot(recipe.d) else {
                continue;
            };
            let operands = recipe.from.into_iter();
            let from: Vec<_> = operands
                .filter_map(|(r, bytes)| Some((self.slot(r)?, bytes)))
                .collect();
            all.push(if from.is_empty() {
                Tracking::Set { slot: d }
            } else {
                self.flows.push(Flow { d, from, computes });
                Tracking::Flow {
                    flow: self.flows.len() as u32 - 1,
                }
            });
        }
        Some(all)
    }

    /// The check of a register that an operation uses.
    fn check(&self, op: &Op, r: R, slot: u32) -> Tracking {
        let whole = if self.registers[r.0 as usize].wide {
            8
        } else {
            4
        };
        let (bytes, computed) = match op {
            Op::Store {
                access, address, ..
            } if address.base != r => (access.ty.bytes(), true),
            Op::Atomic {
                access, address, ..
            } if address.base != r => (access.ty.bytes(), false),
            _ => (whole, false),
        };
        Tracking::Check {
            slot,
            bytes: u8::MAX >> (8 - bytes),
            computed,
            lanes: using_lanes(op, r),
        }
    }

    fn stored(&self, op: &Op) -> Option<Tracking> {
        let Op::Store { access, address, a } = *op else {
            return None;
        };
        let Access { ty, count, .. } = access;
        let mut slots = a.map(|a| self.slot(a));
        slots[usize::from(count)..].fill(None);
        slots
            .iter()
            .any(Option::is_some)
            .then_some(Tracking::Stored {
                address,
                count,
                bytes: ty.bytes() as u8,
                slots,
            })
    }
}

/// The lanes in which an operation uses a register: an address where nothing is read may be unset.
fn using_lanes(op: &Op, r: R) -> UsingLanes {
    match *op {
        Op::MatrixLoad(rows) => UsingLanes::Of(rows.row_lanes(u32::MAX)),
        Op::MatrixStore(rows) if r == rows.address.base && !rows.registers().contains(&r) => {
            UsingLanes::Of(rows.row_lanes(u32::MAX))
        }
        Op::CopyAsync(AsyncCopy {
            source,
            target,
            size,
            ignore,
            ..
        }) if r == source.base && r != target.base && r != size => {
            UsingLanes::Reading { size, ignore }
        }
        Op::Accumulators(accumulators) => UsingLanes::Where(accumulators.adds),
        _ => UsingLanes::Of(u32::MAX),
    }
}

/// The registers that are kept watch over.
struct Suspects {
    /// A number for each of them, by register.
    slots: Vec<Option<u32>>,
    /// By that number.
    origins: Vec<Origin>,
}

/// Place where a value was computed with a variable that may be unset.
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

/// Instructions that are looked at again to find what is made of suspects. What is not found by
/// then is not watched.
const MAX_VISITS: usize = 1 << 28;

/// Finds the registers that may be used before they are set, and those that are made of them.
/// `None` if that takes too long.
fn suspects(
    code: &mut [Instruction],
    branch_tables: &[Vec<u32>],
    registers: &[VirtualRegister],
    constants: &[Option<u64>],
) -> Option<Suspects> {
    let blocks = Blocks::new(code, branch_tables);
    let is_set = |r: usize| registers[r].pinned;
    let mut suspect = register_flow::read_unset(code, &blocks, registers.len(), is_set)?;
    // Those that hold what nobody set, and not what was computed from it.
    let mut variable = suspect.clone();
    let mut origins = vec![Origin::Nowhere; registers.len()];
    let mut spread = suspect.contains(&true);
    let passes = MAX_VISITS / code.len().max(1);
    for _ in 0..passes {
        if !std::mem::take(&mut spread) {
            break;
        }
        for (at, Instruction { op, .. }) in code.iter_mut().enumerate() {
            let making = making(op, &|r| constants[r.0 as usize]);
            if making == Making::Uses {
                continue;
            }
            let moves = making == Making::Moves;
            let (mut from_suspect, mut from_variable) = (false, false);
            let mut origin = Origin::Nowhere;
            // Reads come before writes.
            op.for_each_register(&mut |usage, r| {
                let r = r.0 as usize;
                match usage {
                    Use::Read => {
                        from_suspect |= suspect[r];
                        origin = origin.or(origins[r]);
                        from_variable |= moves && variable[r];
                        if !moves && variable[r] {
                            origin = origin.or(Origin::At(at));
                        }
                    }
                    Use::Write => {
                        let new = origins[r].or(origin);
                        spread |= (from_suspect && !suspect[r])
                            || (from_variable && !variable[r])
                            || new != origins[r];
                        suspect[r] |= from_suspect;
                        variable[r] |= from_variable;
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
    Some(Suspects { slots, origins })
}
