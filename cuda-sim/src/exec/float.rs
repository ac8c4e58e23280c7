//! Floating-point arithmetic on f32 and f64.
//!
//! The host's arithmetic is IEEE 754, as a GPU's is: round to nearest even with subnormals kept needs no
//! more. Other modes are computed exactly enough first and rounded by [`super::rounding`]. The approximate
//! functions are more exact here than on a GPU (`ex2.approx` has up to 2 ulp there): never assert their bits.

use super::registers::{Registers, Value};
use super::rounding::{Float, finish};
use crate::program::op::{FloatBinary, FloatMode, FloatTest, FloatUnary, Op, R, Rounding};

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(super) fn execute(registers: &mut Registers, op: &Op, mask: u32) {
    match *op {
        Op::FloatUnary {
            op,
            wide: false,
            mode,
            d,
            a,
        } => unary::<f32>(registers, mask, op, mode, d, a),
        Op::FloatUnary {
            op,
            wide: true,
            mode,
            d,
            a,
        } => unary::<f64>(registers, mask, op, mode, d, a),
        Op::FloatBinary {
            op,
            wide: false,
            mode,
            d,
            a,
            b,
        } => binary::<f32>(registers, mask, op, mode, d, a, b),
        Op::FloatBinary {
            op,
            wide: true,
            mode,
            d,
            a,
            b,
        } => binary::<f64>(registers, mask, op, mode, d, a, b),
        Op::Fma {
            wide: false,
            mode,
            d,
            a,
            b,
            c,
        } => fma::<f32>(registers, mask, mode, d, [a, b, c]),
        Op::Fma {
            wide: true,
            mode,
            d,
            a,
            b,
            c,
        } => fma::<f64>(registers, mask, mode, d, [a, b, c]),
        Op::FloatTest {
            op,
            wide: false,
            d,
            a,
        } => test::<f32>(registers, mask, op, d, a),
        Op::FloatTest {
            op,
            wide: true,
            d,
            a,
        } => test::<f64>(registers, mask, op, d, a),
        _ => unreachable!("not a floating-point operation"),
    }
}

#[inline(always)]
fn fma<T: Float + Value>(registers: &mut Registers, mask: u32, mode: FloatMode, d: R, r: [R; 3]) {
    if mode == FloatMode::PLAIN {
        registers.ternary(mask, d, r, T::mul_add);
    } else {
        registers.ternary(mask, d, r, |a: T, b: T, c: T| {
            let [a, b, c] = [a, b, c].map(|x| x.flushed(mode.ftz));
            finish(mode, a.mul_add(b, c), |down| T::fma_error(a, b, c, down))
        });
    }
}

#[inline(always)]
fn binary<T: Float + Value>(
    registers: &mut Registers,
    mask: u32,
    op: FloatBinary,
    mode: FloatMode,
    d: R,
    a: R,
    b: R,
) {
    if mode == FloatMode::PLAIN {
        return match op {
            FloatBinary::Add => registers.binary(mask, d, a, b, |a: T, b: T| a + b),
            FloatBinary::Sub => registers.binary(mask, d, a, b, |a: T, b: T| a - b),
            FloatBinary::Mul => registers.binary(mask, d, a, b, |a: T, b: T| a * b),
            FloatBinary::Div => registers.binary(mask, d, a, b, |a: T, b: T| a / b),
            FloatBinary::Min => registers.binary(mask, d, a, b, min::<T>),
            FloatBinary::Max => registers.binary(mask, d, a, b, max::<T>),
            FloatBinary::MinNan => registers.binary(mask, d, a, b, |a: T, b: T| nan_or(a, b, min)),
            FloatBinary::MaxNan => registers.binary(mask, d, a, b, |a: T, b: T| nan_or(a, b, max)),
            FloatBinary::CopySign => {
                registers.binary(mask, d, a, b, |a: T, b: T| b.with_sign_of(a))
            }
        };
    }
    registers.binary(mask, d, a, b, |a: T, b: T| {
        let (a, b) = (a.flushed(mode.ftz), b.flushed(mode.ftz));
        match op {
            FloatBinary::Add => finish(mode, a + b, |down| T::fma_error(a, T::ONE, b, down)),
            FloatBinary::Sub => finish(mode, a - b, |down| T::fma_error(a, T::ONE, -b, down)),
            FloatBinary::Mul => finish(mode, a * b, |down| T::fma_error(a, b, T::ZERO, down)),
            // The quotient q is low or high by the sign of a - q·b, seen through the sign of b.
            FloatBinary::Div => finish(mode, a / b, |q| {
                let rest = T::fma_error(-q, b, a, T::ZERO);
                if b < T::ZERO { -rest } else { rest }
            }),
            FloatBinary::Min => finish(mode, min(a, b), |_| T::ZERO),
            FloatBinary::Max => finish(mode, max(a, b), |_| T::ZERO),
            FloatBinary::MinNan => finish(mode, nan_or(a, b, min), |_| T::ZERO),
            FloatBinary::MaxNan => finish(mode, nan_or(a, b, max), |_| T::ZERO),
            FloatBinary::CopySign => b.with_sign_of(a),
        }
    });
}

