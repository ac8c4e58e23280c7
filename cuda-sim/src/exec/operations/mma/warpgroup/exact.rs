//! Sums as the tensor cores of compute 9.0 add for a warpgroup: all products of an instruction, and
//! the sum so far, in one step. [MMA-Sim](https://github.com/microsoft/MMA-Sim) has the bits that
//! are kept.

use super::tiles::Row;
use crate::exec::half_float::{F16, narrow, power_of_two};
use crate::exec::host_simd::{HostSimd, Term, Terms};
use crate::exec::operations::byte_float::placed;
use crate::exec::operations::mma::exact::{
    ZERO, ZEROS, any_special, by_fragments, by_rows, replace_special, split, toward_zero,
    widest_exponent,
};
use crate::exec::operations::mma::fragments::{COLUMNS, SumBits, bytes, halves};
use crate::exec::operations::mma::tf32;
use crate::program::op::{self, ByteType};

/// Bits that a term keeps below the largest exponent: of 8-bit floats, and of others.
const BITS_OF_BYTES: i32 = 13;
const BITS: i32 = 25;

/// A and B, as bits and as terms: each row of A, and each eight columns of B, even ones first.
#[derive(Default)]
pub(super) struct Factors {
    depth: usize,
    fraction: i32,
    /// Bits of fraction of a sum in f32 that are rounded away.
    dropped: u32,
    left: Vec<[u32; 32]>,
    left_terms: Vec<[Term; 32]>,
    right: Vec<[[u32; 8]; 32]>,
    right_terms: Vec<[Terms; 32]>,
}

impl Factors {
    /// Reads factors of `WIDTH` bits with `FRACTION` bits of fraction. 8-bit floats have their
    /// digits in the places of an f16.
    pub(super) fn read<const WIDTH: u32, const FRACTION: u32>(
        &mut self,
        factors: op::Factors,
        left: &[Row],
        right: &[Row],
    ) {
        let [of_a, of_b] = match factors {
            op::Factors::E4m3 { b } => [ByteType::E4m3, b].map(Some),
            op::Factors::E5m2 { b } => [ByteType::E5m2, b].map(Some),
            _ => [None; 2],
        };
        self.depth = 256 / factors.bits();
        (self.fraction, self.dropped) = match of_a {
            Some(_) => (BITS_OF_BYTES, 23 - BITS_OF_BYTES as u32),
            None => (BITS, 0),
        };
        let moved = |ty: Option<ByteType>| match ty {
            Some(ByteType::E4m3) => 8,
            Some(ByteType::E5m2) | None => 0,
        };
        self.left.resize(left.len(), [0; 32]);
        self.left_terms.resize(left.len(), [ZERO; 32]);
        for ((to, terms), row) in self.left.iter_mut().zip(&mut self.left_terms).zip(left) {
            *to = elements(factors, of_a, row);
            for (term, bits) in terms.iter_mut().zip(to).take(self.depth) {
                (term.significand, term.exponent) = split::<WIDTH, FRACTION>(*bits);
                term.exponent += moved(of_a);
            }
        }
        self.right.resize(right.len() / 8, [[0; 8]; 32]);
        self.right_terms.resize(right.len() / 8, [ZEROS; 32]);
        let to = self.right.iter_mut().zip(&mut self.right_terms);
        for ((to, terms), columns) in to.zip(right.as_chunks::<8>().0) {
            for (j, column) in COLUMNS.into_iter().enumerate() {
                let bits = elements(factors, of_b, &columns[column]);
                for k in 0..self.depth {
                    to[k][j] = bits[k];
                    let (significand, exponent) = split::<WIDTH, FRACTION>(bits[k]);
                    terms[k].significands[j] = significand;
                    terms[k].exponents[j] = exponent + moved(of_b);
                }
            }
        }
    }

    /// Adds the product of a warp's rows and eight columns to their sums.
    #[inline(always)]
    pub(super) fn add<
        V: HostSimd,
        const WIDTH: u32,
        const FRACTION: u32,
        const SUM_WIDTH: u32,
        const SUM_FRACTION: u32,
    >(
        &self,
        warp: usize,
        eight: usize,
        sums: &mut SumBits,
    ) {
        let right = &self.right[eight][..self.depth];
        let right_terms = &self.right_terms[eight][..self.depth];
        let mut rows = by_rows(sums);
        for (i, sums) in rows.iter_mut().enumerate() {
            let row = 16 * warp + i;
            let left = &self.left[row][..self.depth];
            let mut first = ZEROS;
            for j in 0..8 {
                (first.significands[j], first.exponents[j]) =
                    split::<SUM_WIDTH, SUM_FRACTION>(sums[j]);
            }
            let terms = &self.left_terms[row][..self.depth];
            // SAFETY: the handlers of an instruction set run only where it is there. `split` gives
            // finite significands below 2, with at most 11 bits for factors: products have 22.
            // There are at most 32 terms, and `fraction` is 13 or 25.
            let totals = unsafe { V::add_terms(terms, right_terms, &first, self.fraction) };
            let before = *sums;
            for j in 0..8 {
                let unit = power_of_two(widest_exponent(totals.largest[j]) - self.fraction);
                let sum = totals.totals[j] * unit;
                sums[j] = match SUM_WIDTH {
                    16 => u32::from(narrow::<F16>(sum)),
                    _ => toward_zero(sum) & (u32::MAX << self.dropped),
                };
            }
            if any_special::<WIDTH, FRACTION>(left)
                || any_special::<WIDTH, FRACTION>(right.as_flattened())
                || any_special::<SUM_WIDTH, SUM_FRACTION>(&before)
            {
                replace_special::<WIDTH, FRACTION, SUM_WIDTH, SUM_FRACTION>(
                    left, right, &before, sums,
                );
            }
        }
        *sums = by_fragments(&rows);
    }
}

/// The bits of a row's elements.
fn elements(factors: op::Factors, byte: Option<ByteType>, row: &Row) -> [u32; 32] {
    let mut bits = [0; 32];
    for (c, chunk) in row.iter().enumerate() {
        match (byte, factors) {
            (Some(ty), _) => {
                for (i, byte) in bytes(*chunk).into_iter().enumerate() {
                    bits[16 * c + i] = placed(ty, byte).into();
                }
            }
            (None, op::Factors::Tf32) => {
                for (i, word) in chunk.iter().enumerate() {
                    bits[4 * c + i] = tf32(*word);
                }
            }
            (None, _) => {
                for (i, half) in halves(*chunk).into_iter().enumerate() {
                    bits[8 * c + i] = half.into();
                }
            }
        }
    }
    bits
}
