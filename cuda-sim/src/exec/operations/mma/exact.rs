//! Sums as a tensor core adds.
//!
//! Products are exact. All terms of a step, with the sum so far, are cut off at a fixed number of
//! bits below the largest exponent, added, and rounded: toward zero to f32 or fewer bits, to
//! nearest even to f16. Eight columns are computed at once. A float is split into a significand
//! below 2 and an exponent, which is that of the smallest normal numbers if it is subnormal.
//! Products of significands have at most 22 bits, and are exact in f32.

use std::ops::Range;

use super::fragments::{self, Bytes, SumBits, halves, rows_of_halves};
use super::quad_pairs::QuadPair;
use super::tf32;
use crate::exec::half_float::{F16, narrow, power_of_two, widen};
use crate::exec::host_simd::{HostSimd, Term, Terms};
use crate::exec::operations::byte_float::{placed, widened};
use crate::exec::registers::Registers;
use crate::program::op::{self, ByteType, MatrixProduct};
use crate::settings::device;

/// Exponent of a zero: below that of every term.
const NO_EXPONENT: i32 = -2000;

/// Addition of a tensor core.
#[derive(Clone, Copy)]
struct Addition {
    /// Terms that are added at once.
    step: usize,
    /// Bits that a term keeps below the largest exponent.
    fraction: i32,
    /// Bits of fraction of a sum in f32.
    kept: u32,
}

/// Addition of 8-bit floats on compute 8.9.
const FLOAT8_ADDITION: Addition = Addition {
    step: 16,
    fraction: 13,
    kept: 13,
};

