//! Matrix products of a warp, `mma.sync`, and of a warpgroup ([`warpgroup`]).
//!
//! PTX leaves the order and the rounding of a sum of floats open. [`exact`] adds as measurements of
//! tensor cores have shown (README.md, "Matrix products"), [`fast`] with the host's fused
//! multiply-adds. Sums of integers are exact, and those of f64 are a chain of fused multiply-adds
//! ([`doubles`]).

mod doubles;
mod exact;
mod fast;
mod fragments;
mod integers;
mod quad_pairs;
pub(crate) mod warpgroup;

use self::fragments::SumBits;
use self::quad_pairs::QuadPair;
use crate::exec::half_float::{BF16, F16};
use crate::exec::host_simd::HostSimd;
use crate::exec::lane_mask::FULL;
use crate::exec::registers::Registers;
use crate::program::op::{ByteType, Factors, MatrixProduct, Op, QuadPairProducts, Sums};
use crate::settings::MmaMode;
use crate::settings::device;

/// Bits of fraction of f32; of tf32, with those that do not count.
const F32: u32 = 23;

/// The factors of a matrix product, by rows, one set for each host thread. They are written before
/// they are read.
pub(crate) struct MatrixUnit {
    mode: MmaMode,
    floats: fast::Factors,
    terms: exact::Factors,
    integers: integers::Factors,
    pub(crate) tiles: warpgroup::Tiles,
}

impl MatrixUnit {
    pub(crate) fn new(mode: MmaMode) -> Box<MatrixUnit> {
        Box::new(MatrixUnit {
            mode,
            floats: fast::Factors::ZERO,
            terms: exact::Factors::ZERO,
            integers: integers::Factors::ZERO,
            tiles: warpgroup::Tiles::default(),
        })
    }

    /// Runs an `mma`, which all lanes of a warp take part in.
    #[inline(always)]
    pub(crate) fn execute<V: HostSimd>(&mut self, registers: &mut Registers, op: &Op) {
        match op {
            Op::MatrixProduct(product) => self.multiply::<V>(registers, product),
            Op::MatrixProduct64(product) => doubles::multiply(registers, product),
            Op::QuadPairProducts(products) => self.multiply_quad_pairs::<V>(registers, products),
            _ => unreachable!("not a product of matrices"),
        }
    }

    #[inline(always)]
    fn multiply<V: HostSimd>(&mut self, registers: &mut Registers, product: &MatrixProduct) {
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
            (Factors::E4m3 { b }, _) => {
                self.add_bytes::<V>(registers, product, [ByteType::E4m3, b], &mut sums);
            }
            (Factors::E5m2 { b }, _) => {
                self.add_bytes::<V>(registers, product, [ByteType::E5m2, b], &mut sums);
            }
        }
        fragments::write(registers, product, &sums);
    }

    /// Adds a product of 8-bit floats of the types `of` to `sums`.
    #[inline(always)]
    fn add_bytes<V: HostSimd>(
        &mut self,
        registers: &Registers,
        product: &MatrixProduct,
        types: [ByteType; 2],
        sums: &mut SumBits,
    ) {
        match product.sums {
            Sums::F16 => self
                .terms
                .add_bytes::<V, 16, F16>(registers, product, types, sums),
            _ => self
                .terms
                .add_bytes::<V, 32, F32>(registers, product, types, sums),
        }
    }

    #[inline(always)]
    fn multiply_quad_pairs<V: HostSimd>(
        &mut self,
        registers: &mut Registers,
        products: &QuadPairProducts,
    ) {
        let has_quad_pairs = device().capability.number < 80;
        let mut d = [[0; 32]; 4];
        for p in 0..4 {
            let mut pair = QuadPair::read(registers, products, p);
            match (self.mode, products.d_type) {
                (MmaMode::Fast, d_type) => pair.add(d_type, quad_pairs::fused),
                (MmaMode::Exact, Sums::F16) if has_quad_pairs => {
                    self.terms.add_quad_pair::<V, 16, F16>(&mut pair);
                }
                (MmaMode::Exact, _) if has_quad_pairs => {
                    self.terms.add_quad_pair::<V, 32, F32>(&mut pair);
                }
                (MmaMode::Exact, Sums::F16) => {
                    pair.add(Sums::F16, quad_pairs::halves_without_tensor_cores);
                }
                (MmaMode::Exact, d_type) => pair.add(d_type, quad_pairs::without_tensor_cores),
            }
            pair.write(products, p, &mut d);
        }
        let count = products.d_type.registers_of_quad_pairs();
        for (r, words) in products.d[..count].iter().zip(&d) {
            registers.write(*r, FULL, words);
        }
    }
}

/// A factor of type tf32: an f32 whose last 13 bits do not count. A NaN stays one.
#[inline(always)]
fn tf32(bits: u32) -> u32 {
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    if is_nan { bits } else { bits & !0x1fff }
}
