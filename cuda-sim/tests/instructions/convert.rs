//! Conversions, moves between registers of different widths, and address spaces as numbers.

use super::rig::*;

const INTEGERS: [Ty; 8] = [U8, S8, U16, S16, U32, S32, U64, S64];

/// The bits of `value` in a register that holds `ty`: bytes are extended to 16 bits.
fn held(ty: Ty, value: i128) -> u64 {
    ty.int(value as u64) as u64
}

#[test]
fn between_integers() {
    for from in INTEGERS {
        for to in INTEGERS {
            let pair = format!("{}.{}", to.name(), from.name());
            check(&format!("cvt.{pair} {{d}}, {{a}};"), to, &[from], |x| {
                held(to, from.int(x[0]))
            });
            check(&format!("cvt.sat.{pair} {{d}}, {{a}};"), to, &[from], |x| {
                held(to, from.int(x[0]).clamp(to.least(), to.greatest()))
            });
        }
    }
    // Registers may be wider than the types.
    check("cvt.s64.s8 {d}, {a};", S64, &[U32], |x| {
        held(S64, S8.int(x[0]))
    });
    check("cvt.u32.u16 {d}, {a};", U32, &[U64], |x| x[0] & 0xffff);
    check("cvt.s8.s32 {d}, {a};", S64, &[S32], |x| {
        held(S64, S8.int(x[0]))
    });
}

type Round = fn(f64) -> f64;

const INTEGRAL: [Named<Round>; 4] = [
    ("rni", f64::round_ties_even),
    ("rzi", f64::trunc),
    ("rmi", f64::floor),
    ("rpi", f64::ceil),
];

#[test]
fn from_float_to_integer() {
    for from in [F16, Bf16, F32, F64] {
        for to in INTEGERS {
            for (mode, round) in INTEGRAL {
                check(
                    &format!("cvt.{mode}.{}.{} {{d}}, {{a}};", to.name(), from.name()),
                    to,
                    &[from],
                    |x| {
                        let value = from.float(x[0]);
                        if value.is_nan() {
                            // PTX: 0 if neither the source is f64 nor the result has 64 bits.
                            let top = from == F64 || to.bits() == 64;
                            return if top {
                                held(to, 1 << (to.bits() - 1))
                            } else {
                                0
                            };
                        }
                        held(to, (round(value) as i128).clamp(to.least(), to.greatest()))
                    },
                );
            }
        }
    }
    check("cvt.rpi.ftz.s32.f32 {d}, {a};", S32, &[F32], |x| {
        let value = F32.float(x[0]);
        let value = if value.abs() < f64::from(f32::MIN_POSITIVE) {
            0.0
        } else {
            value
        };
        held(
            S32,
            (value.ceil() as i128).clamp(S32.least(), S32.greatest()),
        )
    });
}

/// `exact`, rounded to `ty` by searching its neighbours among all values; `compare` orders a
/// candidate and the exact value.
fn rounded(ty: Ty, mode: &str, exact: f64) -> f64 {
    let size = exact.abs();
    if exact.is_nan() || exact.is_infinite() {
        return exact;
    }
    let value = |bits: u64| ty.float(bits);
    let infinity = (0..)
        .map(|i| i << 7)
        .find(|&bits| value(bits).is_infinite())
        .unwrap_or(0);
    // The largest value that is not above, and the next.
    let (mut low, mut high) = (0, infinity);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if value(middle) <= size {
            low = middle
        } else {
            high = middle
        }
    }
    let last_step = value(infinity - 1) - value(infinity - 2);
    let above = if high == infinity {
        value(infinity - 1) + last_step
    } else {
        value(high)
    };
    let (below, above) = (value(low), above);
    let up = match (mode, exact < 0.0) {
        ("rz", _) | ("rm", false) | ("rp", true) => false,
        ("rm", true) | ("rp", false) => size > below,
        _ if size - below == above - size => low % 2 == 1,
        _ => size - below > above - size,
    };
    value(if up { high } else { low }).copysign(exact)
}