impl Addition {
    /// Addition of the device; of tf32, half as many terms fit in a step.
    fn for_factors(factors: op::Factors) -> Addition {
        let (step, fraction) = match device().capability.number / 10 {
            ..9 => (8, 24),
            _ => (16, 25),
        };
        Addition {
            step: match factors {
                op::Factors::Tf32 => step / 2,
                _ => step,
            },
            fraction,
            kept: F32,
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

    /// Adds a product to `sums`: of factors of `WIDTH` bits with `FRACTION` bits of fraction, and
    /// sums of `SUM_WIDTH` and `SUM_FRACTION`.
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
        let (addition, depth) = (Addition::for_factors(product.factors), product.depth());
        let mut rows = by_rows(sums);
        self.add_terms::<V, WIDTH, FRACTION, SUM_WIDTH, SUM_FRACTION>(addition, depth, &mut rows);
        *sums = by_fragments(&rows);
    }

    /// Adds a product of 8-bit floats of the types `of` to `sums`.
    ///
    /// Tensor cores of compute 8.9 have 8-bit floats. For those of 9.0, NVIDIA's assembler makes
    /// f16 of them: the first two of every four columns are multiplied and added to zero, then the
    /// others, and the sum is added to C and rounded to nearest even.
    #[inline(always)]
    pub(super) fn add_bytes<V: HostSimd, const SUM_WIDTH: u32, const SUM_FRACTION: u32>(
        &mut self,
        registers: &Registers,
        product: &MatrixProduct,
        types: [ByteType; 2],
        sums: &mut SumBits,
    ) {
        let (bytes, depth) = (Bytes::read(registers, product), product.depth());
        let mut rows = by_rows(sums);
        if device().capability.number == 89 {
            for first in (0..depth).step_by(FLOAT8_ADDITION.step) {
                self.take(&bytes, first..first + FLOAT8_ADDITION.step, types, placed);
                self.split::<16, F16>();
                self.move_exponents(types);
                self.add_terms::<V, 16, F16, SUM_WIDTH, SUM_FRACTION>(
                    FLOAT8_ADDITION,
                    16,
                    &mut rows,
                );
            }
        } else {
            let mut products = [[0; 8]; 16];
            for half in 0..2 {
                self.take(
                    &bytes,
                    (0..depth).filter(|k| k % 4 / 2 == half),
                    types,
                    widened,
                );
                self.split::<16, F16>();
                let (addition, depth) = (Addition::for_factors(op::Factors::F16), depth / 2);
                self.add_terms::<V, 16, F16, SUM_WIDTH, SUM_FRACTION>(
                    addition,
                    depth,
                    &mut products,
                );
            }
            let sums = rows.as_flattened_mut().iter_mut();
            for (sum, product) in sums.zip(products.as_flattened()) {
                let value = value::<SUM_WIDTH, SUM_FRACTION>;
                *sum = to_nearest::<SUM_WIDTH>(value(*sum) + value(*product));
            }
        }
        *sums = by_fragments(&rows);
    }

    /// Adds the product of a quad pair to its sums.
    #[inline(always)]
    pub(super) fn add_quad_pair<V: HostSimd, const SUM_WIDTH: u32, const SUM_FRACTION: u32>(
        &mut self,
        pair: &mut QuadPair,
    ) {
        for (row, from) in self.left.iter_mut().zip(&pair.left) {
            row[..4].copy_from_slice(&from.map(u32::from));
        }
        for (row, from) in self.right.iter_mut().zip(&pair.right) {
            *row = [0; 8];
            row[..4].copy_from_slice(&from.map(u32::from));
        }
        self.split::<16, F16>();
        let mut rows = [[0; 8]; 16];
        for (row, sums) in rows.iter_mut().zip(&pair.sums) {
            row[..4].copy_from_slice(sums);
        }
        let addition = Addition::for_factors(op::Factors::F16);
        self.add_terms::<V, 16, F16, SUM_WIDTH, SUM_FRACTION>(addition, 4, &mut rows);
        for (row, sums) in rows.iter().zip(&mut pair.sums) {
            sums.copy_from_slice(&row[..4]);
        }
    }

    /// Adds the product of the first `depth` columns to sums by rows, in steps.
    #[inline(always)]
    fn add_terms<
        V: HostSimd,
        const WIDTH: u32,
        const FRACTION: u32,
        const SUM_WIDTH: u32,
        const SUM_FRACTION: u32,
    >(
        &self,
        addition: Addition,
        depth: usize,
        rows: &mut [[u32; 8]; 16],
    ) {
        let special_right = any_special::<WIDTH, FRACTION>(self.right[..depth].as_flattened());
        for first in (0..depth).step_by(addition.step) {
            let step = first..depth.min(first + addition.step);
            let before = *rows;
            self.step::<V, SUM_WIDTH, SUM_FRACTION>(addition, step.clone(), rows);
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
    }

    /// Adds the products in the columns `step` to sums by rows, as if all were finite.
    #[inline(always)]
    fn step<V: HostSimd, const SUM_WIDTH: u32, const SUM_FRACTION: u32>(
        &self,
        addition: Addition,
        step: Range<usize>,
        rows: &mut [[u32; 8]; 16],
    ) {
        let Addition { fraction, kept, .. } = addition;
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
            // SAFETY: the handlers of an instruction set run only where it is there. `split` gives
            // finite significands below 2, of infinity and NaN too, with 11 bits for factors:
            // products have 22. A step has at most 16 terms, and `fraction` is 13, 24 or 25.
            let sums = unsafe { V::add_terms(left, terms, &first, fraction) };
            (totals[row], largest[row]) = (sums.totals, sums.largest);
        }
        let rounded = rows.as_flattened_mut();
        let (totals, largest) = (totals.as_flattened(), largest.as_flattened());
        for i in 0..16 * 8 {
            let sum = totals[i] * power_of_two(widest_exponent(largest[i]) - fraction);
            rounded[i] = if SUM_WIDTH == 16 {
                u32::from(narrow::<F16>(sum))
            } else {
                toward_zero(sum) & (u32::MAX << (F32 - kept))
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

    /// Takes these columns of A and rows of B, as f16 that `half` makes.
    #[inline(always)]
    fn take(
        &mut self,
        bytes: &Bytes,
        columns: impl Iterator<Item = usize>,
        [a, b]: [ByteType; 2],
        half: impl Fn(ByteType, u8) -> u16,
    ) {
        for (i, k) in columns.enumerate() {
            for (row, from) in self.left.iter_mut().zip(&bytes.left) {
                row[i] = half(a, from[k]).into();
            }
            self.right[i] = bytes.right[k].map(|byte| half(b, byte).into());
        }
    }

    /// The exponents of 8-bit floats whose bits are [`placed`] in f16.
    #[inline(always)]
    fn move_exponents(&mut self, types: [ByteType; 2]) {
        let [a, b] = types.map(|ty| match ty {
            ByteType::E4m3 => 8,
            ByteType::E5m2 => 0,
        });
        for term in self.left_terms.as_flattened_mut() {
            term.exponent += a;
        }
        for exponent in self
            .right_terms
            .iter_mut()
            .flat_map(|terms| &mut terms.exponents)
        {
            *exponent += b;
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

/// Bits of fraction of f32.
const F32: u32 = 23;

pub(super) const ZERO: Term = Term {
    significand: 0.0,
    exponent: 0,
};

pub(super) const ZEROS: Terms = Terms {
    significands: [0.0; 8],
    exponents: [0; 8],
};

/// Sums by rows, the columns in the order of the fragments.
#[inline(always)]
pub(super) fn by_rows(sums: &SumBits) -> [[u32; 8]; 16] {
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
pub(super) fn by_fragments(rows: &[[u32; 8]; 16]) -> SumBits {
    let mut sums = [[0; 32]; 4];
    for (part, sums) in sums.iter_mut().enumerate() {
        for (g, four) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *four = rows[part / 2 * 8 + g].as_chunks::<4>().0[part % 2];
        }
    }
    sums
}

/// Significand, with its sign, and exponent of a float. Of NaN and infinity they are those of a
/// zero.
#[inline(always)]
pub(super) fn split<const WIDTH: u32, const FRACTION: u32>(bits: u32) -> (f32, i32) {
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

/// True if one of the floats is NaN or infinite.
#[inline(always)]
pub(super) fn any_special<const WIDTH: u32, const FRACTION: u32>(bits: &[u32]) -> bool {
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
pub(super) fn replace_special<
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
            sums[j] = to_nearest::<SUM_WIDTH>(plain);
        }
    }
}

fn value<const WIDTH: u32, const FRACTION: u32>(bits: u32) -> f64 {
    match WIDTH {
        16 => widen::<FRACTION>(bits as u16),
        _ => f32::from_bits(bits).into(),
    }
}

/// The largest exponent of some terms. If all of them are zero, any exponent will do.
#[inline(always)]
pub(super) fn widest_exponent(largest: i32) -> i32 {
    largest.max(NO_EXPONENT / 4)
}

/// The bits of an exact sum as f32 or f16, rounded to nearest even.
#[inline(always)]
fn to_nearest<const WIDTH: u32>(sum: f64) -> u32 {
    match WIDTH {
        16 => narrow::<F16>(sum).into(),
        _ if sum.is_nan() => 0x7fff_ffff,
        _ => (sum as f32).to_bits(),
    }
}

/// The bits of `x` as f32, rounded toward zero. From 2¹²⁸ on it is infinite.
#[inline(always)]
pub(super) fn toward_zero(x: f64) -> u32 {
    let near = x as f32;
    let too_large = f64::from(near).abs() > x.abs() && x.abs() < power_of_two(128);
    near.to_bits() - u32::from(too_large)
}
