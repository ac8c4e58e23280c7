//! Tests of [`crate::program::analysis::byte_flow`] against what operations do.

use crate::exec::operations::dispatch::handlers;
use crate::exec::registers::Registers;
use crate::program::analysis::byte_flow::recipes;
use crate::program::op::*;

const A: R = R(0);
const B: R = R(2);
const C: R = R(4);
const D: R = R(6);
const E: R = R(8);
/// Registers that hold the constants of an operation.
const K: R = R(10);
const L: R = R(12);

/// True if the operation uses a register as one of 64 bits.
fn is_wide(op: &Op, r: R) -> bool {
    match *op {
        Op::Move { wide, .. } => wide,
        Op::Pack { bits, count, .. } => r == D && bits * count == 64,
        Op::Unpack { bits, count, .. } => r == A && bits * count == 64,
        Op::Convert {
            to_wide, from_wide, ..
        } => [from_wide, to_wide][usize::from(r == D)],
        Op::IntBinary { op, ty, b, .. } => {
            let shifts = matches!(op, IntBinary::ShiftLeft | IntBinary::ShiftRight);
            ty.is_wide() && !(shifts && r == b)
        }
        Op::IntUnary { ty, .. } | Op::IntTernary { ty, .. } => ty.is_wide(),
        Op::MadWide { ty, c, .. } => ty.bytes() == 4 && (r == c || r == D),
        Op::BitExtract { ty, .. } => ty.is_wide() && (r == A || r == D),
        Op::BitInsert { wide, a, b, .. } => wide && (r == a || r == b || r == D),
        _ => false,
    }
}

/// For each byte of `D`, the bytes of an operand that change it, in some lane and round.
fn influence(op: &Op, operand: R, constants: [u64; 2]) -> [u8; 8] {
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(99991);
        seed ^ seed >> 29
    };
    let form = op.form().expect("an operation on registers");
    let run = |values: &[[u64; 32]; 5]| -> [u64; 32] {
        let mut registers = Registers::default();
        registers.reset(14, 0, 2);
        let mut write = |r, values: &[u64; 32]| {
            registers.write_either(r, is_wide(op, r), u32::MAX, values);
        };
        for (r, values) in [A, B, C, D, E].into_iter().zip(values) {
            write(r, values);
        }
        write(K, &[constants[0]; 32]);
        write(L, &[constants[1]; 32]);
        // SAFETY: the handlers are those for this processor.
        unsafe { (handlers().compute[form as usize])(&mut registers, op, u32::MAX) };
        registers.read_either(D, is_wide(op, D))
    };
    let mut found = [0; 8];
    for _ in 0..40 {
        let mut values = [(); 5].map(|()| std::array::from_fn(|_| random()));
        values[D.0 as usize / 2] = [0; 32];
        let before = run(&values);
        for byte in 0..8 {
            let mut changed = values;
            for value in &mut changed[operand.0 as usize / 2] {
                *value ^= (random() >> 13 & 0xff) << (8 * byte);
            }
            for (new, old) in run(&changed).into_iter().zip(before) {
                for (to, found) in found.iter_mut().enumerate() {
                    *found |= u8::from((new ^ old) >> (8 * to) & 0xff != 0) << byte;
                }
            }
        }
    }
    found
}

fn binary(op: IntBinary, ty: Type, a: R, b: R) -> Op {
    let d = D;
    Op::IntBinary { op, ty, d, a, b }
}

/// Compares what is said of an operation with what it does. `exact`: nothing more is said.
fn hold(op: Op, numbers: [u64; 2], exact: bool) {
    let mut constants = vec![None; 14];
    constants[K.0 as usize] = Some(numbers[0]);
    constants[L.0 as usize] = Some(numbers[1]);
    let recipes = recipes(&op, &|r| constants[r.0 as usize]).expect("it moves or computes");
    let recipe = recipes.iter().find(|r| r.d == D).expect("a result");
    for operand in [A, B, C, E] {
        let mut said = [0u8; 8];
        for (_, from) in recipe.from.iter().filter(|(r, _)| *r == operand) {
            said.iter_mut()
                .zip(from)
                .for_each(|(said, from)| *said |= from);
        }
        let done = influence(&op, operand, numbers);
        let more = said.iter().zip(done).any(|(said, done)| done & !said != 0);
        assert!(
            !more,
            "{op:?} {numbers:x?}: {operand:?} {done:x?}, said {said:x?}"
        );
        if exact {
            assert_eq!(said, done, "{op:?} {numbers:x?}: {operand:?}");
        }
    }
}

const TYPES: [Type; 6] = [
    Type::U16,
    Type::S16,
    Type::U32,
    Type::S32,
    Type::U64,
    Type::S64,
];

#[test]
fn bytes_are_followed_through_moves_and_packing() {
    for wide in [false, true] {
        hold(Op::Move { wide, d: D, a: A }, [0; 2], true);
    }
    for (bits, count) in [(32, 2), (16, 4), (16, 2), (8, 4)] {
        let parts = [A, B, C, E];
        let pack = Op::Pack {
            bits,
            count,
            d: D,
            parts,
        };
        hold(pack, [0; 2], true);
        for i in 0..usize::from(count) {
            let mut parts = [None; 4];
            parts[i] = Some(D);
            let unpack = Op::Unpack {
                bits,
                count,
                parts,
                a: A,
            };
            hold(unpack, [0; 2], true);
        }
    }
}

