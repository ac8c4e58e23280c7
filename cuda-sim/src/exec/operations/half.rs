//! Arithmetic of 16-bit floats.
//!
//! Values of bf16 are computed in f64, those of f16 in f32, and rounded once. A sum that the wider
//! type cannot hold gets an odd last digit, which no later rounding takes for a tie. All is written
//! without branches, so that it runs on vectors.

use crate::exec::half_float::{
    BF16, F16, NAN, bias, flushed, infinity, is_nan, narrow, narrow_by, widen,
};
use crate::exec::host_simd::HostSimd;
use crate::exec::operations::byte_float;
use crate::exec::operations::float::exp2;
use crate::exec::operations::rounding::two_sum;
use crate::exec::registers::Registers;
use crate::program::op::{Clamp, HalfMode, HalfOp, NarrowType, Narrowing, Op, R, Rounding};

/// Runs `op` on the lanes of `mask`.
#[inline(always)]
pub(crate) fn execute<V: HostSimd>(registers: &mut Registers, op: &Op, mask: u32) {
    match *op {
        Op::Half {
            op,
            mode,
            d,
            a,
            b,
            c,
        } if mode.bf16 => arithmetic::<V, BF16>(registers, mask, op, mode, d, [a, b, c]),
        Op::Half {
            op,
            mode,
            d,
            a,
            b,
            c,
        } => arithmetic::<V, F16>(registers, mask, op, mode, d, [a, b, c]),
        Op::Narrow { how, d, a } => registers.unary(mask, d, a, |a: f32| narrowed(how, a)),
        Op::ConvertPair { how, d, a, b } => convert_pair(registers, mask, how, d, a, b),
        Op::ConvertBytes { how, d, a, b } => byte_float::convert(registers, mask, how, d, a, b),
        _ => unreachable!("not an operation on 16-bit floats"),
    }
}

#[inline(always)]
fn arithmetic<V: HostSimd, const FRACTION: u32>(
    registers: &mut Registers,
    mask: u32,
    op: HalfOp,
    mode: HalfMode,
    d: R,
    [a, b, c]: [R; 3],
) {
    let mut out = [0; 32];
    for shift in (0..if mode.pair { 32 } else { 16 }).step_by(16) {
        let a = operand::<FRACTION>(registers, a, shift, mode.ftz);
        let b = operand::<FRACTION>(registers, b, shift, mode.ftz);
        let c = operand::<FRACTION>(registers, c, shift, mode.ftz);
        let mut results = results::<V, FRACTION>(op, &a, &b, &c);
        if matches!(op, HalfOp::Neg | HalfOp::Abs) && (FRACTION == F16 || mode.pair) {
            for lane in 0..32 {
                if is_nan::<FRACTION>(a[lane]) {
                    results[lane] = NAN;
                }
            }
        }
        flush::<FRACTION>(&mut results, mode.ftz);
        if mode.clamp != Clamp::None {
            for result in &mut results {
                *result = clamped::<FRACTION>(*result, mode.clamp);
            }
        }
        for lane in 0..32 {
            out[lane] |= u32::from(results[lane]) << shift;
        }
    }
    registers.write(d, mask, &out);
}

/// The half of each word of a register that is `shift` bits up.
#[inline(always)]
fn operand<const FRACTION: u32>(registers: &Registers, r: R, shift: usize, ftz: bool) -> [u16; 32] {
    let words: &[u32; 32] = registers.read(r);
    let mut values = [0; 32];
    for lane in 0..32 {
        values[lane] = (words[lane] >> shift) as u16;
    }
    flush::<FRACTION>(&mut values, ftz);
    values
}

#[inline(always)]
fn flush<const FRACTION: u32>(values: &mut [u16; 32], ftz: bool) {
    if ftz {
        for value in values {
            *value = flushed::<FRACTION>(*value, true);
        }
    }
}

/// The results of an operation on all lanes.
#[inline(always)]
fn results<V: HostSimd, const FRACTION: u32>(
    op: HalfOp,
    a: &[u16; 32],
    b: &[u16; 32],
    c: &[u16; 32],
) -> [u16; 32] {
    let mut out = [0; 32];
    // One loop per operation, so that none has a branch in it. The text of the operation is put
    // into the loop: a closure would be compiled once for all instruction sets.
    macro_rules! each {
        ($lane:ident => $result:expr) => {
            for $lane in 0..32 {
                out[$lane] = $result;
            }
        };
    }
    macro_rules! value {
        ($x:expr) => {
            widen::<FRACTION>($x)
        };
    }
    match op {
        HalfOp::Add | HalfOp::Sub | HalfOp::Mul | HalfOp::Fma if FRACTION == F16 => {
            return f16_results::<V>(op, a, b, c);
        }
        HalfOp::Neg => each!(i => a[i] ^ 0x8000),
        HalfOp::Abs => each!(i => a[i] & 0x7fff),
        HalfOp::Exp2 => each!(i => narrow::<FRACTION>(f64::from(exp2(value!(a[i]) as f32)))),
        HalfOp::Tanh => each!(i => narrow::<FRACTION>(value!(a[i]).tanh())),
        HalfOp::Add => each!(i => narrow::<FRACTION>(odd_sum(value!(a[i]), value!(b[i])))),
        HalfOp::Sub => each!(i => narrow::<FRACTION>(odd_sum(value!(a[i]), -value!(b[i])))),
        HalfOp::Mul => each!(i => narrow::<FRACTION>(value!(a[i]) * value!(b[i]))),
        HalfOp::Fma => {
            each!(i => narrow::<FRACTION>(odd_sum(value!(a[i]) * value!(b[i]), value!(c[i]))))
        }
        HalfOp::Min => each!(i => least::<FRACTION>(a[i], b[i], false, false)),
        HalfOp::Max => each!(i => least::<FRACTION>(a[i], b[i], true, false)),
        HalfOp::MinNan => each!(i => least::<FRACTION>(a[i], b[i], false, true)),
        HalfOp::MaxNan => each!(i => least::<FRACTION>(a[i], b[i], true, true)),
    }
    out
}

