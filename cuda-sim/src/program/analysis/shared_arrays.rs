//! Finds the shared array that an address is computed from, for memory instructions where there is
//! exactly one.
//!
//! Each static shared array is a variable of its own in PTX. An address that is computed from its
//! name and from numbers is meant to lie within it. Arrays that follow one another can be told
//! apart by that and by nothing else: an index that runs past the end of the first finds the
//! second. Origins are those of a register over the whole kernel; where two meet, or where an
//! address is computed in an unusual way, the origin is unknown, and nothing is asked of the
//! access.

use crate::program::instruction::Instruction;
use crate::program::op::{Address, IntBinary, IntTernary, MemorySpace, Op, R, Use};

/// Origin of the values of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
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

/// The start of the array of each of the `sites` memory accesses, by number. `origins` has what
/// registers hold that no instruction writes. Registers are virtual.
pub(crate) fn arrays(
    code: &[Instruction],
    mut origins: Vec<Origin>,
    sites: u32,
) -> Vec<Option<u64>> {
    let settled = (0..MAX_PASSES).any(|_| !spread(code, &mut origins));
    let array_of = |address: &Address| {
        let within = matches!(address.space, MemorySpace::Shared | MemorySpace::Generic);
        match origins[address.base.0 as usize] {
            Origin::Array(start) if within && settled => Some(start),
            _ => None,
        }
    };
    let mut arrays = vec![None; sites as usize];
    for (access, address, _) in code
        .iter()
        .flat_map(|instruction| instruction.op.accesses())
    {
        arrays[access.site as usize] = array_of(&address);
    }
    arrays
}

/// Passes the origins on from what each instruction reads to what it writes. True if one has
/// changed.
fn spread(code: &[Instruction], origins: &mut [Origin]) -> bool {
    let mut changed = false;
    for Instruction { op, .. } in code {
        let result = result(op, origins);
        for r in op.registers(Use::Write) {
            let origin = &mut origins[r.0 as usize];
            changed |= origin.or(result) != *origin;
            *origin = origin.or(result);
        }
    }
    changed
}

/// The origin of what an instruction writes.
fn result(op: &Op, origins: &[Origin]) -> Origin {
    let origin = |r: R| origins[r.0 as usize];
    match *op {
        Op::Move { a, .. } | Op::Convert { a, .. } | Op::Cvta { a, .. } | Op::Shuffle { a, .. } => {
            origin(a)
        }
        Op::Select { a, b, .. } | Op::SelectSign { a, b, .. } => origin(a).or(origin(b)),
        Op::IntBinary {
            op: IntBinary::Add,
            a,
            b,
            ..
        } => origin(a).plus(origin(b)),
        Op::IntBinary {
            op: IntBinary::Sub,
            a,
            b,
            ..
        } => origin(a).minus(origin(b)),
        Op::IntTernary {
            op: IntTernary::MadLow,
            a,
            b,
            c,
            ..
        }
        | Op::MadWide { a, b, c, .. } => origin(a).mixed(origin(b)).plus(origin(c)),
        // Addresses are kept in memory, too. An argument is the host's, which knows no shared
        // addresses.
        Op::Load {
            access, address, ..
        } if access.ty.is_wide() && address.space != MemorySpace::Param => Origin::Unknown,
        Op::Atomic { access, .. } if access.ty.is_wide() => Origin::Unknown,
        Op::Load { .. } | Op::Atomic { .. } => Origin::Numbers,
        _ => {
            let reads = op.registers(Use::Read).into_iter();
            reads.fold(Origin::Numbers, |result, r| result.mixed(origin(r)))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::program::Module;

    /// The limits of the loads, stores and atomics of a kernel with arrays `a`, of 256 bytes, and
    /// `b`, of 64.
    fn limits(body: &str) -> Vec<Option<(u64, u64)>> {
        let text = format!(
            ".version 8.4\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 rest[];\n\
             .visible .entry t()\n{{\n.shared .align 4 .b8 a[256];\n.shared .align 4 .b8 b[64];\n\
             .reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n{body}\nret;\n}}\n"
        );
        let kernel = Module::load(&text).unwrap().kernel("t").unwrap();
        kernel.arrays.clone()
    }

    const A: Option<(u64, u64)> = Some((0, 256));
    const B: Option<(u64, u64)> = Some((256, 320));

    #[test]
    fn an_address_made_from_one_array_is_known_through_arithmetic() {
        let body = "mov.u32 %r1, %tid.x;\nmov.u64 %d1, b;\nmul.wide.u32 %d2, %r1, 4;\nadd.s64 %d3, %d2, %d1;\n\
                    ld.shared.u32 %r2, [%d3+-4];\nmov.u32 %r3, a;\nmad.lo.s32 %r4, %r2, 4, %r3;\n\
                    st.shared.u32 [%r4], %r2;\ncvta.shared.u64 %d4, %d3;\nsub.s64 %d5, %d4, %d2;\n\
                    atom.add.u32 %r5, [%d5], 1;\nst.shared.u32 [a+8], %r5;";
        assert_eq!(limits(body), [B, A, B, A]);
    }

    #[test]
    fn an_address_made_from_two_arrays_or_from_memory_is_unknown() {
        let either = "mov.u64 %d1, a;\nmov.u64 %d2, b;\nsetp.eq.u64 %p1, %d1, 0;\nselp.b64 %d3, %d1, %d2, %p1;\n\
                      st.shared.u32 [%d3], 0;";
        let distance = "mov.u64 %d1, a;\nmov.u64 %d2, b;\nsub.s64 %d3, %d2, %d1;\nadd.s64 %d4, %d1, %d3;\n\
                        st.shared.u32 [%d4], 0;";
        let from_memory = "mov.u64 %d1, a;\nst.shared.u64 [b], %d1;\nld.shared.u64 %d2, [b];\nadd.s64 %d3, %d1, %d2;\n\
                           st.shared.u32 [%d3], 0;";
        let masked = "mov.u64 %d1, b;\nand.b64 %d1, %d1, -64;\nst.shared.u32 [%d1], 0;";
        assert_eq!(limits(either), [None]);
        assert_eq!(limits(distance), [None]);
        assert_eq!(limits(from_memory), [B, B, None]);
        assert_eq!(limits(masked), [None]);
        assert_eq!(
            limits("mov.u64 %d1, rest;\nst.shared.u32 [%d1], 0;"),
            [None]
        );
    }

    #[test]
    fn a_pointer_that_moves_in_a_loop_keeps_its_array() {
        let body = "mov.u64 %d1, a;\nLOOP:\nld.shared.u32 %r1, [%d1];\nadd.s64 %d1, %d1, 4;\nsetp.ne.u32 %p1, %r1, 0;\n\
                    @%p1 bra LOOP;";
        assert_eq!(limits(body), [A]);
        // The pointers change their parts.
        let swapped = "mov.u64 %d1, a;\nmov.u64 %d2, b;\nLOOP:\nld.shared.u32 %r1, [%d1];\nmov.u64 %d3, %d1;\n\
                       mov.u64 %d1, %d2;\nmov.u64 %d2, %d3;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra LOOP;";
        assert_eq!(limits(swapped), [None]);
    }
}
