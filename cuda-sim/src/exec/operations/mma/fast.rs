//! Sums by the host's fused multiply-adds.
//!
//! `d = c`, then `d = fma(a[k], b[k], d)` in f32 for each k in order, rounded to nearest even. Subnormal values count. A NaN is
//! 0x7fffffff. Sums in f16 are added in f32 and rounded once at the end. Each step is exact as IEEE 754 defines it, so every host
//! computes the same bits.

use super::fragments::{self, SumBits, halves, rows_of_halves};
use super::tf32;
use crate::exec::host_simd::HostSimd;
use crate::exec::operations::half::{F16, narrow};
use crate::exec::registers::Registers;
use crate::program::op::{self, MatrixProduct, Sums};

/// A and B by rows.
pub(super) struct Factors {
    left: [[f32; 16]; 16],
    right: [[f32; 8]; 16],
}

impl Factors {
    pub(super) const ZERO: Factors = Factors {
        left: [[0.0; 16]; 16],
        right: [[0.0; 8]; 16],
    };

    /// Runs a product.
    #[inline(always)]
    pub(super) fn multiply<V: HostSimd>(
        &mut self,
        registers: &mut Registers,
        product: &MatrixProduct,
    ) {
        self.read::<V>(registers, product);
        let right = &self.right[..product.depth.into()];
        if product.sums == Sums::F16 {
            let mut sums = fragments::read(registers, product);
            widen_all::<V>(&mut sums);
            let to = sums.each_mut().map(|words| words.as_mut_ptr());
            let from = to.map(|words| words.cast_const());
            // SAFETY: the handlers of an instruction set run only where it is there; each part of `sums` has 32 words.
            unsafe { V::multiply_add(&self.left, right, from, to) };
            for sums in &mut sums {
                for lane in 0..32 {
                    let sum = f64::from(f32::from_bits(sums[lane]));
                    sums[lane] = u32::from(narrow::<F16>(sum));
                }
            }
            fragments::write(registers, product, &sums);
        } else {
            let from = registers.rows(product.c).map(<*mut u32>::cast_const);
            let to = registers.rows(product.d);
            // SAFETY: as above; so do registers, which are borrowed.
            unsafe { V::multiply_add(&self.left, right, from, to) };
        }
    }

    #[inline(always)]
    fn read<V: HostSimd>(&mut self, registers: &Registers, product: &MatrixProduct) {
        let Factors { left, right } = self;
        macro_rules! of_halves {
            ($widen:path) => {{
                fragments::left(registers, product, |row, piece, words| {
                    let to = &mut left[row].as_chunks_mut::<8>().0[piece];
                    // SAFETY: the handlers of an instruction set run only where it is there.
                    unsafe { $widen(&halves(words), to) };
                });
                fragments::right(registers, product, |piece, columns| {
                    let to = &mut right.as_chunks_mut::<8>().0[piece];
                    for (row, to) in rows_of_halves(columns).iter().zip(to) {
                        // SAFETY: as above.
                        unsafe { $widen(row, to) };
                    }
                });
            }};
        }
        match product.factors {
            op::Factors::F16 => of_halves!(V::widen),
            op::Factors::Bf16 => of_halves!(widen_bf16),
            _ => {
                fragments::left(registers, product, |row, piece, words| {
                    for i in 0..4 {
                        left[row][4 * piece + i] = f32::from_bits(tf32(words[i]));
                    }
                });
                fragments::right(registers, product, |piece, columns| {
                    for i in 0..4 {
                        for j in 0..8 {
                            right[4 * piece + i][j] = f32::from_bits(tf32(columns[j][i]));
                        }
                    }
                });
            }
        }
    }
}

/// The values of eight bf16. It is unsafe only to have the type of [`HostSimd::widen`].
#[inline(always)]
unsafe fn widen_bf16(halves: &[u16; 8], to: &mut [f32; 8]) {
    for j in 0..8 {
        to[j] = f32::from_bits(u32::from(halves[j]) << 16);
    }
}

/// Turns f16 into f32.
#[inline(always)]
fn widen_all<V: HostSimd>(sums: &mut SumBits) {
    for sums in sums {
        for eight in sums.as_chunks_mut::<8>().0 {
            let (mut halves, mut floats) = ([0; 8], [0.0; 8]);
            for j in 0..8 {
                halves[j] = eight[j] as u16;
            }
            // SAFETY: the handlers of an instruction set run only where it is there.
            unsafe { V::widen(&halves, &mut floats) };
            for j in 0..8 {
                eight[j] = floats[j].to_bits();
            }
        }
    }
}
