//! Floating-point arithmetic on f32 and f64.
//!
//! The host's arithmetic is IEEE 754, as a GPU's is: round to nearest even with subnormals kept
//! needs no more. Other modes are computed exactly enough first and rounded by
//! [`crate::exec::operations::rounding`]. The approximate functions are more exact here than on a
//! GPU (`ex2.approx` has up to 2 ulp there): never assert their bits.

use crate::exec::fused::multiply_add;
use crate::exec::operations::rounding::{Float, finish};
use crate::exec::registers::{Registers, Value};
use crate::program::op::{FloatBinary, FloatMode, FloatTest, FloatUnary, Op, P, R, Rounding};

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(crate) fn execute(registers: &mut Registers, op: &Op, mask: u32) {
    match *op {
        Op::FloatUnary {
            op,
            wide,
            mode,
            d,
            a,
        } => {
            let (ftz, usual) = (mode.ftz, is_usual(mode));
            match op {
                _ if wide => unary::<f64>(registers, mask, op, mode, d, a),
                FloatUnary::Exp2 if !mode.saturate => {
                    common_unary(registers, mask, ftz, d, a, exp2)
                }
                FloatUnary::Neg if usual => common_unary(registers, mask, ftz, d, a, |a| -a),
                FloatUnary::Abs if usual => common_unary(registers, mask, ftz, d, a, f32::abs),
                FloatUnary::Sqrt if usual => common_unary(registers, mask, ftz, d, a, f32::sqrt),
                FloatUnary::Reciprocal if usual => {
                    common_unary(registers, mask, ftz, d, a, |a| 1.0 / a);
                }
                _ => unary::<f32>(registers, mask, op, mode, d, a),
            }
        }
        Op::FloatBinary {
            op,
            wide,
            mode,
            d,
            a,
            b,
        } => {
            let (ftz, usual) = (mode.ftz, is_usual(mode));
            match op {
                _ if wide => binary::<f64>(registers, mask, op, mode, d, a, b),
                FloatBinary::Add if usual => common(registers, mask, ftz, d, a, b, |a, b| a + b),
                FloatBinary::Sub if usual => common(registers, mask, ftz, d, a, b, |a, b| a - b),
                FloatBinary::Mul if usual => common(registers, mask, ftz, d, a, b, |a, b| a * b),
                FloatBinary::Div if usual => common(registers, mask, ftz, d, a, b, |a, b| a / b),
                FloatBinary::Min if usual => common(registers, mask, ftz, d, a, b, min),
                FloatBinary::Max if usual => common(registers, mask, ftz, d, a, b, max),
                // Not arithmetic: a NaN keeps its bits.
                FloatBinary::CopySign => {
                    registers.binary(mask, d, a, b, |a: u32, b: u32| a & 1 << 31 | b & !(1 << 31))
                }
                _ => binary::<f32>(registers, mask, op, mode, d, a, b),
            }
        }
        Op::Fma {
            wide,
            mode,
            d,
            a,
            b,
            c,
        } => {
            let r = [a, b, c];
            match mode {
                _ if wide => fma::<f64>(registers, mask, mode, d, r),
                FloatMode::PLAIN => registers.ternary(mask, d, r, multiply_add),
                _ if is_usual(mode) => registers.ternary(mask, d, r, |a: f32, b: f32, c: f32| {
                    multiply_add(a.flushed(true), b.flushed(true), c.flushed(true)).flushed(true)
                }),
                DOWN => registers.ternary(mask, d, r, |a: f32, b: f32, c: f32| {
                    fused(DOWN, multiply_add(a, b, c), a, b, c)
                }),
                _ => fma::<f32>(registers, mask, mode, d, r),
            }
        }
        Op::FloatTest { op, wide, d, a } if wide => test::<f64>(registers, mask, op, d, a),
        Op::FloatTest { op, d, a, .. } => test::<f32>(registers, mask, op, d, a),
        _ => unreachable!("not a floating-point operation"),
    }
}

const DOWN: FloatMode = FloatMode {
    rounding: Rounding::Down,
    ..FloatMode::PLAIN
};

/// Rounding to nearest without saturation.
#[inline(always)]
fn is_usual(mode: FloatMode) -> bool {
    mode.rounding == Rounding::Nearest && !mode.saturate
}

