//! Sums of products of 8-bit integers.

use super::fragments::{self, SumBits, bytes};
use crate::exec::registers::Registers;
use crate::program::op::{self, MatrixProduct, Sums};
use crate::settings::device;

/// A and B by rows.
pub(super) struct Factors {
    left: [[i32; 32]; 16],
    right: [[i32; 8]; 32],
}

impl Factors {
    pub(super) const ZERO: Factors = Factors {
        left: [[0; 32]; 16],
        right: [[0; 8]; 32],
    };

    /// Adds a product to `sums`.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        registers: &Registers,
        product: &MatrixProduct,
        sums: &mut SumBits,
    ) {
        let op::Factors::Int8 { a_signed, b_signed } = product.factors else {
            unreachable!("not a product of integers")
        };
        let Factors { left, right } = self;
        fragments::left(registers, product, |row, piece, words| {
            let bytes = bytes(words);
            for i in 0..16 {
                left[row][16 * piece + i] = widen(bytes[i], a_signed);
            }
        });
        fragments::right(registers, product, |piece, columns| {
            for (j, words) in columns.iter().enumerate() {
                let bytes = bytes(*words);
                for i in 0..16 {
                    right[16 * piece + i][j] = widen(bytes[i], b_signed);
                }
            }
        });
        let saturate = product.sums == Sums::S32 { saturate: true };
        // Sums saturate after so many columns.
        let step = match device().capability.number {
            ..90 => 16,
            _ => 32,
        };
        for (row, a) in left.iter().enumerate().take(product.rows()) {
            for first in (0..product.depth()).step_by(step) {
                // At most 32 · 255²: no overflow.
                let mut products = [0i32; 8];
                for k in first..product.depth().min(first + step) {
                    for j in 0..8 {
                        products[j] += a[k] * right[k][j];
                    }
                }
                for j in 0..8 {
                    let sum = &mut sums[row / 8 * 2 + j / 4][row % 8 * 4 + j % 4];
                    let c = *sum as i32;
                    *sum = match saturate {
                        true => c.saturating_add(products[j]),
                        false => c.wrapping_add(products[j]),
                    } as u32;
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn widen(byte: u8, signed: bool) -> i32 {
    match signed {
        true => i32::from(byte as i8),
        false => i32::from(byte),
    }
}
