//! Sums of products of 8-bit integers: all products of an instruction, then the sum so far.

use super::tiles::Row;
use crate::exec::operations::mma::fragments::{COLUMNS, SumBits, bytes};
use crate::exec::operations::mma::integers::widen;

/// A by rows, and each eight columns of B, even ones first.
#[derive(Default)]
pub(super) struct Factors {
    left: Vec<[i32; 32]>,
    right: Vec<[[i32; 8]; 32]>,
}

impl Factors {
    pub(super) fn read(&mut self, left: &[Row], right: &[Row], [a, b]: [bool; 2]) {
        let elements = |row: &Row, signed: bool| {
            let mut values = [0; 32];
            for (values, chunk) in values.as_chunks_mut::<16>().0.iter_mut().zip(row) {
                *values = bytes(*chunk).map(|byte| widen(byte, signed));
            }
            values
        };
        self.left.clear();
        self.left.extend(left.iter().map(|row| elements(row, a)));
        self.right.resize(right.len() / 8, [[0; 8]; 32]);
        for (to, columns) in self.right.iter_mut().zip(right.as_chunks::<8>().0) {
            for (j, column) in COLUMNS.into_iter().enumerate() {
                for (to, value) in to.iter_mut().zip(elements(&columns[column], b)) {
                    to[j] = value;
                }
            }
        }
    }

    /// Adds the product of a warp's rows and eight columns to their sums.
    #[inline(always)]
    pub(super) fn add(&self, warp: usize, eight: usize, saturate: bool, sums: &mut SumBits) {
        for (i, left) in self.left[16 * warp..][..16].iter().enumerate() {
            // At most 32 · 255²: no overflow.
            let mut products = [0i32; 8];
            for (a, b) in left.iter().zip(&self.right[eight]) {
                for j in 0..8 {
                    products[j] += a * b[j];
                }
            }
            for j in 0..8 {
                // Even columns first, as in `COLUMNS`.
                let sum = &mut sums[i / 8 * 2 + j / 4][i % 8 * 4 + j % 4];
                let c = *sum as i32;
                *sum = match saturate {
                    true => c.saturating_add(products[j]),
                    false => c.wrapping_add(products[j]),
                } as u32;
            }
        }
    }
}
