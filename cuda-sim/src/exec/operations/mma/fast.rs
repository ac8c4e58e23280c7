//! Sums by the host's fused multiply-adds.
//!
//! `d = c`, then `d = fma(a[k], b[k], d)` in f32 for each k in order, rounded to nearest even.
//! Subnormal values count. A NaN is 0x7fffffff. Sums in f16 are added in f32 and rounded once at
//! the end. Each step is exact as IEEE 754 defines it, so every host computes the same bits.

use super::fragments::{self, Bytes, SumBits, halves, rows_of_halves};
use super::tf32;
use crate::exec::half_float::{F16, NAN, widen};
use crate::exec::host_simd::HostSimd;
use crate::exec::operations::byte_float::placed;
use crate::exec::registers::Registers;
use crate::program::op::{self, ByteType, MatrixProduct, Sums};

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
        if product.sums == Sums::F16 || product.depth() > 16 {
            return self.multiply_aside::<V>(registers, product);
        }
        self.read::<V>(registers, product, 0);
        let right = &self.right[..product.depth()];
        let from = registers.rows(product.c).map(<*mut u32>::cast_const);
        let to = registers.rows(product.d);
        // SAFETY: the handlers of an instruction set run only where it is there; a row of a
        // register has 32 words, and the registers are borrowed.
        unsafe { V::multiply_add(&self.left, right, from, to) };
    }

    /// Runs a product of which the sums are not f32, or which has more than 16 columns.
    #[inline(always)]
    fn multiply_aside<V: HostSimd>(&mut self, registers: &mut Registers, product: &MatrixProduct) {
        let mut sums = fragments::read(registers, product);
        if product.sums == Sums::F16 {
            widen_all::<V>(&mut sums);
        }
        let depth = product.depth();
        for first in (0..depth).step_by(16) {
            self.read::<V>(registers, product, first);
            let right = &self.right[..depth.min(16)];
            let to = sums.each_mut().map(|words| words.as_mut_ptr());
            let from = to.map(|words| words.cast_const());
            // SAFETY: the handlers of an instruction set run only where it is there; each part of
            // `sums` has 32 words.
            unsafe { V::multiply_add(&self.left, right, from, to) };
        }
        if product.sums == Sums::F16 {
            narrow_all::<V>(&mut sums);
        }
        fragments::write(registers, product, &sums);
    }

    /// Reads up to 16 columns of A and rows of B, of 8-bit floats from `first` on.
    #[inline(always)]
    fn read<V: HostSimd>(&mut self, registers: &Registers, product: &MatrixProduct, first: usize) {
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
        macro_rules! of_bytes {
            ($a:expr, $b:expr) => {{
                let bytes = Bytes::read(registers, product);
                for i in 0..16 {
                    for (row, from) in left.iter_mut().zip(&bytes.left) {
                        row[i] = float8($a, from[first + i]);
                    }
                    right[i] = bytes.right[first + i].map(|byte| float8($b, byte));
                }
            }};
        }
        match product.factors {
            op::Factors::F16 => of_halves!(V::widen),
            op::Factors::Bf16 => of_halves!(widen_bf16),
            op::Factors::E4m3 { b } => of_bytes!(ByteType::E4m3, b),
            op::Factors::E5m2 { b } => of_bytes!(ByteType::E5m2, b),
            op::Factors::Tf32 | op::Factors::Int8 { .. } => {
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

/// The value of an 8-bit float.
#[inline(always)]
pub(super) fn float8(ty: ByteType, byte: u8) -> f32 {
    let value = widen::<F16>(placed(ty, byte)) as f32;
    match ty {
        ByteType::E4m3 => value * 256.0,
        ByteType::E5m2 => value,
    }
}

/// The values of eight bf16. It is unsafe only to have the type of [`HostSimd::widen`].
#[inline(always)]
pub(super) unsafe fn widen_bf16(halves: &[u16; 8], to: &mut [f32; 8]) {
    for j in 0..8 {
        to[j] = f32::from_bits(u32::from(halves[j]) << 16);
    }
}

/// Turns f16 into f32.
#[inline(always)]
pub(super) fn widen_all<V: HostSimd>(sums: &mut SumBits) {
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

/// Turns f32 into f16.
#[inline(always)]
pub(super) fn narrow_all<V: HostSimd>(sums: &mut SumBits) {
    for sums in sums {
        for eight in sums.as_chunks_mut::<8>().0 {
            let (floats, mut halves) = (eight.map(f32::from_bits), [0; 8]);
            // SAFETY: the handlers of an instruction set run only where it is there.
            unsafe { V::narrow(&floats, &mut halves) };
            for j in 0..8 {
                let half = if floats[j].is_nan() { NAN } else { halves[j] };
                eight[j] = u32::from(half);
            }
        }
    }
}
