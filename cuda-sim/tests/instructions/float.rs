//! Floating point: rounding in every direction, subnormals, saturation, NaN, approximations.

use super::rig::*;

/// A sum of products of finite numbers, exactly: digits in base 2^32 from 2^-2148 up, each with its
/// sign.
#[derive(Clone)]
struct Exact(Vec<i64>);

impl Exact {
    fn sum(products: &[(f64, f64)]) -> Exact {
        let mut digits = vec![0i64; 140];
        for &(a, b) in products {
            let parts = |x: f64| {
                let field = (x.to_bits() >> 52 & 0x7ff).max(1);
                let hidden = u64::from(x.is_normal()) << 52;
                (
                    u128::from(x.to_bits() & ((1 << 52) - 1) | hidden),
                    field as usize - 1,
                )
            };
            let ((a_digits, a_place), (b_digits, b_place)) = (parts(a), parts(b));
            let sign = if a.is_sign_negative() == b.is_sign_negative() {
                1
            } else {
                -1
            };
            let mut rest = a_digits * b_digits;
            let mut place = a_place + b_place;
            while rest != 0 {
                let room = 32 - place % 32;
                let low = (rest & ((1 << room) - 1)) as i64;
                digits[place / 32] += sign * (low << (place % 32));
                (rest, place) = (rest >> room, place + room);
            }
        }
        Exact(digits)
    }

    fn sign(mut self) -> i32 {
        let mut carry = 0;
        for digit in &mut self.0 {
            let sum = *digit + carry;
            (*digit, carry) = (sum & 0xffff_ffff, sum >> 32);
        }
        if carry < 0 {
            -1
        } else {
            i32::from(self.0.iter().any(|&d| d != 0))
        }
    }
}

type Step = fn(f64) -> f64;

/// `near` moved to the neighbour that `mode` wants, if the exact value lies `above` (1) or below
/// (-1) it.
fn directed(ty: Ty, mode: &str, near: f64, above: i32) -> f64 {
    let (up, down): (Step, Step) = match ty {
        F32 => (
            |x| (x as f32).next_up().into(),
            |x| (x as f32).next_down().into(),
        ),
        _ => (f64::next_up, f64::next_down),
    };
    match (mode, above) {
        ("rm", -1) => down(near),
        ("rp", 1) => up(near),
        ("rz", -1) if near > 0.0 => down(near),
        ("rz", 1) if near < 0.0 => up(near),
        _ => near,
    }
}

fn flush(x: f64, ftz: bool) -> f64 {
    if ftz && x.abs() < f64::from(f32::MIN_POSITIVE) {
        0f64.copysign(x)
    } else {
        x
    }
}