#[inline(always)]
fn common_unary(
    registers: &mut Registers,
    mask: u32,
    ftz: bool,
    d: R,
    a: R,
    f: impl Fn(f32) -> f32,
) {
    registers.unary(mask, d, a, |a: f32| f(a.flushed(ftz)).flushed(ftz));
}

/// The operations that kernels are made of: f32, to nearest, with or without `.ftz`.
#[inline(always)]
fn common(
    registers: &mut Registers,
    mask: u32,
    ftz: bool,
    d: R,
    a: R,
    b: R,
    f: impl Fn(f32, f32) -> f32,
) {
    if ftz {
        registers.binary(mask, d, a, b, |a: f32, b: f32| {
            f(a.flushed(true), b.flushed(true)).flushed(true)
        });
    } else {
        registers.binary(mask, d, a, b, f);
    }
}

fn fma<T: Float + Value>(registers: &mut Registers, mask: u32, mode: FloatMode, d: R, r: [R; 3]) {
    registers.ternary_by(mask, d, r, &|a: T, b: T, c: T| {
        let [a, b, c] = [a, b, c].map(|x| x.flushed(mode.ftz));
        fused(mode, a.mul_add(b, c), a, b, c)
    });
}

fn binary<T: Float + Value>(
    registers: &mut Registers,
    mask: u32,
    op: FloatBinary,
    mode: FloatMode,
    d: R,
    a: R,
    b: R,
) {
    let exact = |_| T::ZERO;
    registers.binary_by(mask, d, a, b, &|a: T, b: T| {
        let (a, b) = (a.flushed(mode.ftz), b.flushed(mode.ftz));
        match op {
            FloatBinary::Add => fused(mode, a + b, a, T::ONE, b),
            FloatBinary::Sub => fused(mode, a - b, a, T::ONE, -b),
            FloatBinary::Mul => finish(mode, a * b, |near| T::fma_error(a, b, T::ZERO, near)),
            FloatBinary::Div => finish(mode, a / b, |q| quotient_error(a, b, q)),
            FloatBinary::DivApprox => {
                let large = b.abs() > T::from_f64(2f64.powi(126));
                finish(mode, if large { a * (T::ZERO / b) } else { a / b }, exact)
            }
            FloatBinary::Min => finish(mode, min(a, b), exact),
            FloatBinary::Max => finish(mode, max(a, b), exact),
            FloatBinary::MinNan => finish(mode, nan_or(a, b, min), exact),
            FloatBinary::MaxNan => finish(mode, nan_or(a, b, max), exact),
            FloatBinary::CopySign => b.with_sign_of(a),
        }
    });
}

/// Rounds `a·b + c`, whose nearest is `near`. An exact zero out of opposite parts is -0 when
/// rounding down.
#[inline(always)]
fn fused<T: Float>(mode: FloatMode, near: T, a: T, b: T, c: T) -> T {
    let opposite = (a.is_negative() != b.is_negative()) != c.is_negative();
    let cancelled = mode.rounding == Rounding::Down
        && near == T::ZERO
        && opposite
        && T::fma_error(a, b, c, near) == T::ZERO;
    let near = if cancelled { -T::ZERO } else { near };
    finish(mode, near, |near| T::fma_error(a, b, c, near))
}

/// A number with the sign of `a/b - q`: that of `a - q·b`, seen through the sign of b.
fn quotient_error<T: Float>(a: T, b: T, q: T) -> T {
    let finite = |x: T| x.abs() < T::INFINITY;
    if finite(a) && b != T::ZERO && !finite(q) {
        return -q;
    }
    let rest = T::fma_error(-q, b, a, T::ZERO);
    if b < T::ZERO { -rest } else { rest }
}

/// PTX min and max give the other operand when one is NaN, and order -0 below +0.
#[inline(always)]
fn min<T: Float>(a: T, b: T) -> T {
    if a < b || b.is_nan() || (a == b && a.is_negative()) {
        a
    } else {
        b
    }
}

#[inline(always)]
fn max<T: Float>(a: T, b: T) -> T {
    if a > b || b.is_nan() || (a == b && !a.is_negative()) {
        a
    } else {
        b
    }
}

