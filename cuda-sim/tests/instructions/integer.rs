//! Integers: arithmetic, carries, comparisons.

use super::rig::*;

const INTEGERS: [Ty; 6] = [U16, S16, U32, S32, U64, S64];

/// `op.ty d, a, b` in exact arithmetic.
#[track_caller]
fn binary(op: &str, types: &[Ty], f: impl Fn(Ty, i128, i128) -> i128) {
    for &ty in types {
        let body = format!("{op}.{} {{d}}, {{a}}, {{b}};", ty.name());
        check(&body, ty, &[ty, ty], |x| {
            f(ty, ty.int(x[0]), ty.int(x[1])) as u64
        });
    }
}

#[test]
fn arithmetic() {
    binary("add", &INTEGERS, |_, a, b| a + b);
    binary("sub", &INTEGERS, |_, a, b| a - b);
    binary("mul.lo", &INTEGERS, |_, a, b| a.wrapping_mul(b));
    binary("mul.hi", &[U16, S16, U32, S32, S64], |ty, a, b| {
        (a * b) >> ty.bits()
    });
    binary("mul.hi", &[U64], |_, a, b| {
        ((a as u128 * b as u128) >> 64) as i128
    });
    binary("min", &INTEGERS, |_, a, b| a.min(b));
    binary("max", &INTEGERS, |_, a, b| a.max(b));
    binary("add.sat", &[S32], |ty, a, b| {
        (a + b).clamp(ty.least(), ty.greatest())
    });
    binary("sub.sat", &[S32], |ty, a, b| {
        (a - b).clamp(ty.least(), ty.greatest())
    });
    binary("max.relu", &[S32], |_, a, b| a.max(b).max(0));
    binary("min.relu", &[S32], |_, a, b| a.min(b).max(0));
    for ty in INTEGERS {
        // Division by zero is left open.
        let nonzero = |x: i128| if x == 0 { 1 } else { x };
        for (op, f) in [
            ("div", i128::wrapping_div as fn(i128, i128) -> i128),
            ("rem", i128::wrapping_rem),
        ] {
            let (name, class) = (ty.name(), ty.bits());
            let body = format!(
                "setp.eq.b{class} %p4, {{b}}, 0;\nselp.b{class} {{b}}, 1, {{b}}, %p4;\n{op}.{name} {{d}}, {{a}}, {{b}};"
            );
            check(&body, ty, &[ty, ty], |x| {
                f(ty.int(x[0]), nonzero(ty.int(x[1]))) as u64
            });
        }
    }
}

#[test]
fn three_operands() {
    for ty in INTEGERS {
        let name = ty.name();
        let values = |x: &[u64]| [ty.int(x[0]), ty.int(x[1]), ty.int(x[2])];
        let three = [ty, ty, ty];
        check(
            &format!("mad.lo.{name} {{d}}, {{a}}, {{b}}, {{c}};"),
            ty,
            &three,
            |x| {
                let [a, b, c] = values(x);
                a.wrapping_mul(b).wrapping_add(c) as u64
            },
        );
        check(
            &format!("sad.{name} {{d}}, {{a}}, {{b}}, {{c}};"),
            ty,
            &three,
            |x| {
                let [a, b, c] = values(x);
                (c + (a - b).abs()) as u64
            },
        );
        check(
            &format!("mad.hi.{name} {{d}}, {{a}}, {{b}}, {{c}};"),
            ty,
            &three,
            |x| {
                let [a, b, c] = values(x);
                let high = if ty == U64 {
                    ((a as u128 * b as u128) >> 64) as i128
                } else {
                    (a * b) >> ty.bits()
                };
                (high + c) as u64
            },
        );
    }
    check(
        "mad.hi.sat.s32 {d}, {a}, {b}, {c};",
        S32,
        &[S32, S32, S32],
        |x| {
            let sum = ((S32.int(x[0]) * S32.int(x[1])) >> 32) + S32.int(x[2]);
            sum.clamp(S32.least(), S32.greatest()) as u64
        },
    );
    for (ty, double) in [(U16, U32), (S16, S32), (U32, U64), (S32, S64)] {
        let name = ty.name();
        check(
            &format!("mul.wide.{name} {{d}}, {{a}}, {{b}};"),
            double,
            &[ty, ty],
            |x| (ty.int(x[0]) * ty.int(x[1])) as u64,
        );
        check(
            &format!("mad.wide.{name} {{d}}, {{a}}, {{b}}, {{c}};"),
            double,
            &[ty, ty, double],
            |x| (ty.int(x[0]) * ty.int(x[1]) + double.int(x[2])) as u64,
        );
    }
    for ty in [U32, S32] {
        let low = |x: u64| {
            if ty == U32 {
                i128::from(x & 0xff_ffff)
            } else {
                i128::from(((x << 40) as i64) >> 40)
            }
        };
        for (half, shift) in [("lo", 0), ("hi", 16)] {
            let name = ty.name();
            check(
                &format!("mul24.{half}.{name} {{d}}, {{a}}, {{b}};"),
                ty,
                &[ty, ty],
                |x| ((low(x[0]) * low(x[1])) >> shift) as u64,
            );
            check(
                &format!("mad24.{half}.{name} {{d}}, {{a}}, {{b}}, {{c}};"),
                ty,
                &[ty, ty, ty],
                |x| (((low(x[0]) * low(x[1])) >> shift) + ty.int(x[2])) as u64,
            );
        }
    }
}

