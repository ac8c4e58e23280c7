//! What cards show and PTX leaves open, value by value. The hashes of `cards.rs` say the same of
//! the cards' own operands.

use super::rig::{self, Bf16, F16, F32, F64, S32, Ty, U32, U64};

/// The results of an instruction, and of other operands.
#[track_caller]
fn gives(body: &str, d: Ty, a: Ty, pairs: &[(u64, u64)]) {
    let (operands, expected): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
    let got = rig::run(body, d, &[a], &[operands]);
    assert_eq!(got, expected, "{body}: {got:x?}, not {expected:x?}");
}

/// The one NaN of f32 arithmetic.
const NAN: u64 = 0x7fff_ffff;

#[test]
fn a_nan_of_f32_arithmetic_is_7fffffff() {
    let nans = [0x7fc0_0000, 0xffc0_0001, 0x7f80_0001, 0xff80_0001].map(|nan| (nan, NAN));
    for ftz in ["", ".ftz"] {
        for body in [
            "add{}.f32 {d}, {a}, 0f3f800000;",
            "sub{}.f32 {d}, 0f3f800000, {a};",
            "mul{}.f32 {d}, {a}, 0f3f800000;",
            "div.rn{}.f32 {d}, {a}, 0f3f800000;",
            "sqrt.rn{}.f32 {d}, {a};",
            "rcp.rn{}.f32 {d}, {a};",
            "fma.rn{}.f32 {d}, {a}, 0f3f800000, 0f3f800000;",
            "min{}.f32 {d}, {a}, {a};",
            "max{}.f32 {d}, {a}, {a};",
            "abs{}.f32 {d}, {a};",
            "neg{}.f32 {d}, {a};",
        ] {
            gives(&body.replace("{}", ftz), F32, F32, &nans);
        }
        // What is no NaN before.
        let infinity = [(0x7f80_0000, NAN)];
        gives(
            &format!("sub{ftz}.f32 {{d}}, {{a}}, {{a}};"),
            F32,
            F32,
            &infinity,
        );
        let halves = [(0x7e00, NAN), (0xfc01, NAN)];
        gives(
            &format!("cvt{ftz}.f32.f16 {{d}}, {{a}};"),
            F32,
            F16,
            &halves,
        );
    }
}

#[test]
fn the_sign_of_a_half_nan_is_kept_by_one_bf16_alone() {
    for op in ["neg", "abs"] {
        gives(
            &format!("{op}.f16 {{d}}, {{a}};"),
            F16,
            F16,
            &[(0x7e01, 0x7fff), (0xfe01, 0x7fff)],
        );
        for pair in ["f16x2", "bf16x2"] {
            let body = format!("{op}.{pair} {{d}}, {{a}};");
            gives(&body, U32, U32, &[(0xffc1_7fc1, 0x7fff_7fff)]);
        }
    }
    gives(
        "neg.bf16 {d}, {a};",
        Bf16,
        Bf16,
        &[(0x7fc1, 0xffc1), (0xffc1, 0x7fc1)],
    );
    gives(
        "abs.bf16 {d}, {a};",
        Bf16,
        Bf16,
        &[(0x7fc1, 0x7fc1), (0xffc1, 0x7fc1)],
    );
}

#[test]
fn f64_keeps_the_sign_and_the_digits_of_a_nan() {
    let nans = [0x7ff8_0000_0000_0001, 0xfff8_0000_0000_0001].map(|nan| (nan, nan));
    for body in ["neg.f64 {d}, {a};", "abs.f64 {d}, {a};"] {
        gives(body, F64, F64, &nans);
    }
}

#[test]
fn conversions_of_a_nan() {
    let doubles = [
        (0xfff8_0400_0000_0000, 0xfe01),
        (0x7ff8_0000_0000_0001, 0x7e00),
    ];
    gives("cvt.rn.f16.f64 {d}, {a};", F16, F64, &doubles);
    // f64 is the exception: its sign and first digits stay.
    let doubles = [
        (0x7ff8_0000_2000_0000, 0x7fc0_0001),
        (0xfff8_0000_0000_0000, 0xffc0_0000),
    ];
    for body in ["cvt.rn.f32.f64 {d}, {a};", "cvt.rn.ftz.f32.f64 {d}, {a};"] {
        gives(body, F32, F64, &doubles);
    }
    gives(
        "cvt.ftz.f64.f32 {d}, {a};",
        F64,
        F32,
        &[(0xffc0_0001, 0x7fff_ffff_e000_0000)],
    );
    gives(
        "cvt.f64.f16 {d}, {a};",
        F64,
        F16,
        &[(0x7c01, 0x7ff8_0400_0000_0000)],
    );
    let floats = [0x7fc0_3fff, 0xff80_0001, 0x7fff_ffff].map(|a| (a, a & !0x1fff));
    gives("cvt.rna.tf32.f32 {d}, {a};", U32, F32, &floats);
}

#[test]
fn a_remainder_by_zero() {
    gives(
        "rem.u32 {d}, {a}, 0;",
        U32,
        U32,
        &[(7, 0xffff_ffff), (0, 0xffff_ffff)],
    );
    gives(
        "rem.s32 {d}, {a}, 0;",
        S32,
        S32,
        &[(7, 0xffff_ffff), (0xffff_fff9, 0xffff_ffff)],
    );
    gives("rem.u64 {d}, {a}, 0;", U64, U64, &[(7, 7)]);
}
