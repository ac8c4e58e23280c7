//! Sums as a tensor core adds.
//!
//! Products are exact. All terms of a step, with the sum so far, are cut off at a fixed number of bits below the largest exponent,
//! added, and rounded: toward zero to f32, to nearest even to f16. Eight columns are computed at once. A float is split into a
//! significand below 2 and an exponent, which is that of the smallest normal numbers if it is subnormal. Products of significands
//! have at most 22 bits, and are exact in f32.

use std::ops::Range;

use super::fragments::{self, SumBits, halves, rows_of_halves};
use super::tf32;
use crate::device::device;
use crate::exec::host_simd::{HostSimd, Term, Terms};
use crate::exec::operations::half::{F16, narrow, power_of_two, widen};
use crate::exec::registers::Registers;
use crate::program::op::{self, MatrixProduct};

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
    fn of(factors: op::Factors) -> Addition {
        let (step, fraction) = match device().capability.number / 10 {
            ..9 => (8, 24),
            _ => (16, 25),
        };
        match factors {
            op::Factors::Tf32 => Addition {
                step: step / 2,
                fraction,
            },
            _ => Addition { step, fraction },
        }
    }
}

/// A and B by rows, as bits and as terms.
pub(super) struct Factors {
    left: [[u32; 16]; 16],
    right: [[u32; 8]; 16],
    left_terms: [[Term; 16]; 16],
    right_terms: [Terms; 16],
}

impl Factors {
    pub(super) const ZERO: Factors = Factors {
        left: [[0; 16]; 16],
        right: [[0; 8]; 16],
        left_terms: [[ZERO; 16]; 16],
        right_terms: [ZEROS; 16],
    };

    /// Adds a product to `sums`: of factors of `WIDTH` bits with `FRACTION` bits of fraction, and sums of `SUM_WIDTH` and
    /// `SUM_FRACTION`.
    #[inline(always)]
    pub(super) fn add<
        V: HostSimd,
        const WIDTH: u32,
        const FRACTION: u32,
        const SUM_WIDTH: u32,
        const SUM_FRACTION: u32,
    >(
        &mut self,
        registers: &Registers,
        product: &MatrixProduct,
        sums: &mut SumBits,
    ) {
        self.read::<WIDTH>(registers, product);
        self.split::<WIDTH, FRACTION>();
        let depth = usize::from(product.depth);
        let special_right = any_special::<WIDTH, FRACTION>(self.right[..depth].as_flattened());
        let Addition { step, fraction } = Addition::of(product.factors);
        let mut rows = by_rows(sums);
        for first in (0..depth).step_by(step) {
            let step = first..depth.min(first + step);
            let before = rows;
            self.step::<V, SUM_WIDTH, SUM_FRACTION>(fraction, step.clone(), &mut rows);
            for (row, sums) in rows.iter_mut().enumerate() {
                let (left, right) = (&self.left[row][step.clone()], &self.right[step.clone()]);
                if special_right
                    || any_special::<WIDTH, FRACTION>(left)
                    || any_special::<SUM_WIDTH, SUM_FRACTION>(&before[row])
                {
                    replace_special::<WIDTH, FRACTION, SUM_WIDTH, SUM_FRACTION>(
                        left,
                        right,
                        &before[row],
                        sums,
                    );
                }
            }
        }
        *sums = by_fragments(&rows);
    }

    /// Adds the products in the columns `step` to sums by rows, as if all were finite.
    #[inline(always)]
    fn step<V: HostSimd, const SUM_WIDTH: u32, const SUM_FRACTION: u32>(
        &self,
        fraction: i32,
        step: Range<usize>,
        rows: &mut [[u32; 8]; 16],
    ) {
        let mut totals = [[0.0; 8]; 16];
        let mut largest = [[0; 8]; 16];
        let terms = &self.right_terms[step.clone()];
        for row in 0..16 {
            let mut first = ZEROS;
            for j in 0..8 {
                (first.significands[j], first.exponents[j]) =
                    split::<SUM_WIDTH, SUM_FRACTION>(rows[row][j]);
            }
            let left = &self.left_terms[row][step.clone()];
            // SAFETY: the handlers of an instruction set run only where it is there. `split` gives finite significands below 2,
            // of infinity and NaN too, with 11 bits for factors: products have 22. A step has at most 16 terms, and
            // `fraction` is 24 or 25.
            let sums = unsafe { V::add_terms(left, terms, &first, fraction) };
            (totals[row], largest[row]) = (sums.totals, sums.largest);
        }
        let rounded = rows.as_flattened_mut();
        let (totals, largest) = (totals.as_flattened(), largest.as_flattened());
        for i in 0..16 * 8 {
            // If all terms are zero, any exponent will do.
            let sum = totals[i] * power_of_two(largest[i].max(NO_EXPONENT / 4) - fraction);
            rounded[i] = if SUM_WIDTH == 16 {
                u32::from(narrow::<F16>(sum))
            } else {
                toward_zero(sum)
            };
        }
    }

