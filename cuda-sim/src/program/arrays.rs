//! Finds the shared array that an address is made from, for the memory instructions where there is exactly one.
//!
//! Each static shared array is a variable of its own in PTX. An address that is computed from its name and from numbers is
//! meant to lie within it. Arrays that follow one another can be told apart by that and by nothing else: an index that
//! runs past the end of the first finds the second. Origins are those of a register over the whole kernel; where two
//! meet, or where an address is computed in an unusual way, the origin is unknown, and nothing is asked of the access.

use super::module::Instruction;
use super::op::{IntBinary, IntTernary, MemorySpace, Op, R};
use super::uses::Use;

/// What the values of a register are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// No value has been seen yet.
    Nothing,
    /// Numbers.
    Numbers,
    /// The address of the shared array that starts at this offset, and numbers.
    Array(u64),
    /// Anything.
    Unknown,
}

impl Origin {
    /// The origin of a value that is one or the other.
    fn or(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Nothing, origin) | (origin, Origin::Nothing) => origin,
            (a, b) if a == b => a,
            _ => Origin::Unknown,
        }
    }

    fn plus(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Nothing, _) | (_, Origin::Nothing) => Origin::Nothing,
            (Origin::Numbers, origin) | (origin, Origin::Numbers) => origin,
            _ => Origin::Unknown,
        }
    }

    fn minus(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Array(a), Origin::Array(b)) if a == b => Origin::Numbers,
            (_, Origin::Array(_)) => Origin::Unknown,
            _ => self.plus(other),
        }
    }

    /// The origin of what an operation makes of this and `other`, if it makes no addresses.
    fn mixed(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Nothing, _) | (_, Origin::Nothing) => Origin::Nothing,
            (Origin::Numbers, Origin::Numbers) => Origin::Numbers,
            _ => Origin::Unknown,
        }
    }
}

/// Passes over the code after which nothing is said of it.
const MAX_PASSES: usize = 64;

/// The start of the array of each memory instruction, in the order of the code. `origins` has what registers hold that no
/// instruction writes. Registers are virtual.
pub(super) fn arrays(code: &mut [Instruction], mut origins: Vec<Origin>) -> Vec<Option<u64>> {
    let settled = (0..MAX_PASSES).any(|_| !spread(code, &mut origins));
    let array_of = |op: &Op| {
        let address = match op {
            Op::Load { address, .. } | Op::Store { address, .. } | Op::Atomic { address, .. } => {
                address
            }
            _ => return None,
        };
        let within = matches!(address.space, MemorySpace::Shared | MemorySpace::Generic);
        Some(match origins[address.base.0 as usize] {
            Origin::Array(start) if within && settled => Some(start),
            _ => None,
        })
    };
    code.iter().filter_map(|i| array_of(&i.op)).collect()
}

/// Passes the origins on from what each instruction reads to what it writes. True if one has changed.
fn spread(code: &mut [Instruction], origins: &mut [Origin]) -> bool {
    let mut changed = false;
    for Instruction { op, .. } in code {
        let result = result(op, origins);
        op.for_each_register(&mut |usage, r| {
            let origin = &mut origins[r.0 as usize];
            if usage == Use::Write && origin.or(result) != *origin {
                *origin = origin.or(result);
                changed = true;
            }
        });
    }
    changed
}

/// The origin of what an instruction writes.
fn result(op: &mut Op, origins: &[Origin]) -> Origin {
    let of = |r: R| origins[r.0 as usize];
    match *op {
        Op::Move { a, .. } | Op::Convert { a, .. } | Op::Cvta { a, .. } | Op::Shuffle { a, .. } => {
            of(a)
        }
        Op::Select { a, b, .. } | Op::SelectSign { a, b, .. } => of(a).or(of(b)),
        Op::IntBinary {
            op: IntBinary::Add,
            a,
            b,
            ..
        } => of(a).plus(of(b)),
        Op::IntBinary {
            op: IntBinary::Sub,
            a,
            b,
            ..
        } => of(a).minus(of(b)),
        Op::IntTernary {
            op: IntTernary::MadLow,
            a,
            b,
            c,
            ..
        }
        | Op::MadWide { a, b, c, .. } => of(a).mixed(of(b)).plus(of(c)),
        // Addresses are kept in memory, too. An argument is the host's, which knows no shared addresses.
        Op::Load {
            access, address, ..
        } if access.ty.is_wide() && address.space != MemorySpace::Param => Origin::Unknown,
        Op::Atomic { access, .. } if access.ty.is_wide() => Origin::Unknown,
        Op::Load { .. } | Op::Atomic { .. } => Origin::Numbers,
        _ => {
            let mut result = Origin::Numbers;
            op.for_each_register(&mut |usage, r| {
                if usage == Use::Read {
                    result = result.mixed(of(*r));
                }
            });
            result
        }
    }
}