#[test]
fn from_float_to_float() {
    for from in [F16, Bf16, F32, F64] {
        for to in [F16, Bf16] {
            if from.bits() <= to.bits() {
                continue;
            }
            for mode in ["rn", "rz", "rm", "rp"] {
                let name = format!("{}.{}", to.name(), from.name());
                check(
                    &format!("cvt.{mode}.{name} {{d}}, {{a}};"),
                    to,
                    &[from],
                    |x| float_bits(to, rounded(to, mode, from.float(x[0]))),
                );
            }
        }
    }
    for from in [F16, Bf16] {
        check(
            &format!("cvt.f32.{} {{d}}, {{a}};", from.name()),
            F32,
            &[from],
            |x| float_bits(F32, from.float(x[0])),
        );
        check(
            &format!("cvt.f64.{} {{d}}, {{a}};", from.name()),
            F64,
            &[from],
            |x| float_bits(F64, from.float(x[0])),
        );
    }
    check("cvt.rn.sat.f16.f32 {d}, {a};", F16, &[F32], |x| {
        let value = F32.float(x[0]);
        float_bits(
            F16,
            if value > 0.0 {
                rounded(F16, "rn", value.min(1.0))
            } else {
                0.0
            },
        )
    });
    check("cvt.f64.f32 {d}, {a};", F64, &[F32], |x| {
        F32.float(x[0]).to_bits()
    });
    check("cvt.ftz.f64.f32 {d}, {a};", F64, &[F32], |x| {
        let value = F32.float(x[0]);
        if value.abs() < f64::from(f32::MIN_POSITIVE) {
            (0f64.copysign(value)).to_bits()
        } else {
            value.to_bits()
        }
    });
    for mode in ["rn", "rz", "rm", "rp"] {
        check(
            &format!("cvt.{mode}.f32.f64 {{d}}, {{a}};"),
            F32,
            &[F64],
            |x| {
                let (value, near) = (F64.float(x[0]), F64.float(x[0]) as f32);
                let exact = f64::from(near);
                let (less, more) = (exact < value, exact > value);
                let moved = match mode {
                    "rm" if more => near.next_down(),
                    "rp" if less => near.next_up(),
                    "rz" if more && value > 0.0 => near.next_down(),
                    "rz" if less && value < 0.0 => near.next_up(),
                    _ => near,
                };
                u64::from(moved.to_bits())
            },
        );
    }
    for ty in [F32, F64] {
        for (mode, round) in INTEGRAL {
            let name = ty.name();
            check(
                &format!("cvt.{mode}.{name}.{name} {{d}}, {{a}};"),
                ty,
                &[ty],
                |x| float_bits(ty, round(ty.float(x[0]))),
            );
        }
    }
    check("cvt.rzi.sat.f32.f32 {d}, {a};", F32, &[F32], |x| {
        let value = F32.float(x[0]).trunc();
        float_bits(F32, if value > 0.0 { value.min(1.0) } else { 0.0 })
    });
}

/// Values that need every bit of f32, where rounding to 16 bits goes wrong if it is done in two
/// steps.
#[test]
fn halves_are_rounded_once() {
    for (to, fraction) in [(F16, 10), (Bf16, 7)] {
        for x in [1.0, -3.25, 1e-7, 65504.0] {
            let middle = 1.0 + 0.5 / f64::from(1 << fraction);
            for off in [f64::from(f32::EPSILON), -f64::from(f32::EPSILON), 0.0] {
                let value = (x * (middle + off)) as f32;
                let got = run(
                    &format!("cvt.rn.{}.f32 {{d}}, {{a}};", to.name()),
                    to,
                    &[F32],
                    &[vec![u64::from(value.to_bits())]],
                )[0];
                assert_eq!(
                    to.float(got),
                    rounded(to, "rn", value.into()),
                    "{value:e} to {to:?}"
                );
            }
        }
        let name = format!("{}x2", to.name());
        check(
            &format!("cvt.rn.{name}.f32 {{d}}, {{a}}, {{b}};"),
            U32,
            &[F32, F32],
            |x| {
                let half = |x: u64| float_bits(to, rounded(to, "rn", F32.float(x)));
                half(x[0]) << 16 | half(x[1])
            },
        );
    }
}