#[inline(always)]
fn nan_or<T: Float>(a: T, b: T, f: impl Fn(T, T) -> T) -> T {
    if a.is_nan() || b.is_nan() {
        T::NAN
    } else {
        f(a, b)
    }
}

fn unary<T: Float + Value>(
    registers: &mut Registers,
    mask: u32,
    op: FloatUnary,
    mode: FloatMode,
    d: R,
    a: R,
) {
    let exact = |_| T::ZERO;
    let approximate = |x: T, f: fn(f64) -> f64| {
        let mode = FloatMode {
            rounding: Rounding::Nearest,
            ..mode
        };
        finish(mode, T::from_f64(f(x.to_f64())), exact)
    };
    registers.unary_by(mask, d, a, &|a: T| {
        let a = a.flushed(mode.ftz);
        match op {
            // A NaN keeps its sign.
            FloatUnary::Neg | FloatUnary::Abs if a.is_nan() => a + a,
            FloatUnary::Neg => finish(mode, -a, exact),
            FloatUnary::Abs => finish(mode, a.abs(), exact),
            FloatUnary::Sqrt => {
                finish(mode, a.sqrt(), |root| T::fma_error(-root, root, a, T::ZERO))
            }
            FloatUnary::Reciprocal => finish(mode, T::ONE / a, |q| quotient_error(T::ONE, a, q)),
            FloatUnary::Exp2 => approximate(a, f64::exp2),
            FloatUnary::Log2 => approximate(a, f64::log2),
            FloatUnary::ReciprocalSqrt => approximate(a, |x| 1.0 / x.sqrt()),
            FloatUnary::Sin => approximate(a, f64::sin),
            FloatUnary::Cos => approximate(a, f64::cos),
            FloatUnary::Tanh => approximate(a, f64::tanh),
        }
    });
}

/// 2^x, to about one unit in the last place, and exact for whole x: the fraction by the Taylor
/// series of e^(f·ln 2) with |f| ≤ 1/2, the whole part through the exponent field. Without
/// branches, so that it runs on vectors.
#[inline(always)]
pub(super) fn exp2(x: f32) -> f32 {
    // Beyond these the result is 0 or infinity; NaN passes through `max` and `min` as a bound, so
    // it is put back.
    #[allow(clippy::manual_clamp)] // `clamp` has a branch for bad bounds.
    let clamped = x.max(-160.0).min(160.0);
    // Adding 1.5·2^23 rounds to the nearest integer and leaves it in the low bits.
    const SHIFT: f32 = 12_582_912.0;
    let shifted = clamped + SHIFT;
    let fraction = clamped - (shifted - SHIFT);
    // ln(2)^k / k!, from k = 7 to 1.
    #[allow(clippy::excessive_precision)] // The shortest text of each f32.
    const TERMS: [f32; 7] = [
        1.5252733646775596e-05,
        0.0001540352968731895,
        0.0013333557872101665,
        0.009618128649890423,
        0.05550410971045494,
        0.24022650718688965,
        0.6931471824645996,
    ];
    let mut sum = TERMS[0];
    for term in &TERMS[1..] {
        sum = multiply_add(sum, fraction, *term);
    }
    let power = multiply_add(sum, fraction, 1.0);
    // In two steps, because 2^whole may be subnormal, or too large, where the result is not.
    let whole = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    let half = whole >> 1;
    let scale = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    let result = power * scale(half) * scale(whole - half);
    if x.is_nan() { x } else { result }
}

fn test<T: Float + Value>(registers: &mut Registers, mask: u32, op: FloatTest, d: P, a: R) {
    let subnormal = |a: T| a != T::ZERO && a.flushed(true) == T::ZERO;
    let finite = |a: T| a.abs() < T::INFINITY;
    let bits = registers.test_by(a, a, &|a: T, _| match op {
        FloatTest::Finite => finite(a),
        FloatTest::Infinite => a.abs() == T::INFINITY,
        FloatTest::Number => !a.is_nan(),
        FloatTest::NotANumber => a.is_nan(),
        // PTX counts zeros as normal.
        FloatTest::Normal => finite(a) && !subnormal(a),
        FloatTest::Subnormal => subnormal(a),
    });
    registers.write_predicate(d, mask, bits);
}