#[test]
fn one_operand() {
    for ty in [S16, S32, S64] {
        let name = ty.name();
        check(&format!("neg.{name} {{d}}, {{a}};"), ty, &[ty], |x| {
            -ty.int(x[0]) as u64
        });
        check(&format!("abs.{name} {{d}}, {{a}};"), ty, &[ty], |x| {
            ty.int(x[0]).unsigned_abs() as u64
        });
    }
    for ty in [U16, U32, U64] {
        let bits = ty.bits();
        check(&format!("not.b{bits} {{d}}, {{a}};"), ty, &[ty], |x| !x[0]);
        check(&format!("cnot.b{bits} {{d}}, {{a}};"), ty, &[ty], |x| {
            u64::from(x[0] == 0)
        });
        for (op, f) in [
            ("and", (|a, b| a & b) as fn(u64, u64) -> u64),
            ("or", |a, b| a | b),
            ("xor", |a, b| a ^ b),
        ] {
            check(
                &format!("{op}.b{bits} {{d}}, {{a}}, {{b}};"),
                ty,
                &[ty, ty],
                |x| f(x[0], x[1]),
            );
        }
    }
    for ty in [U32, U64] {
        let bits = ty.bits();
        check(&format!("popc.b{bits} {{d}}, {{a}};"), U32, &[ty], |x| {
            u64::from(x[0].count_ones())
        });
        check(&format!("clz.b{bits} {{d}}, {{a}};"), U32, &[ty], |x| {
            u64::from(x[0].leading_zeros() - (64 - bits))
        });
        check(&format!("brev.b{bits} {{d}}, {{a}};"), ty, &[ty], |x| {
            x[0].reverse_bits() >> (64 - bits)
        });
    }
    for ty in [U32, S32, U64, S64] {
        let name = ty.name();
        // The highest bit that differs from the sign.
        let find = |x: u64| {
            let value = if ty.int(x) < 0 { !ty.int(x) } else { ty.int(x) };
            (value != 0).then(|| u64::from(127 - value.leading_zeros()))
        };
        check(&format!("bfind.{name} {{d}}, {{a}};"), U32, &[ty], |x| {
            find(x[0]).unwrap_or(u64::MAX)
        });
        check(
            &format!("bfind.shiftamt.{name} {{d}}, {{a}};"),
            U32,
            &[ty],
            |x| find(x[0]).map_or(u64::MAX, |at| u64::from(ty.bits()) - 1 - at),
        );
    }
}