    #[inline(always)]
    fn read<const WIDTH: u32>(&mut self, registers: &Registers, product: &MatrixProduct) {
        let (left, right) = (&mut self.left, &mut self.right);
        if WIDTH == 16 {
            fragments::left(registers, product, |row, piece, words| {
                let halves = halves(words);
                for i in 0..8 {
                    left[row][8 * piece + i] = u32::from(halves[i]);
                }
            });
            fragments::right(registers, product, |piece, columns| {
                let rows = rows_of_halves(columns);
                for i in 0..8 {
                    for j in 0..8 {
                        right[8 * piece + i][j] = u32::from(rows[i][j]);
                    }
                }
            });
        } else {
            fragments::left(registers, product, |row, piece, words| {
                for i in 0..4 {
                    left[row][4 * piece + i] = tf32(words[i]);
                }
            });
            fragments::right(registers, product, |piece, columns| {
                for i in 0..4 {
                    for j in 0..8 {
                        right[4 * piece + i][j] = tf32(columns[j][i]);
                    }
                }
            });
        }
    }

    #[inline(always)]
    fn split<const WIDTH: u32, const FRACTION: u32>(&mut self) {
        let (left, terms) = (self.left.as_flattened(), self.left_terms.as_flattened_mut());
        for i in 0..16 * 16 {
            (terms[i].significand, terms[i].exponent) = split::<WIDTH, FRACTION>(left[i]);
        }
        for (bits, terms) in self.right.iter().zip(&mut self.right_terms) {
            for j in 0..8 {
                (terms.significands[j], terms.exponents[j]) = split::<WIDTH, FRACTION>(bits[j]);
            }
        }
    }
}

const ZERO: Term = Term {
    significand: 0.0,
    exponent: 0,
};

const ZEROS: Terms = Terms {
    significands: [0.0; 8],
    exponents: [0; 8],
};

/// Sums by rows, the columns in the order of the fragments.
#[inline(always)]
fn by_rows(sums: &SumBits) -> [[u32; 8]; 16] {
    let mut rows = [[0; 8]; 16];
    for (part, sums) in sums.iter().enumerate() {
        for (g, four) in sums.as_chunks::<4>().0.iter().enumerate() {
            rows[part / 2 * 8 + g].as_chunks_mut::<4>().0[part % 2] = *four;
        }
    }
    rows
}

/// The fragments of sums by rows.
#[inline(always)]
fn by_fragments(rows: &[[u32; 8]; 16]) -> SumBits {
    let mut sums = [[0; 32]; 4];
    for (part, sums) in sums.iter_mut().enumerate() {
        for (g, four) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *four = rows[part / 2 * 8 + g].as_chunks::<4>().0[part % 2];
        }
    }
    sums
}

/// Significand, with its sign, and exponent of a float. Of NaN and infinity they are those of a zero.
#[inline(always)]
fn split<const WIDTH: u32, const FRACTION: u32>(bits: u32) -> (f32, i32) {
    let size = bits & (u32::MAX >> (33 - WIDTH));
    let field = (size >> FRACTION) as i32;
    let bias = (1 << (WIDTH - FRACTION - 2)) - 1;
    let counts = size != 0 && field <= 2 * bias;
    let hidden = if field > 0 { 1 << FRACTION } else { 0 };
    let digits = size & ((1 << FRACTION) - 1) | hidden;
    let value = digits as i32 as f32 * (1.0 / (1 << FRACTION) as f32);
    let kept = if counts { value.to_bits() } else { 0 };
    let exponent = if counts {
        field.max(1) - bias
    } else {
        NO_EXPONENT
    };
    (f32::from_bits(bits >> (WIDTH - 1) << 31 | kept), exponent)
}

/// Whether one of the floats is NaN or infinite.
#[inline(always)]
fn any_special<const WIDTH: u32, const FRACTION: u32>(bits: &[u32]) -> bool {
    let infinity = u32::MAX >> (33 - WIDTH) >> FRACTION << FRACTION;
    let mut special = false;
    for &bits in bits {
        special |= bits & infinity == infinity;
    }
    special
}

/// Replaces those of eight sums that have a NaN or an infinity among their terms.
#[cold]
#[inline(never)]
fn replace_special<
    const WIDTH: u32,
    const FRACTION: u32,
    const SUM_WIDTH: u32,
    const SUM_FRACTION: u32,
>(
    left: &[u32],
    right: &[[u32; 8]],
    before: &[u32; 8],
    sums: &mut [u32; 8],
) {
    for j in 0..8 {
        // No sum of finite terms is infinite in f64.
        let mut plain = value::<SUM_WIDTH, SUM_FRACTION>(before[j]);
        for (&a, b) in left.iter().zip(right) {
            plain += value::<WIDTH, FRACTION>(a) * value::<WIDTH, FRACTION>(b[j]);
        }
        if !plain.is_finite() {
            sums[j] = match SUM_WIDTH {
                16 => u32::from(narrow::<F16>(plain)),
                _ if plain.is_nan() => 0x7fff_ffff,
                _ => (plain as f32).to_bits(),
            };
        }
    }
}

fn value<const WIDTH: u32, const FRACTION: u32>(bits: u32) -> f64 {
    match WIDTH {
        16 => widen::<FRACTION>(bits as u16),
        _ => f32::from_bits(bits).into(),
    }
}

/// The bits of `x` as f32, rounded toward zero. From 2¹²⁸ on it is infinite.
#[inline(always)]
fn toward_zero(x: f64) -> u32 {
    let near = x as f32;
    let too_large = f64::from(near).abs() > x.abs() && x.abs() < power_of_two(128);
    near.to_bits() - u32::from(too_large)
}
