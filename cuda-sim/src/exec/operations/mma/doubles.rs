//! Products of matrices of f64: `d = c`, then `d = fma(a[k], b[k], d)` for each k in order, rounded
//! to nearest even.
//!
//! PTX leaves the order open. [MMA-Sim](https://github.com/microsoft/MMA-Sim) has found this one on
//! GPUs of compute 8.0 and 9.0. A NaN is [`Float::NAN`].

use crate::exec::lane_mask::FULL;
use crate::exec::operations::rounding::Float;
use crate::exec::registers::Registers;
use crate::program::op::MatrixProduct64;

/// Runs a product, which all lanes of a warp take part in.
#[inline(always)]
pub(super) fn multiply(registers: &mut Registers, product: &MatrixProduct64) {
    let [left_registers, sum_registers] = product.registers();
    let (mut left, mut right) = ([[0.0; 4]; 16], [[0.0; 8]; 4]);
    for (i, r) in product.a[..left_registers].iter().enumerate() {
        let values: &[u64; 32] = registers.read(*r);
        for lane in 0..32 {
            left[8 * i + lane / 4][lane % 4] = f64::from_bits(values[lane]);
        }
    }
    let values: &[u64; 32] = registers.read(product.b);
    for lane in 0..32 {
        right[lane % 4][lane / 4] = f64::from_bits(values[lane]);
    }
    let place = |i: usize, lane: usize| (8 * (i / 2) + lane / 4, 2 * (lane % 4) + i % 2);
    let mut sums = [[0.0; 8]; 16];
    for (i, r) in product.c[..sum_registers].iter().enumerate() {
        let values: &[u64; 32] = registers.read(*r);
        for lane in 0..32 {
            let (row, column) = place(i, lane);
            sums[row][column] = f64::from_bits(values[lane]);
        }
    }
    for row in 0..usize::from(product.rows) {
        for k in 0..4 {
            for j in 0..8 {
                sums[row][j] = left[row][k].mul_add(right[k][j], sums[row][j]);
            }
        }
    }
    for (i, r) in product.d[..sum_registers].iter().enumerate() {
        let mut values = [0; 32];
        for lane in 0..32 {
            let (row, column) = place(i, lane);
            let sum: f64 = sums[row][column];
            let sum = if sum.is_nan() {
                <f64 as Float>::NAN
            } else {
                sum
            };
            values[lane] = sum.to_bits();
        }
        registers.write(*r, FULL, &values);
    }
}