fn saturate(x: f64, sat: bool) -> f64 {
    match sat {
        true if x.is_nan() || x <= 0.0 => 0.0,
        true => x.min(1.0),
        false => x,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Sqrt,
    Rcp,
}

use Operation::*;

/// The products whose sum is the exact result minus its argument.
type Terms<'a> = dyn Fn(f64) -> Vec<(f64, f64)> + 'a;

/// Result of `operation` as IEEE 754 has it, in any direction.
fn ieee(operation: Operation, ty: Ty, mode: &str, x: &[f64]) -> f64 {
    let (a, b, c) = (
        x[0],
        x.get(1).copied().unwrap_or(0.0),
        x.get(2).copied().unwrap_or(0.0),
    );
    let near = |wide: f64, narrow: f32| if ty == F32 { f64::from(narrow) } else { wide };
    let (af, bf, cf) = (a as f32, b as f32, c as f32);
    // The terms whose sum has the sign of what was rounded off.
    let (near, terms): (f64, &Terms<'_>) = match operation {
        Add => (near(a + b, af + bf), &|r| {
            vec![(a, 1.0), (b, 1.0), (-r, 1.0)]
        }),
        Sub => (near(a - b, af - bf), &|r| {
            vec![(a, 1.0), (-b, 1.0), (-r, 1.0)]
        }),
        Mul => (near(a * b, af * bf), &|r| vec![(a, b), (-r, 1.0)]),
        Fma => (near(a.mul_add(b, c), af.mul_add(bf, cf)), &|r| {
            vec![(a, b), (c, 1.0), (-r, 1.0)]
        }),
        Div => (near(a / b, af / bf), &|r| {
            vec![(a, b.signum()), (-r, b.abs())]
        }),
        Rcp => (near(1.0 / a, 1.0 / af), &|r| {
            vec![(1.0, a.signum()), (-r, a.abs())]
        }),
        Sqrt => (near(a.sqrt(), af.sqrt()), &|r| vec![(a, 1.0), (-r, r)]),
    };
    let by_zero = operation == Div && b == 0.0 || operation == Rcp && a == 0.0;
    if near.is_nan() || x.iter().any(|x| x.is_infinite()) || by_zero {
        return near;
    }
    let above = if near.is_infinite() {
        -near.signum() as i32
    } else {
        Exact::sum(&terms(near)).sign()
    };
    let parts = match operation {
        Add => Some((a, b)),
        Sub => Some((a, -b)),
        Fma => Some(((a * b.signum()), c)),
        _ => None,
    };
    let opposite = parts.is_some_and(|(x, y)| x.is_sign_negative() != y.is_sign_negative());
    match (mode, above) {
        ("rm", 0) if near == 0.0 && opposite => -0.0,
        _ => directed(ty, mode, near, above),
    }
}

#[test]
fn arithmetic_rounds_in_every_direction() {
    for (name, operation, count) in [
        ("add", Add, 2),
        ("sub", Sub, 2),
        ("mul", Mul, 2),
        ("fma", Fma, 3),
        ("div", Div, 2),
        ("sqrt", Sqrt, 1),
        ("rcp", Rcp, 1),
    ] {
        for mode in ["rn", "rz", "rm", "rp"] {
            for (ty, ftz, sat) in [
                (F32, false, false),
                (F32, true, false),
                (F32, false, true),
                (F64, false, false),
            ] {
                if sat && matches!(operation, Div | Sqrt | Rcp) {
                    continue;
                }
                let modifiers = format!(
                    "{mode}{}{}",
                    if ftz { ".ftz" } else { "" },
                    if sat { ".sat" } else { "" }
                );
                let operands = &["{a}", "{b}", "{c}"][..count];
                let body = format!(
                    "{name}.{modifiers}.{} {{d}}, {};",
                    ty.name(),
                    operands.join(", ")
                );
                check(&body, ty, &[ty; 3][..count], |x| {
                    let x: Vec<f64> = x.iter().map(|&x| flush(ty.float(x), ftz)).collect();
                    float_bits(ty, saturate(flush(ieee(operation, ty, mode, &x), ftz), sat))
                });
            }
        }
    }
}

#[test]
fn results_outside_the_range_of_f64() {
    let one = |body: &str, a: f64, b: f64| {
        f64::from_bits(
            run(
                body,
                F64,
                &[F64, F64],
                &[vec![a.to_bits()], vec![b.to_bits()]],
            )[0],
        )
    };
    assert_eq!(one("mul.rz.f64 {d}, {a}, {b};", 1e200, 1e200), f64::MAX);
    assert_eq!(
        one("mul.rp.f64 {d}, {a}, {b};", 1e-200, 1e-200),
        f64::from_bits(1)
    );
    assert_eq!(
        one("mul.rm.f64 {d}, {a}, {b};", -1e-200, 1e-200),
        -f64::from_bits(1)
    );
    assert_eq!(
        one("add.rm.f64 {d}, {a}, {b};", f64::MAX, f64::MAX),
        f64::MAX
    );
    assert_eq!(one("div.rz.f64 {d}, {a}, {b};", 1e300, -1e-300), f64::MIN);
    assert_eq!(
        one("add.rm.f64 {d}, {a}, {b};", 2.5, -2.5).to_bits(),
        (-0f64).to_bits()
    );
}

#[test]
fn minimum_and_maximum() {
    for ty in [F32, F64] {
        for (name, larger) in [("min", false), ("max", true)] {
            // -0 is less than +0, and one NaN gives the other operand.
            let pick = move |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
                (true, _) => b,
                (_, true) => a,
                _ if a.total_cmp(&b).is_gt() == larger => a,
                _ => b,
            };
            let typed = ty.name();
            check(
                &format!("{name}.{typed} {{d}}, {{a}}, {{b}};"),
                ty,
                &[ty, ty],
                |x| float_bits(ty, pick(ty.float(x[0]), ty.float(x[1]))),
            );
            if ty == F32 {
                check(
                    &format!("{name}.NaN.f32 {{d}}, {{a}}, {{b}};"),
                    ty,
                    &[ty, ty],
                    |x| {
                        let (a, b) = (ty.float(x[0]), ty.float(x[1]));
                        float_bits(
                            ty,
                            if a.is_nan() || b.is_nan() {
                                f64::NAN
                            } else {
                                pick(a, b)
                            },
                        )
                    },
                );
                check(
                    &format!("{name}.ftz.f32 {{d}}, {{a}}, {{b}};"),
                    ty,
                    &[ty, ty],
                    |x| {
                        float_bits(
                            ty,
                            pick(flush(ty.float(x[0]), true), flush(ty.float(x[1]), true)),
                        )
                    },
                );
            }
        }
    }
}

