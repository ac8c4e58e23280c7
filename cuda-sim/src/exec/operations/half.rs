//! 16-bit floats: arithmetic, and conversions from and to f64.
//!
//! f16 and bf16 differ in their bits of fraction, 10 and 7, and in nothing else: the rest of 15 bits is the exponent. Values
//! are computed in f64 and rounded once: where f64 cannot hold a sum, its last digit is made odd, which no later rounding
//! takes for a tie. All is written without branches, so that it runs on vectors.

use crate::exec::operations::float::exp2;
use crate::exec::operations::rounding::two_sum;
use crate::exec::registers::Registers;
use crate::program::op::{Clamp, HalfMode, HalfOp, NarrowType, Narrowing, Op, R, Rounding};

/// Bits of fraction.
pub(crate) const F16: u32 = 10;
pub(crate) const BF16: u32 = 7;

/// The NaN that arithmetic returns.
const NAN: u16 = 0x7fff;

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(crate) fn execute(registers: &mut Registers, op: &Op, mask: u32) {
    match *op {
        Op::Half {
            op,
            mode,
            d,
            a,
            b,
            c,
        } if mode.bf16 => arithmetic::<BF16>(registers, mask, op, mode, d, [a, b, c]),
        Op::Half {
            op,
            mode,
            d,
            a,
            b,
            c,
        } => arithmetic::<F16>(registers, mask, op, mode, d, [a, b, c]),
        Op::Narrow { how, d, a } => registers.unary(mask, d, a, |a: f32| narrowed(how, a)),
        Op::ConvertPair { how, d, a, b } => convert_pair(registers, mask, how, d, a, b),
        _ => unreachable!("not an operation on 16-bit floats"),
    }
}

#[inline(always)]
fn arithmetic<const FRACTION: u32>(
    registers: &mut Registers,
    mask: u32,
    op: HalfOp,
    mode: HalfMode,
    d: R,
    r: [R; 3],
) {
    let value = widen::<FRACTION>;
    let round = narrow::<FRACTION>;
    macro_rules! each {
        ($f:expr) => {
            each::<FRACTION>(registers, mask, mode, d, r, $f)
        };
    }
    match op {
        HalfOp::Neg => each!(|a, _, _| a ^ 0x8000),
        HalfOp::Abs => each!(|a, _, _| a & 0x7fff),
        HalfOp::Exp2 => each!(|a, _, _| round(f64::from(exp2(value(a) as f32)))),
        HalfOp::Tanh => each!(|a, _, _| round(value(a).tanh())),
        HalfOp::Add => each!(|a, b, _| round(odd_sum(value(a), value(b)))),
        HalfOp::Sub => each!(|a, b, _| round(odd_sum(value(a), -value(b)))),
        HalfOp::Mul => each!(|a, b, _| round(value(a) * value(b))),
        HalfOp::Fma => each!(|a, b, c| round(odd_sum(value(a) * value(b), value(c)))),
        HalfOp::Min => each!(|a, b, _| least::<FRACTION>(a, b, false, false)),
        HalfOp::Max => each!(|a, b, _| least::<FRACTION>(a, b, true, false)),
        HalfOp::MinNan => each!(|a, b, _| least::<FRACTION>(a, b, false, true)),
        HalfOp::MaxNan => each!(|a, b, _| least::<FRACTION>(a, b, true, true)),
    }
}