#[test]
fn bytes_are_followed_through_conversions_of_integers() {
    for to in TYPES.into_iter().chain([Type::U8, Type::S8]) {
        for from in TYPES.into_iter().chain([Type::U8, Type::S8]) {
            let how = Conversion {
                to,
                from,
                mode: FloatMode::PLAIN,
                integral: false,
            };
            let (to_wide, from_wide) = (to.is_wide(), from.is_wide());
            let convert = Op::Convert {
                how,
                to_wide,
                from_wide,
                d: D,
                a: A,
            };
            hold(convert, [0; 2], true);
        }
    }
}

#[test]
fn bytes_are_followed_through_shifts_and_masks_by_constants() {
    for ty in TYPES {
        for n in [0, 3, 8, 13, 16, 31, 32, 40, 63, 64, 200] {
            for op in [IntBinary::ShiftLeft, IntBinary::ShiftRight] {
                hold(binary(op, ty, A, K), [n, 0], true);
            }
        }
        for value in [
            0,
            0xff,
            0xf0f0,
            0xffff_0000,
            0xffff_ffff_0000_0000,
            u64::MAX,
        ] {
            for op in [IntBinary::And, IntBinary::Or, IntBinary::Xor] {
                hold(binary(op, ty, A, K), [value, 0], true);
                hold(binary(op, ty, K, A), [value, 0], true);
                hold(binary(op, ty, A, B), [value, 0], true);
            }
        }
        for (op, exact) in [
            (IntUnary::Not, true),
            (IntUnary::Reverse, true),
            (IntUnary::Neg, false),
        ] {
            if op != IntUnary::Reverse || ty.bytes() > 2 {
                hold(Op::IntUnary { op, ty, d: D, a: A }, [0; 2], exact);
            }
        }
    }
}

#[test]
fn bytes_are_followed_through_fields_and_selections_of_bytes() {
    let three = |op, c, numbers| {
        hold(
            Op::Bits {
                op,
                d: D,
                a: A,
                b: B,
                c,
            },
            numbers,
            true,
        )
    };
    for selector in [0x3210, 0x5410, 0x7632, 0x0123, 0x4440, 0xba98, 0x8041] {
        three(Bits::Permute, K, [selector, 0]);
    }
    for n in [0, 5, 8, 16, 31, 32, 40] {
        three(Bits::FunnelLeftWrap, K, [n, 0]);
        three(Bits::FunnelLeftClamp, K, [n, 0]);
        three(Bits::FunnelRightWrap, K, [n, 0]);
        three(Bits::FunnelRightClamp, K, [n, 0]);
    }
    for table in [0x00, 0x96, 0xc0, 0xe8, 0xca, 0xaa] {
        three(Bits::Lop3(table), C, [0; 2]);
        three(Bits::Lop3(table), K, [0xff00_00ff, 0]);
    }
    for (start, length) in [
        (0, 8),
        (8, 8),
        (4, 16),
        (16, 16),
        (24, 20),
        (0, 0),
        (40, 16),
        (60, 9),
    ] {
        for ty in &TYPES[2..] {
            let (start, length, numbers) = (K, L, [start, length]);
            let extract = Op::BitExtract {
                ty: *ty,
                d: D,
                a: A,
                start,
                length,
            };
            hold(extract, numbers, true);
            let wide = ty.is_wide();
            let insert = Op::BitInsert {
                wide,
                d: D,
                a: A,
                b: B,
                start,
                length,
            };
            hold(insert, numbers, true);
        }
    }
}

#[test]
fn what_is_computed_depends_on_no_more_bytes_than_said() {
    for ty in TYPES {
        use IntBinary::{Add, Max, MulHigh, MulLow, ShiftLeft, Sub};
        for op in [Add, Sub, MulLow, MulHigh, Max, ShiftLeft] {
            hold(binary(op, ty, A, B), [0; 2], false);
        }
        let op = IntTernary::MadLow;
        hold(
            Op::IntTernary {
                op,
                ty,
                d: D,
                a: A,
                b: B,
                c: C,
            },
            [0; 2],
            false,
        );
        if !ty.is_wide() {
            hold(
                Op::MadWide {
                    ty,
                    d: D,
                    a: A,
                    b: B,
                    c: C,
                },
                [0; 2],
                false,
            );
        }
    }
    let how = Narrowing {
        to: NarrowType::F16,
        rounding: Rounding::Nearest,
        ties_away: false,
        relu: false,
        finite: false,
    };
    hold(
        Op::ConvertPair {
            how,
            d: D,
            a: A,
            b: B,
        },
        [0; 2],
        false,
    );
    for pair in [false, true] {
        let mode = HalfMode {
            bf16: false,
            pair,
            ftz: false,
            clamp: Clamp::None,
        };
        hold(
            Op::Half {
                op: HalfOp::Fma,
                mode,
                d: D,
                a: A,
                b: B,
                c: C,
            },
            [0; 2],
            false,
        );
    }
    let (start, length) = (B, C);
    hold(
        Op::BitExtract {
            ty: Type::U32,
            d: D,
            a: A,
            start,
            length,
        },
        [0; 2],
        false,
    );
    hold(
        Op::BitInsert {
            wide: true,
            d: D,
            a: A,
            b: E,
            start,
            length,
        },
        [0; 2],
        false,
    );
}