#[test]
fn from_integer_to_float() {
    for from in INTEGERS {
        for to in [F32, F64] {
            for mode in ["rn", "rz", "rm", "rp"] {
                check(
                    &format!("cvt.{mode}.{}.{} {{d}}, {{a}};", to.name(), from.name()),
                    to,
                    &[from],
                    |x| {
                        let value = from.int(x[0]);
                        let near = if to == F32 {
                            f64::from(value as f32)
                        } else {
                            value as f64
                        };
                        let step = |up: bool| match (to, up) {
                            (F32, true) => f64::from((near as f32).next_up()),
                            (F32, false) => f64::from((near as f32).next_down()),
                            (_, true) => near.next_up(),
                            (_, false) => near.next_down(),
                        };
                        let (less, more) = ((near as i128) < value, near as i128 > value);
                        let moved = match mode {
                            "rm" if more => step(false),
                            "rp" if less => step(true),
                            "rz" if more && value > 0 => step(false),
                            "rz" if less && value < 0 => step(true),
                            _ => near,
                        };
                        float_bits(to, moved)
                    },
                );
            }
        }
        for to in [F16, Bf16] {
            for mode in ["rn", "rz", "rm", "rp"] {
                check(
                    &format!("cvt.{mode}.{}.{} {{d}}, {{a}};", to.name(), from.name()),
                    to,
                    &[from],
                    |x| float_bits(to, rounded(to, mode, leading_digits(from.int(x[0])))),
                );
            }
        }
    }
}

/// `value` with its first 40 digits, the last of which is 1 if one behind them is: it is rounded to
/// 16 bits as `value` is.
fn leading_digits(value: i128) -> f64 {
    let size = value.unsigned_abs();
    let behind = (128 - size.leading_zeros()).saturating_sub(40);
    let kept = size >> behind;
    let sticky = u128::from(kept << behind != size);
    ((kept | sticky) << behind) as f64 * value.signum() as f64
}

#[test]
fn integers_with_more_digits_than_f64_are_rounded_to_halves_once() {
    for (instruction, value, half) in [
        ("cvt.rn.bf16.u64", (1 << 63) + (1 << 55) + 1, 0x5f01),
        ("cvt.rn.bf16.u64", (1 << 63) + (3 << 55) - 1, 0x5f01),
        (
            "cvt.rn.bf16.s64",
            ((1 << 62) + (1 << 54) + 1u64).wrapping_neg(),
            0xde81,
        ),
        ("cvt.rz.bf16.s64", (1 << 63) - 1, 0x5eff),
        ("cvt.rm.bf16.s64", 1 << 63 | 1, 0xdf00),
        ("cvt.rp.bf16.s64", 1 << 63 | 1, 0xdeff),
    ] {
        let from = if instruction.ends_with("u64") {
            U64
        } else {
            S64
        };
        let body = format!("{instruction} {{d}}, {{a}};");
        let got = run(&body, Bf16, &[from], &[vec![value]]);
        assert_eq!(got[0], half, "{instruction} of {value:#x}");
    }
}

#[test]
fn packing() {
    check("mov.b64 {d}, {{a}, {b}};", U64, &[U32, U32], |x| {
        x[1] << 32 | x[0]
    });
    check("mov.b32 {d}, {{a}, {b}};", U32, &[S16, U16], |x| {
        x[1] << 16 | x[0]
    });
    check(
        "mov.b64 {d}, {{a}, {b}, {a}, {c}};",
        U64,
        &[U16, U16, S16],
        |x| x[2] << 48 | x[0] << 32 | x[1] << 16 | x[0],
    );
    check("mov.b64 {_, {d}}, {a};", U32, &[U64], |x| x[0] >> 32);
    check("mov.b32 {_, {d}}, {a};", U16, &[U32], |x| x[0] >> 16);
    check("mov.b64 {%h4, %h5, {d}, %h6}, {a};", U16, &[U64], |x| {
        x[0] >> 32 & 0xffff
    });
    // A byte that was sign-extended into its register must not leak into its neighbour.
    check(
        "cvt.s8.s32 %h5, {a};\nmov.b32 {d}, {%h5, {b}};",
        U32,
        &[S32, U16],
        |x| x[1] << 16 | S8.int(x[0]) as u64 & 0xffff,
    );
    check("mov.u32 {d}, WARP_SZ;", U32, &[], |_| 32);
    check("mov.f32 {d}, 0d3ff8000000000000;", F32, &[], |_| {
        u64::from(1.5f32.to_bits())
    });
    check("mov.f64 {d}, 0.1;", F64, &[], |_| 0.1f64.to_bits());
    check("mov.b64 {d}, -1;", U64, &[], |_| u64::MAX);
}