/// Applies `f` to each value of the operands, with the modifiers of `mode`.
#[inline(always)]
fn each<const FRACTION: u32>(
    registers: &mut Registers,
    mask: u32,
    mode: HalfMode,
    d: R,
    r: [R; 3],
    f: impl Fn(u16, u16, u16) -> u16,
) {
    let one = |a: u16, b: u16, c: u16| {
        let [a, b, c] = [a, b, c].map(|x| flushed::<FRACTION>(x, mode.ftz));
        let result = flushed::<FRACTION>(f(a, b, c), mode.ftz);
        clamped::<FRACTION>(result, mode.clamp)
    };
    if mode.pair {
        registers.ternary(mask, d, r, |a: u32, b: u32, c: u32| {
            let low = one(a as u16, b as u16, c as u16);
            let high = one((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
            u32::from(high) << 16 | u32::from(low)
        });
    } else {
        registers.ternary(mask, d, r, one);
    }
}

const fn bias(fraction: u32) -> u64 {
    (1 << (14 - fraction)) - 1
}

const fn infinity(fraction: u32) -> u16 {
    0x7fff >> fraction << fraction
}

/// Two to the power of `exponent`, a normal f64.
const fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The value of a 16-bit float.
#[inline(always)]
pub(crate) fn widen<const FRACTION: u32>(bits: u16) -> f64 {
    let size = bits & 0x7fff;
    // Exponent and fraction in their places; the product moves the bias, and makes subnormals normal.
    let placed = u64::from(size) << (52 - FRACTION);
    let finite = f64::from_bits(placed) * power_of_two(1023 - bias(FRACTION) as i64);
    let special = f64::from_bits(placed | 0x7ff << 52);
    let value = if size >= infinity(FRACTION) {
        special
    } else {
        finite
    };
    f64::from_bits(value.to_bits() | u64::from(bits & 0x8000) << 48)
}

/// `x` rounded to nearest even.
#[inline(always)]
pub(crate) fn narrow<const FRACTION: u32>(x: f64) -> u16 {
    let size = x.abs();
    let (digits, spare) = (size.to_bits(), 52 - FRACTION);
    let to_even = (1 << (spare - 1)) - 1 + (digits >> spare & 1);
    let normal = ((digits + to_even) >> spare).wrapping_sub((1023 - bias(FRACTION)) << FRACTION);
    // The sum rounds to a multiple of the smallest subnormal, and has it in its low bits.
    let least = power_of_two(1 - bias(FRACTION) as i64);
    let shift = power_of_two(53 - (bias(FRACTION) + u64::from(FRACTION)) as i64);
    let subnormal = (size + shift).to_bits().wrapping_sub(shift.to_bits());
    let rounded = if size < least {
        subnormal
    } else {
        normal.min(u64::from(infinity(FRACTION)))
    };
    if x.is_nan() {
        NAN
    } else {
        rounded as u16 | (x.to_bits() >> 48 & 0x8000) as u16
    }
}

/// `x` rounded as `rounding` says.
pub(crate) fn narrow_by<const FRACTION: u32>(x: f64, rounding: Rounding) -> u16 {
    let nearest = narrow::<FRACTION>(x);
    let negative = nearest >> 15 == 1;
    let error = x - widen::<FRACTION>(nearest);
    let (too_large, too_small) = if negative {
        (error > 0.0, error < 0.0)
    } else {
        (error < 0.0, error > 0.0)
    };
    let away = match rounding {
        Rounding::Nearest => return nearest,
        Rounding::Zero => false,
        Rounding::Up => !negative,
        Rounding::Down => negative,
    };
    // One step in size is one step in bits.
    match away {
        true if too_small => nearest + 1,
        false if too_large => nearest - 1,
        _ => nearest,
    }
}

/// `a + b`; if that is not exact, of the two neighbours the one with an odd last digit.
#[inline(always)]
pub(super) fn odd_sum(a: f64, b: f64) -> f64 {
    let (sum, rest) = two_sum(a, b);
    let digits = sum.to_bits();
    let neighbour = if (rest > 0.0) == (sum > 0.0) {
        digits.wrapping_add(1)
    } else {
        digits.wrapping_sub(1)
    };
    // The rest is NaN where the sum is not finite.
    if rest.abs() > 0.0 && digits & 1 == 0 {
        f64::from_bits(neighbour)
    } else {
        sum
    }
}

#[inline(always)]
pub(crate) fn is_nan<const FRACTION: u32>(bits: u16) -> bool {
    bits & 0x7fff > infinity(FRACTION)
}

/// Subnormals as zero of the same sign, if `ftz`.
#[inline(always)]
pub(crate) fn flushed<const FRACTION: u32>(bits: u16, ftz: bool) -> u16 {
    if ftz && bits & 0x7fff < 1 << FRACTION {
        bits & 0x8000
    } else {
        bits
    }
}

#[inline(always)]
fn clamped<const FRACTION: u32>(bits: u16, clamp: Clamp) -> u16 {
    let one = (bias(FRACTION) as u16) << FRACTION;
    let is_nan = is_nan::<FRACTION>(bits);
    let negative = bits & 0x8000 != 0;
    match clamp {
        Clamp::None => bits,
        Clamp::Saturate if is_nan || negative => 0,
        Clamp::Saturate => bits.min(one),
        Clamp::Relu if negative && !is_nan => 0,
        Clamp::Relu => bits,
    }
}

/// The smaller or the `largest` of two values; -0 is below +0. Of a number and a NaN it is the number, unless NaN counts.
#[inline(always)]
fn least<const FRACTION: u32>(a: u16, b: u16, largest: bool, nan_counts: bool) -> u16 {
    // In the order of the values.
    let rank = |x: u16| x ^ if x & 0x8000 != 0 { 0xffff } else { 0x8000 };
    let first = (rank(a) < rank(b)) != largest;
    let (a_nan, b_nan) = (is_nan::<FRACTION>(a), is_nan::<FRACTION>(b));
    let number = if (first && !a_nan) || b_nan { a } else { b };
    let nan = if nan_counts {
        a_nan | b_nan
    } else {
        a_nan & b_nan
    };
    if nan { NAN } else { number }
}

#[inline(always)]
fn convert_pair(registers: &mut Registers, mask: u32, how: Narrowing, d: R, a: R, b: R) {
    let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
    let plain = how.rounding == Rounding::Nearest && !how.relu && !how.finite;
    let round16 = |x: f32| narrow::<F16>(f64::from(x));
    let round_bf16 = |x: f32| narrow::<BF16>(f64::from(x));
    match how.to {
        NarrowType::F16 if plain => {
            registers.binary(mask, d, a, b, |a: f32, b: f32| pair(round16(a), round16(b)))
        }
        NarrowType::Bf16 if plain => registers.binary(mask, d, a, b, |a: f32, b: f32| {
            pair(round_bf16(a), round_bf16(b))
        }),
        _ => registers.binary_by(mask, d, a, b, &|a: f32, b: f32| {
            pair(narrowed(how, a) as u16, narrowed(how, b) as u16)
        }),
    }
}

/// The bits of `x` in a narrower type.
fn narrowed(how: Narrowing, x: f32) -> u32 {
    let (bits, sign, largest) = match how.to {
        NarrowType::F16 => {
            let bits = u32::from(narrow_by::<F16>(f64::from(x), how.rounding));
            (bits, 0x8000, u32::from(infinity(F16)) - 1)
        }
        NarrowType::Bf16 => {
            let bits = u32::from(narrow_by::<BF16>(f64::from(x), how.rounding));
            (bits, 0x8000, u32::from(infinity(BF16)) - 1)
        }
        NarrowType::Tf32 => (tf32(how, x), 0x8000_0000, 0x7f7f_e000),
    };
    let size = bits & !sign;
    let bits = match how.finite && !x.is_nan() {
        true => bits & sign | size.min(largest),
        false => bits,
    };
    match how.relu && !x.is_nan() && bits & sign != 0 {
        true => 0,
        false => bits,
    }
}

/// An f32 with the last 13 bits rounded off. PTX has no direction but zero here.
fn tf32(how: Narrowing, x: f32) -> u32 {
    const SPARE: u32 = 13;
    if x.is_nan() {
        return 0x7fff_ffff;
    }
    let bits = x.to_bits();
    let half = 1 << (SPARE - 1);
    let up = match how.rounding {
        _ if x.is_infinite() => 0,
        _ if how.ties_away => half,
        Rounding::Nearest => half - 1 + (bits >> SPARE & 1),
        Rounding::Zero | Rounding::Up | Rounding::Down => 0,
    };
    (bits + up) >> SPARE << SPARE
}