type Relation = fn(&f64, &f64) -> bool;

/// False for NaN.
fn is_at_least_zero(x: f64) -> bool {
    x >= 0.0
}

#[test]
fn signs_and_classes() {
    for ty in [F32, F64] {
        let (name, top) = (ty.name(), 1u64 << (ty.bits() - 1));
        check(&format!("neg.{name} {{d}}, {{a}};"), ty, &[ty], |x| {
            x[0] ^ top
        });
        check(&format!("abs.{name} {{d}}, {{a}};"), ty, &[ty], |x| {
            x[0] & !top
        });
        check(
            &format!("copysign.{name} {{d}}, {{a}}, {{b}};"),
            ty,
            &[ty, ty],
            |x| x[1] & !top | x[0] & top,
        );
        let least = if ty == F32 {
            f64::from(f32::MIN_POSITIVE)
        } else {
            f64::MIN_POSITIVE
        };
        let tests: [(&str, &dyn Fn(f64) -> bool); 6] = [
            ("finite", &|x| x.is_finite()),
            ("infinite", &|x| x.is_infinite()),
            ("number", &|x| !x.is_nan()),
            ("notanumber", &|x| x.is_nan()),
            // Zeros are normal numbers here.
            ("normal", &|x| {
                x == 0.0 || (x.is_finite() && x.abs() >= least)
            }),
            ("subnormal", &|x| x != 0.0 && x.abs() < least),
        ];
        for (test, holds) in tests {
            check(
                &format!("testp.{test}.{name} {{d}}, {{a}};"),
                Pred,
                &[ty],
                |x| u64::from(holds(ty.float(x[0]))),
            );
        }
    }
    check("neg.ftz.f32 {d}, {a};", F32, &[F32], |x| {
        float_bits(F32, -flush(F32.float(x[0]), true))
    });
    check(
        "slct.b32.f32 {d}, {a}, {b}, {c};",
        U32,
        &[U32, U32, F32],
        |x| x[usize::from(!is_at_least_zero(F32.float(x[2])))],
    );
    check(
        "slct.ftz.b32.f32 {d}, {a}, {b}, {c};",
        U32,
        &[U32, U32, F32],
        |x| x[usize::from(!is_at_least_zero(flush(F32.float(x[2]), true)))],
    );
}

#[test]
fn comparisons() {
    let relations: [Named<Relation>; 6] = [
        ("eq", f64::eq),
        ("ne", |a, b| {
            a.partial_cmp(b).is_some_and(|order| order.is_ne())
        }),
        ("lt", f64::lt),
        ("le", f64::le),
        ("gt", f64::gt),
        ("ge", f64::ge),
    ];
    for ty in [F16, Bf16, F32, F64] {
        let name = ty.name();
        let test = |op: &str, holds: &dyn Fn(f64, f64) -> bool| {
            check(
                &format!("setp.{op}.{name} {{d}}, {{a}}, {{b}};"),
                Pred,
                &[ty, ty],
                |x| u64::from(holds(ty.float(x[0]), ty.float(x[1]))),
            );
            if ty == F32 {
                check(
                    &format!("set.{op}.ftz.f32.f32 {{d}}, {{a}}, {{b}};"),
                    F32,
                    &[ty, ty],
                    |x| {
                        let yes = holds(flush(ty.float(x[0]), true), flush(ty.float(x[1]), true));
                        float_bits(F32, f64::from(u8::from(yes)))
                    },
                );
            }
        };
        for (op, holds) in relations {
            test(op, &|a, b| holds(&a, &b));
            test(&format!("{op}u"), &|a, b| {
                a.is_nan() || b.is_nan() || holds(&a, &b)
            });
        }
        test("num", &|a, b| !a.is_nan() && !b.is_nan());
        test("nan", &|a, b| a.is_nan() || b.is_nan());
    }
}

