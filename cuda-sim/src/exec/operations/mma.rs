//! Matrix products of a warp: `mma.sync`, with sums in f32.
//!
//! PTX leaves the order and the rounding of the sum open. Here they are those that measurements of tensor cores have shown
//! (README.md, "Matrix products"): the products are exact; all terms of a step, with the sum so far, are cut off at a fixed number
//! of bits below the largest exponent, added, and rounded toward zero to f32.

use crate::device::device;
use crate::exec::operations::half::{BF16, F16, widen};
use crate::exec::registers::Registers;
use crate::program::op::{MatrixProduct, NarrowType};

const ROWS: usize = 16;
const COLUMNS: usize = 8;
const MAX_DEPTH: usize = 16;

/// The NaN of a sum.
const NAN: u32 = 0x7fff_ffff;

/// Exponent of a zero: below that of every term.
const NO_EXPONENT: i32 = -2000;

/// How a tensor core adds.
#[derive(Clone, Copy)]
struct Addition {
    /// Terms that are added at once.
    step: usize,
    /// Bits that a term keeps below the largest exponent.
    fraction: i32,
}

impl Addition {
    /// That of the device; of tf32, half as many terms fit in a step.
    fn of(ty: NarrowType) -> Addition {
        let (step, fraction) = match device().capability.number / 10 {
            ..8 => (4, 23),
            8 => (8, 24),
            _ => (16, 25),
        };
        match ty {
            NarrowType::F16 | NarrowType::Bf16 => Addition { step, fraction },
            NarrowType::Tf32 => Addition {
                step: step / 2,
                fraction,
            },
        }
    }
}

/// A value, and its exponent before normalisation.
#[derive(Clone, Copy)]
struct Factor {
    value: f64,
    exponent: i32,
}

/// Runs a product for the lanes of `mask`.
#[inline(always)]
pub(crate) fn execute(registers: &mut Registers, product: &MatrixProduct, mask: u32) {
    let MatrixProduct { ty, d, a, b, c } = *product;
    let (depth, addition) = (product.depth(), Addition::of(ty));
    let zero = Factor {
        value: 0.0,
        exponent: NO_EXPONENT,
    };
    let mut left = [[zero; MAX_DEPTH]; ROWS];
    let mut right = [[zero; COLUMNS]; MAX_DEPTH];
    for (i, r) in a.into_iter().enumerate() {
        let words: &[u32; 32] = registers.read(r);
        for (lane, &word) in words.iter().enumerate() {
            let (row, t) = (lane / 4 + 8 * (i & 1), lane % 4);
            match ty {
                NarrowType::Tf32 => left[row][t + 4 * (i >> 1)] = tf32(word),
                _ => {
                    let column = 2 * t + 8 * (i >> 1);
                    left[row][column] = half(ty, word as u16);
                    left[row][column + 1] = half(ty, (word >> 16) as u16);
                }
            }
        }
    }
    for (i, r) in b.into_iter().enumerate() {
        let words: &[u32; 32] = registers.read(r);
        for (lane, &word) in words.iter().enumerate() {
            let (column, t) = (lane / 4, lane % 4);
            match ty {
                NarrowType::Tf32 => right[t + 4 * i][column] = tf32(word),
                _ => {
                    let row = 2 * t + 8 * i;
                    right[row][column] = half(ty, word as u16);
                    right[row + 1][column] = half(ty, (word >> 16) as u16);
                }
            }
        }
    }
    let sums = c.map(|r| *registers.read::<u32>(r));
    for (i, r) in d.into_iter().enumerate() {
        let mut out = [0u32; 32];
        for (lane, out) in out.iter_mut().enumerate() {
            let (row, column) = (lane / 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1));
            let column: [Factor; MAX_DEPTH] = std::array::from_fn(|k| right[k][column]);
            let (row, column) = (&left[row][..depth], &column[..depth]);
            *out = dot(addition, row, column, f32::from_bits(sums[i][lane]));
        }
        registers.write(r, mask, &out);
    }
}

/// `row · column + sum`.
#[inline(always)]
fn dot(addition: Addition, row: &[Factor], column: &[Factor], sum: f32) -> u32 {
    let mut plain = f64::from(sum);
    for (a, b) in row.iter().zip(column) {
        plain += a.value * b.value;
    }
    if plain.is_nan() {
        return NAN;
    }
    // No sum of finite terms is infinite in f64.
    if plain.is_infinite() {
        return (plain as f32).to_bits();
    }
    let mut sum = sum;
    for (row, column) in row.chunks(addition.step).zip(column.chunks(addition.step)) {
        let mut largest = exponent_of(sum);
        for (a, b) in row.iter().zip(column) {
            largest = largest.max(a.exponent + b.exponent);
        }
        // All terms are zero.
        if largest < NO_EXPONENT / 2 {
            sum = 0.0;
            continue;
        }
        let unit = power_of_two(largest - addition.fraction);
        let scale = power_of_two(addition.fraction - largest);
        let mut total = (f64::from(sum) * scale).trunc();
        for (a, b) in row.iter().zip(column) {
            total += (a.value * b.value * scale).trunc();
        }
        sum = toward_zero(total * unit);
        if sum.is_infinite() {
            break;
        }
    }
    sum.to_bits()
}

/// Two to the power of `exponent`, a normal f64.
#[inline(always)]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Exponent of a finite f32: that of its smallest normal numbers if it is subnormal.
#[inline(always)]
fn exponent_of(x: f32) -> i32 {
    match x.to_bits() << 1 {
        0 => NO_EXPONENT,
        bits => ((bits >> 24) as i32).max(1) - 127,
    }
}

/// `x` as f32, rounded toward zero. What is too large is infinite.
#[inline(always)]
fn toward_zero(x: f64) -> f32 {
    if x.abs() >= power_of_two(128) {
        return f32::INFINITY.copysign(x as f32);
    }
    let near = x as f32;
    if f64::from(near).abs() > x.abs() {
        f32::from_bits(near.to_bits() - 1)
    } else {
        near
    }
}

#[inline(always)]
fn half(ty: NarrowType, bits: u16) -> Factor {
    let size = i32::from(bits & 0x7fff);
    let (value, exponent) = match ty {
        NarrowType::F16 => (widen::<F16>(bits), (size >> 10).max(1) - 15),
        _ => (widen::<BF16>(bits), (size >> 7).max(1) - 127),
    };
    let exponent = if size == 0 { NO_EXPONENT } else { exponent };
    Factor { value, exponent }
}

/// The last 13 bits do not count.
#[inline(always)]
fn tf32(bits: u32) -> Factor {
    // A NaN stays one.
    let nan = f32::from_bits(bits).is_nan();
    let cut = f32::from_bits(if nan { bits } else { bits & !0x1fff });
    Factor {
        value: cut.into(),
        exponent: exponent_of(cut),
    }
}
