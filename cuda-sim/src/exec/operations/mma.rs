//! Matrix products of a warp: `mma.sync`.
//!
//! PTX leaves the order and the rounding of a sum of floats open. [`exact`] adds as measurements of tensor cores have shown
//! (README.md, "Matrix products"), [`fast`] with the host's fused multiply-adds. Sums of integers are exact, and those of f64 are a chain
//! of fused multiply-adds ([`doubles`]).

pub(crate) mod doubles;
mod exact;
mod fast;
mod fragments;
mod integers;

use crate::exec::host_simd::HostSimd;
use crate::exec::operations::half::{BF16, F16};
use crate::exec::registers::Registers;
use crate::program::op::{Factors, MatrixProduct, Sums};
use crate::settings::MmaMode;

/// Bits of fraction of f32; of tf32, with those that do not count.
const F32: u32 = 23;

/// The factors of a matrix product, by rows, one set for each host thread. They are written before they are read.
pub(crate) struct MatrixUnit {
    mode: MmaMode,
    floats: fast::Factors,
    terms: exact::Factors,
    integers: integers::Factors,
}

impl MatrixUnit {
    pub(crate) fn new(mode: MmaMode) -> Box<MatrixUnit> {
        Box::new(MatrixUnit {
            mode,
            floats: fast::Factors::ZERO,
            terms: exact::Factors::ZERO,
            integers: integers::Factors::ZERO,
        })
    }

    /// Runs a product, which all lanes of a warp take part in.
    #[inline(always)]
    pub(crate) fn multiply<V: HostSimd>(
        &mut self,
        registers: &mut Registers,
        product: &MatrixProduct,
    ) {
        if self.mode == MmaMode::Fast && !matches!(product.factors, Factors::Int8 { .. }) {
            return self.floats.multiply::<V>(registers, product);
        }
        let mut sums = fragments::read(registers, product);
        match (product.factors, product.sums) {
            (Factors::Int8 { .. }, _) => self.integers.add(registers, product, &mut sums),
            (Factors::F16, Sums::F16) => self
                .terms
                .add::<V, 16, F16, 16, F16>(registers, product, &mut sums),
            (Factors::F16, _) => self
                .terms
                .add::<V, 16, F16, 32, F32>(registers, product, &mut sums),
            (Factors::Bf16, _) => self
                .terms
                .add::<V, 16, BF16, 32, F32>(registers, product, &mut sums),
            (Factors::Tf32, _) => self
                .terms
                .add::<V, 32, F32, 32, F32>(registers, product, &mut sums),
        }
        fragments::write(registers, product, &sums);
    }
}

/// A factor of type tf32: an f32 whose last 13 bits do not count. A NaN stays one.
#[inline(always)]
fn tf32(bits: u32) -> u32 {
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    if is_nan { bits } else { bits & !0x1fff }
}