#[test]
fn carry_chains() {
    // 128-bit sums out of four 32-bit words, then the carry itself.
    let split = "mov.b64 {%r1, %r2}, {a};\nmov.b64 {%r3, %r4}, {b};\n";
    let join = "mov.b64 {d}, {%r5, %r6};";
    check(
        &format!("{split}add.cc.u32 %r5, %r1, %r3;\naddc.u32 %r6, %r2, %r4;\n{join}"),
        U64,
        &[U64, U64],
        |x| x[0].wrapping_add(x[1]),
    );
    check(
        &format!("{split}sub.cc.s32 %r5, %r1, %r3;\nsubc.s32 %r6, %r2, %r4;\n{join}"),
        U64,
        &[U64, U64],
        |x| x[0].wrapping_sub(x[1]),
    );
    check(
        "add.cc.u64 %d4, {a}, {b};\naddc.cc.u64 %d5, {c}, {c};\naddc.u64 {d}, 0, 0;",
        U64,
        &[U64, U64, U64],
        |x| {
            let carry = u128::from(x[0].checked_add(x[1]).is_none());
            ((u128::from(x[2]) * 2 + carry) >> 64) as u64
        },
    );
    check(
        "sub.cc.u64 %d4, {a}, {b};\nsubc.cc.u64 %d5, {c}, {a};\nsubc.u64 {d}, 0, 0;",
        U64,
        &[U64, U64, U64],
        |x| {
            let borrow = u128::from(x[0] < x[1]);
            if u128::from(x[2]) < u128::from(x[0]) + borrow {
                u64::MAX
            } else {
                0
            }
        },
    );
    // The high half of a 64-bit product, as libraries compute it.
    let product = "mul.lo.u32 %r5, %r1, %r3;\nmul.hi.u32 %r6, %r1, %r3;\nmad.lo.cc.u32 %r6, %r1, %r4, %r6;\nmadc.hi.u32 %r7, %r1, %r4, 0;\n\
        mad.lo.cc.u32 %r6, %r2, %r3, %r6;\nmadc.hi.cc.u32 %r7, %r2, %r3, %r7;\naddc.u32 %r8, 0, 0;\nmad.lo.cc.u32 %r7, %r2, %r4, %r7;\nmadc.hi.u32 %r8, %r2, %r4, %r8;\n";
    check(
        &format!("{split}{product}mov.b64 {{d}}, {{%r7, %r8}};"),
        U64,
        &[U64, U64],
        |x| ((u128::from(x[0]) * u128::from(x[1])) >> 64) as u64,
    );
    check(
        "mad.hi.cc.s64 %d4, {a}, {b}, {c};\naddc.u64 {d}, 0, 0;",
        U64,
        &[S64, S64, U64],
        |x| {
            let high = ((S64.int(x[0]) * S64.int(x[1])) >> 64) as u64;
            u64::from(high.checked_add(x[2]).is_none())
        },
    );
}

type Relation = fn(i128, i128) -> bool;

#[test]
fn comparisons() {
    let relations: [Named<Relation>; 6] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
    ];
    for ty in INTEGERS {
        for (op, holds) in relations {
            let name = ty.name();
            let compare = |x: &[u64]| holds(ty.int(x[0]), ty.int(x[1]));
            check(
                &format!("setp.{op}.{name} {{d}}, {{a}}, {{b}};"),
                Pred,
                &[ty, ty],
                |x| u64::from(compare(x)),
            );
            check(
                &format!("set.{op}.u32.{name} {{d}}, {{a}}, {{b}};"),
                U32,
                &[ty, ty],
                |x| if compare(x) { u64::MAX } else { 0 },
            );
        }
    }
    for (op, holds) in [
        ("lo", relations[2].1),
        ("ls", relations[3].1),
        ("hi", relations[4].1),
        ("hs", relations[5].1),
    ] {
        check(
            &format!("setp.{op}.u32 {{d}}, {{a}}, {{b}};"),
            Pred,
            &[U32, U32],
            |x| u64::from(holds(x[0].into(), x[1].into())),
        );
    }
    for (logic, f) in [
        ("and", (|a, b| a & b) as fn(bool, bool) -> bool),
        ("or", |a, b| a | b),
        ("xor", |a, b| a ^ b),
    ] {
        // Both results: the second is that of the opposite comparison.
        let both = format!(
            "setp.lt.{logic}.s32 %p4|%p5, {{a}}, {{b}}, {{c}};\nselp.u32 %r5, 1, 0, %p4;\nselp.u32 {{d}}, 2, 0, %p5;\nor.b32 {{d}}, {{d}}, %r5;"
        );
        check(&both, U32, &[S32, S32, Pred], |x| {
            let less = S32.int(x[0]) < S32.int(x[1]);
            u64::from(f(less, x[2] == 1)) | u64::from(f(!less, x[2] == 1)) << 1
        });
        check(
            &format!("set.lt.{logic}.f32.s32 {{d}}, {{a}}, {{b}}, !{{c}};"),
            F32,
            &[S32, S32, Pred],
            |x| {
                if f(S32.int(x[0]) < S32.int(x[1]), x[2] == 0) {
                    u64::from(1f32.to_bits())
                } else {
                    0
                }
            },
        );
        check(
            &format!("{logic}.pred {{d}}, {{a}}, !{{b}};"),
            Pred,
            &[Pred, Pred],
            |x| u64::from(f(x[0] == 1, x[1] == 0)),
        );
    }
    check("not.pred {d}, {a};", Pred, &[Pred], |x| 1 - x[0]);
    check(
        "slct.s64.s32 {d}, {a}, {b}, {c};",
        S64,
        &[S64, S64, S32],
        |x| x[usize::from(S32.int(x[2]) < 0)],
    );
    check(
        "selp.b16 {d}, {a}, {b}, {c};",
        U16,
        &[U16, U16, Pred],
        |x| x[usize::from(x[2] == 0)],
    );
}