/// PTX min and max give the other operand when one is NaN, and order -0 below +0.
#[inline(always)]
fn min<T: Float>(a: T, b: T) -> T {
    if a < b || b != b || (a == b && a.is_negative()) {
        a
    } else {
        b
    }
}

#[inline(always)]
fn max<T: Float>(a: T, b: T) -> T {
    if a > b || b != b || (a == b && !a.is_negative()) {
        a
    } else {
        b
    }
}

#[inline(always)]
fn nan_or<T: Float>(a: T, b: T, f: impl Fn(T, T) -> T) -> T {
    if a != a || b != b { T::NAN } else { f(a, b) }
}

#[inline(always)]
fn unary<T: Float + Value>(
    registers: &mut Registers,
    mask: u32,
    op: FloatUnary,
    mode: FloatMode,
    d: R,
    a: R,
) {
    let plain = mode == FloatMode::PLAIN;
    match op {
        FloatUnary::Neg if plain => registers.unary(mask, d, a, |a: T| -a),
        FloatUnary::Abs if plain => registers.unary(mask, d, a, T::abs),
        FloatUnary::Sqrt if plain => registers.unary(mask, d, a, T::sqrt),
        FloatUnary::Reciprocal if plain => registers.unary(mask, d, a, |a: T| T::ONE / a),
        FloatUnary::Neg => registers.unary(mask, d, a, |a: T| {
            finish(mode, -a.flushed(mode.ftz), |_| T::ZERO)
        }),
        FloatUnary::Abs => registers.unary(mask, d, a, |a: T| {
            finish(mode, a.flushed(mode.ftz).abs(), |_| T::ZERO)
        }),
        FloatUnary::Sqrt => registers.unary(mask, d, a, |a: T| {
            let a = a.flushed(mode.ftz);
            finish(mode, a.sqrt(), |root| T::fma_error(-root, root, a, T::ZERO))
        }),
        FloatUnary::Reciprocal => registers.unary(mask, d, a, |a: T| {
            let a = a.flushed(mode.ftz);
            finish(mode, T::ONE / a, |q| {
                let rest = T::fma_error(-q, a, T::ONE, T::ZERO);
                if a < T::ZERO { -rest } else { rest }
            })
        }),
        FloatUnary::Exp2 => registers.unary(mask, d, a, |a: T| approximate(mode, a, exp2)),
        FloatUnary::Log2 => registers.unary(mask, d, a, |a: T| approximate(mode, a, f64::log2)),
        FloatUnary::ReciprocalSqrt => {
            registers.unary(mask, d, a, |a: T| approximate(mode, a, |x| 1.0 / x.sqrt()))
        }
        FloatUnary::Sin => registers.unary(mask, d, a, |a: T| approximate(mode, a, f64::sin)),
        FloatUnary::Cos => registers.unary(mask, d, a, |a: T| approximate(mode, a, f64::cos)),
        FloatUnary::Tanh => registers.unary(mask, d, a, |a: T| approximate(mode, a, f64::tanh)),
    }
}

#[inline(always)]
fn approximate<T: Float>(mode: FloatMode, a: T, f: impl Fn(f64) -> f64) -> T {
    let mode = FloatMode {
        rounding: Rounding::Nearest,
        ..mode
    };
    finish(mode, T::from_f64(f(a.flushed(mode.ftz).to_f64())), |_| {
        T::ZERO
    })
}

/// 2^x for an f32 argument, to about 1e-11 relative: the fraction by the Taylor series of e^(f·ln 2) with
/// |f| ≤ 1/2, the integer part through the exponent field. Without branches, so that it runs on vectors.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    // Beyond these the f32 result is 0 or infinity; NaN passes through `max` and `min` as a bound, so it is put back.
    let clamped = x.max(-200.0).min(200.0);
    // Adding 1.5·2^52 rounds to the nearest integer and leaves it in the low bits.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let shifted = clamped + SHIFT;
    let whole = shifted - SHIFT;
    let t = (clamped - whole) * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for n in (1..=10).rev() {
        sum = 1.0 + sum * t / n as f64;
    }
    let exponent = (shifted.to_bits() as i64).wrapping_sub(SHIFT.to_bits() as i64) + 1023;
    let power = sum * f64::from_bits((exponent as u64) << 52);
    if x != x { x } else { power }
}

#[inline(always)]
fn test<T: Float + Value>(
    registers: &mut Registers,
    mask: u32,
    op: FloatTest,
    d: crate::program::op::P,
    a: R,
) {
    let subnormal = |a: T| a != T::ZERO && a.flushed(true) == T::ZERO;
    let finite = |a: T| a - a == T::ZERO;
    let bits = match op {
        FloatTest::Finite => registers.test(a, a, |a: T, _| finite(a)),
        FloatTest::Infinite => registers.test(a, a, |a: T, _| !finite(a) && a == a),
        FloatTest::Number => registers.test(a, a, |a: T, _| a == a),
        FloatTest::NotANumber => registers.test(a, a, |a: T, _| a != a),
        FloatTest::Normal => {
            registers.test(a, a, |a: T, _| finite(a) && a != T::ZERO && !subnormal(a))
        }
        FloatTest::Subnormal => registers.test(a, a, |a: T, _| subnormal(a)),
    };
    registers.write_predicate(d, mask, bits);
}