/// Runs `op` and asserts that results lie within `ulp` units in the last place, or within
/// `absolute`, of `f`.
#[track_caller]
fn approximate(op: &str, ty: Ty, ulp: f64, absolute: f64, range: f64, f: impl Fn(f64) -> f64) {
    check_by(
        &format!("{op}.{} {{d}}, {{a}};", ty.name()),
        ty,
        &[ty],
        |x, got| {
            let ftz = op.ends_with("ftz");
            let a = flush(ty.float(x[0]), ftz && ty == F32);
            let (got, wanted) = (ty.float(got), f(a));
            if a.abs() > range && a.is_finite() {
                return Ok(());
            }
            let least = if ty == F32 {
                f64::from(f32::MIN_POSITIVE)
            } else {
                f64::MIN_POSITIVE
            };
            let digits = if ty == F32 { 23 } else { 52 };
            let unit = 2f64.powi(wanted.abs().max(least).log2().floor() as i32 - digits);
            let near = (got - wanted).abs() <= (ulp * unit).max(absolute);
            let flushed = ftz && wanted.abs() < least && got == 0.0;
            let beyond = wanted.is_finite()
                && wanted.abs() > f64::from(f32::MAX)
                && ty == F32
                && got == f64::INFINITY.copysign(wanted);
            let same = got == wanted && got.is_sign_negative() == wanted.is_sign_negative()
                || got.is_nan() && wanted.is_nan();
            if near || flushed || beyond || same {
                Ok(())
            } else {
                Err(format!("{wanted:e}, but {got:e}"))
            }
        },
    );
}

#[test]
fn approximations_are_within_their_bounds() {
    for ftz in ["", ".ftz"] {
        let op = |name: &str| format!("{name}.approx{ftz}");
        approximate(&op("ex2"), F32, 2.0, 0.0, f64::INFINITY, f64::exp2);
        approximate(
            &op("lg2"),
            F32,
            4.0,
            2f64.powi(-22),
            f64::INFINITY,
            f64::log2,
        );
        approximate(&op("rcp"), F32, 1.0, 0.0, f64::INFINITY, f64::recip);
        approximate(&op("sqrt"), F32, 2.0, 0.0, f64::INFINITY, f64::sqrt);
        approximate(&op("rsqrt"), F32, 2.0, 0.0, f64::INFINITY, |x| {
            1.0 / x.sqrt()
        });
        approximate(&op("sin"), F32, 0.0, 2f64.powi(-20), 6.3, f64::sin);
        approximate(&op("cos"), F32, 0.0, 2f64.powi(-20), 6.3, f64::cos);
    }
    approximate(
        "tanh.approx",
        F32,
        2f64.powi(13),
        0.0,
        f64::INFINITY,
        f64::tanh,
    );
    let flush64 = |x: f64| {
        if x.abs() < f64::MIN_POSITIVE {
            0f64.copysign(x)
        } else {
            x
        }
    };
    approximate(
        "rcp.approx.ftz",
        F64,
        2f64.powi(32),
        0.0,
        f64::INFINITY,
        |x| flush64(x).recip(),
    );
    approximate(
        "rsqrt.approx.ftz",
        F64,
        2f64.powi(32),
        0.0,
        f64::INFINITY,
        |x| 1.0 / flush64(x).sqrt(),
    );
    for (op, ftz) in [
        ("div.approx", false),
        ("div.approx.ftz", true),
        ("div.full", false),
    ] {
        check_by(
            &format!("{op}.f32 {{d}}, {{a}}, {{b}};"),
            F32,
            &[F32, F32],
            |x, got| {
                let (a, b) = (flush(F32.float(x[0]), ftz), flush(F32.float(x[1]), ftz));
                let got = F32.float(got);
                let large = b.is_finite() && b.abs() > 2f64.powi(126) && op != "div.full";
                let wanted = match large {
                    true if a.is_finite() => 0.0 * a * b.signum(),
                    true => f64::NAN,
                    false => flush(a / b, ftz),
                };
                // Quotients that are not normal have no bound.
                let subnormal = wanted.abs() < f64::from(f32::MIN_POSITIVE)
                    && got.abs() <= f64::from(f32::MIN_POSITIVE);
                let beyond = wanted.abs() > f64::from(f32::MAX) && got.is_infinite();
                let near = (got - wanted).abs() <= wanted.abs() * 2f64.powi(-22);
                if got == wanted || near || beyond || subnormal || got.is_nan() && wanted.is_nan() {
                    Ok(())
                } else {
                    Err(format!("{wanted:e}"))
                }
            },
        );
    }
}
