//! Formats of 16-bit floats, and conversions from and to f64.
//!
//! f16 and bf16 differ in their bits of fraction, 10 and 7, and in nothing else: the rest of 15
//! bits is the exponent. All is written without branches, so that it runs on vectors.

use crate::program::op::Rounding;

/// Bits of fraction.
pub(crate) const F16: u32 = 10;
pub(crate) const BF16: u32 = 7;

/// The NaN that arithmetic returns.
pub(crate) const NAN: u16 = 0x7fff;

/// Bias of an exponent.
pub(crate) const fn bias(fraction: u32) -> i32 {
    (1 << (14 - fraction)) - 1
}

pub(crate) const fn infinity(fraction: u32) -> u16 {
    0x7fff >> fraction << fraction
}

/// Two to the power of `exponent`, a normal f64.
#[inline(always)]
pub(crate) const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The value of a 16-bit float.
#[inline(always)]
pub(crate) fn widen<const FRACTION: u32>(bits: u16) -> f64 {
    let size = bits & 0x7fff;
    // Exponent and fraction in their places; the product moves the bias, and makes subnormals
    // normal.
    let placed = u64::from(size) << (52 - FRACTION);
    let finite = f64::from_bits(placed) * power_of_two(1023 - bias(FRACTION));
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
    let normal =
        ((digits + to_even) >> spare).wrapping_sub(((1023 - bias(FRACTION)) as u64) << FRACTION);
    // The sum rounds to a multiple of the smallest subnormal, and has it in its low bits.
    let least = power_of_two(1 - bias(FRACTION));
    let shift = power_of_two(53 - bias(FRACTION) - FRACTION as i32);
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
