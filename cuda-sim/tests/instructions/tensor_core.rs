//! The definition of what tensor cores compute: exact arithmetic on integers, rounded as README.md
//! says.

use std::env;

use super::matrix::{F16_FORM, Form, TF32_FORM};
use super::rig::*;

/// Size digits · 2^(exponent - fraction).
#[derive(Clone, Copy, Debug)]
pub struct Number {
    pub negative: bool,
    pub digits: i128,
    pub exponent: i32,
    pub fraction: i32,
    pub infinite: bool,
    pub nan: bool,
}

/// Parts of a sum.
fn sum_parts(sums: &str, bits: u32) -> Number {
    match sums {
        "f16" => F16_FORM.parts(bits),
        _ => f32_parts(bits),
    }
}

fn f32_parts(bits: u32) -> Number {
    let form = Form {
        fraction: 23,
        bias: 127,
        ..TF32_FORM
    };
    let kept = form.parts(bits & !0x1fff);
    let low = i128::from(bits & 0x1fff);
    let nan = kept.nan || (kept.infinite && low != 0);
    Number {
        digits: kept.digits | low,
        nan,
        infinite: kept.infinite && !nan,
        ..kept
    }
}

/// Addition of tensor cores.
pub struct Addition {
    /// Products that are added at once.
    pub step: usize,
    /// Bits below the largest exponent that a term keeps.
    pub kept: i32,
    /// Bits of fraction of a sum in f32.
    pub digits: u32,
}

/// That of 16-bit factors on the tests' device, and on the one that a child process is given.
pub fn addition() -> Addition {
    let (step, kept) = match env::var("CUDA_SIM_DEVICE").as_deref() {
        Ok("a100" | "rtx4090" | "t4") => (8, 24),
        _ => (16, 25),
    };
    Addition {
        step,
        kept,
        digits: 23,
    }
}

/// A sum of products and `c` as the device's tensor cores have it.
pub fn expected(form: &Form, row: &[u32], column: &[u32], c: u32) -> u32 {
    let mut addition = addition();
    if form.bits == 32 {
        addition.step /= 2;
    }
    let [row, column] = [row, column]
        .map(|bits| -> Vec<Number> { bits.iter().map(|&bits| form.parts(bits)).collect() });
    sum_in_steps(form.sums, &row, &column, c, &addition)
}

/// A sum of products and `c`, with these factors.
pub fn sum_in_steps(
    sums: &str,
    row: &[Number],
    column: &[Number],
    c: u32,
    addition: &Addition,
) -> u32 {
    let mut products = Vec::new();
    for (a, b) in row.iter().zip(column) {
        let infinite = a.infinite || b.infinite;
        let zero = (a.digits == 0 && !a.infinite) || (b.digits == 0 && !b.infinite);
        products.push(Number {
            negative: a.negative != b.negative,
            digits: a.digits * b.digits,
            exponent: a.exponent + b.exponent,
            fraction: a.fraction + b.fraction,
            nan: a.nan || b.nan || (infinite && zero),
            infinite,
        });
    }
    let steps = products.chunks(addition.step);
    steps.fold(c, |sum, products| {
        let sum = sum_of(sums, sum, products, addition.kept);
        let is_finite = sums == "f32" && sum & 0x7f80_0000 != 0x7f80_0000;
        match is_finite {
            true => sum & (u32::MAX << (23 - addition.digits)),
            false => sum,
        }
    })
}

/// The terms of one step, all cut off `kept` bits below the largest exponent, and added.
fn sum_of(sums: &str, first: u32, products: &[Number], kept: i32) -> u32 {
    let terms: Vec<Number> = [&[sum_parts(sums, first)], products].concat();
    let (nan, infinity, sign) = match sums {
        "f16" => (0x7fff, 0x7c00, 0x8000),
        _ => (0x7fff_ffff, 0x7f80_0000, 0x8000_0000),
    };
    let infinite = |negative: bool| {
        let mut terms = terms.iter();
        terms.any(|term| term.infinite && term.negative == negative)
    };
    match (infinite(false), infinite(true)) {
        _ if terms.iter().any(|term| term.nan) => return nan,
        (true, true) => return nan,
        (true, false) => return infinity,
        (false, true) => return infinity | sign,
        (false, false) => {}
    }
    let nonzero = terms.iter().filter(|term| term.digits != 0);
    let Some(largest) = nonzero.map(|term| term.exponent).max() else {
        return 0;
    };
    let sum: i128 = terms
        .iter()
        .map(|term| {
            let shift = term.exponent - term.fraction - largest + kept;
            let size = match shift {
                0.. => term.digits << shift,
                _ => term.digits >> (-shift).min(127),
            };
            if term.negative { -size } else { size }
        })
        .sum();
    match sums {
        "f16" => nearest_half(sum, largest - kept),
        _ => toward_zero(sum, largest - kept),
    }
}