/// The results of f16 arithmetic, computed in f32 and rounded by the host's conversion, to the same
/// bits as in f64.
///
/// A product of two f16 has at most 22 bits, and exponents that f32 has: it is exact in f32. A sum
/// of it and an f16 is rounded to odd: where 24 bits cannot hold it, the last one is 1. The
/// remainder is exact, since all terms are multiples of 2⁻⁴⁸, far above the subnormals of f32. An
/// f16 has at most 11 bits, two less than 24 at least, so that the rounding to f16 sees which side
/// of a tie the sum is on, and is the only one.
#[inline(always)]
fn f16_results<V: HostSimd>(op: HalfOp, a: &[u16; 32], b: &[u16; 32], c: &[u16; 32]) -> [u16; 32] {
    let (a, b, c) = (floats::<V>(a), floats::<V>(b), floats::<V>(c));
    let mut floats: [f32; 32] = [0.0; 32];
    macro_rules! each {
        ($lane:ident => $result:expr) => {
            for $lane in 0..32 {
                floats[$lane] = $result;
            }
        };
    }
    match op {
        HalfOp::Add => each!(i => odd_sum32(a[i], b[i])),
        HalfOp::Sub => each!(i => odd_sum32(a[i], -b[i])),
        HalfOp::Mul => each!(i => a[i] * b[i]),
        _ => each!(i => odd_sum32(a[i] * b[i], c[i])),
    }
    let mut out = [0; 32];
    for (floats, to) in floats
        .as_chunks::<8>()
        .0
        .iter()
        .zip(out.as_chunks_mut::<8>().0)
    {
        // SAFETY: the handlers of an instruction set run only where it is there.
        unsafe { V::narrow(floats, to) };
    }
    for lane in 0..32 {
        out[lane] = if floats[lane].is_nan() {
            NAN
        } else {
            out[lane]
        };
    }
    out
}

/// The values of f16.
#[inline(always)]
fn floats<V: HostSimd>(halves: &[u16; 32]) -> [f32; 32] {
    let mut floats = [0.0; 32];
    for (halves, to) in halves
        .as_chunks::<8>()
        .0
        .iter()
        .zip(floats.as_chunks_mut::<8>().0)
    {
        // SAFETY: the handlers of an instruction set run only where it is there.
        unsafe { V::widen(halves, to) };
    }
    floats
}

macro_rules! odd_sum {
    ($name:ident, $ty:ident) => {
        /// `a + b`; if that is not exact, of the two neighbours the one with an odd last digit.
        #[inline(always)]
        pub(super) fn $name(a: $ty, b: $ty) -> $ty {
            let (sum, rest) = two_sum(a, b);
            let digits = sum.to_bits();
            let neighbour = if (rest > 0.0) == (sum > 0.0) {
                digits.wrapping_add(1)
            } else {
                digits.wrapping_sub(1)
            };
            // The rest is NaN where the sum is not finite.
            if rest.abs() > 0.0 && digits & 1 == 0 {
                $ty::from_bits(neighbour)
            } else {
                sum
            }
        }
    };
}
odd_sum!(odd_sum, f64);
odd_sum!(odd_sum32, f32);

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

/// The smaller or the `largest` of two values; -0 is below +0. Of a number and a NaN it is the
/// number, unless NaN counts.
#[inline(always)]
pub(super) fn least<const FRACTION: u32>(a: u16, b: u16, largest: bool, nan_counts: bool) -> u16 {
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
    let bits = x.to_bits();
    if x.is_nan() {
        return if how.ties_away {
            bits >> SPARE << SPARE
        } else {
            0x7fff_ffff
        };
    }
    let half = 1 << (SPARE - 1);
    let up = match how.rounding {
        _ if x.is_infinite() => 0,
        _ if how.ties_away => half,
        Rounding::Nearest => half - 1 + (bits >> SPARE & 1),
        Rounding::Zero | Rounding::Up | Rounding::Down => 0,
    };
    (bits + up) >> SPARE << SPARE
}
