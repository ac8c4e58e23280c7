//! Products of matrices of f64: `d = c`, then `d = fma(a[k], b[k], d)` for each k in order, rounded to nearest even.
//!
//! PTX leaves the order open. [MMA-Sim](https://github.com/microsoft/MMA-Sim) has found this one on GPUs of compute 8.0 and 9.0. A
//! NaN is [`Float::NAN`].

use std::array::from_fn;

use crate::exec::lane_mask::FULL;
use crate::exec::operations::rounding::Float;
use crate::exec::registers::Registers;
use crate::program::op::{MatrixProduct64, R};

/// Runs a product, which all lanes of a warp take part in.
pub(crate) fn multiply(registers: &mut Registers, product: &MatrixProduct64) {
    let values = |r: R| registers.read::<u64>(r).map(f64::from_bits);
    let (a, b, c) = (values(product.a), values(product.b), product.c.map(values));
    let sums: [[u64; 32]; 2] = from_fn(|half| {
        from_fn(|lane| {
            let (row, column) = (lane / 4, 2 * (lane % 4) + half);
            let add = |sum: f64, k: usize| a[4 * row + k].mul_add(b[4 * column + k], sum);
            let sum = (0..4).fold(c[half][lane], add);
            let sum = if sum.is_nan() {
                <f64 as Float>::NAN
            } else {
                sum
            };
            sum.to_bits()
        })
    });
    for (d, sums) in product.d.iter().zip(&sums) {
        registers.write(*d, FULL, sums);
    }
}