/// `sum` · 2^`scale` as f32.
fn toward_zero(sum: i128, scale: i32) -> u32 {
    let sign = if sum < 0 { 1 << 31 } else { 0 };
    let size = sum.unsigned_abs();
    if size == 0 {
        return 0;
    }
    let top = 127 - size.leading_zeros() as i32 + scale;
    if top > 127 {
        return sign | 0x7f80_0000;
    }
    // Units of the last digit: 2^(top - 23), or that of subnormals.
    let unit = (top - 23).max(-149);
    let digits = match scale - unit {
        shift @ 0.. => size << shift,
        shift => size >> (-shift).min(127),
    } as u32;
    match top < -126 {
        true => sign | digits,
        false => sign | ((((top + 126) as u32) << 23) + digits),
    }
}

/// `sum` · 2^`scale` as f16, to nearest even.
fn nearest_half(sum: i128, scale: i32) -> u32 {
    let sign = if sum < 0 { 1 << 15 } else { 0 };
    let size = sum.unsigned_abs();
    if size == 0 {
        return 0;
    }
    let top = 127 - size.leading_zeros() as i32 + scale;
    // Units of the last digit: 2^(top - 10), or that of subnormals.
    let unit = (top - 10).max(-24);
    let digits = match scale - unit {
        shift @ 0.. => size << shift,
        shift if shift < -100 => 0,
        shift => {
            let (whole, rest) = (size >> -shift, size & ((1 << -shift) - 1));
            let half = 1 << (-shift - 1);
            whole + u128::from(rest > half || (rest == half && whole % 2 == 1))
        }
    } as u32;
    // What is rounded up to a power of two has the next exponent.
    let bits = (((unit + 24) as u32) << 10) + digits;
    sign | bits.min(0x7c00)
}

/// The definition of the fast mode.
pub fn expected_fast(form: &Form, row: &[u32], column: &[u32], c: u32) -> u32 {
    let value = |bits: &u32| match form.name {
        "f16" => F16.float((*bits).into()) as f32,
        "bf16" => f32::from_bits(bits << 16),
        _ if f32::from_bits(*bits).is_nan() => f32::NAN,
        _ => f32::from_bits(bits & !0x1fff),
    };
    let [row, column] = [row, column].map(|bits| bits.iter().map(value).collect::<Vec<f32>>());
    fused(form.sums, &row, &column, c)
}

/// A chain of fused multiply-adds from `c` on.
pub fn fused(sums: &str, row: &[f32], column: &[f32], c: u32) -> u32 {
    let mut sum = match sums {
        "f16" => F16.float(c.into()) as f32,
        _ => f32::from_bits(c),
    };
    for (a, b) in row.iter().zip(column) {
        sum = a.mul_add(*b, sum);
    }
    match sums {
        "f16" if sum.is_nan() => 0x7fff,
        "f16" if sum.is_infinite() => 0x7c00 | sum.to_bits() >> 16 & 0x8000,
        "f16" if sum == 0.0 => sum.to_bits() >> 16,
        "f16" => {
            let parts = f32_parts(sum.to_bits());
            let size = if parts.negative {
                -parts.digits
            } else {
                parts.digits
            };
            nearest_half(size, parts.exponent - parts.fraction) | sum.to_bits() >> 16 & 0x8000
        }
        _ if sum.is_nan() => 0x7fff_ffff,
        _ => sum.to_bits(),
    }
}

impl Form {
    /// Significand and exponent of a factor: its size is significand · 2^(exponent - fraction).
    pub fn parts(&self, bits: u32) -> Number {
        let bits = if self.bits == 32 {
            bits & !0x1fff
        } else {
            bits << 16
        };
        // As if it had 32 bits.
        let width = 31 - if self.bits == 32 { 0 } else { 16 };
        let size = (bits & 0x7fff_ffff) >> (31 - width);
        let field = (size >> self.fraction) as i32;
        let digits = i128::from(size & ((1 << self.fraction) - 1));
        let largest = 2 * self.bias + 1;
        Number {
            negative: bits >> 31 == 1,
            digits: if field == 0 {
                digits
            } else {
                digits | 1 << self.fraction
            },
            exponent: field.max(1) - self.bias,
            fraction: self.fraction as i32,
            infinite: field == largest && digits == 0,
            nan: field == largest && digits != 0,
        }
    }
}
