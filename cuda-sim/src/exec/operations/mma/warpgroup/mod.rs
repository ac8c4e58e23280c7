//! Matrix products of a warpgroup: `wgmma.mma_async`.
//!
//! - `descriptor`: where a tile lies in shared memory; `tiles`: A and B
//! - `fast`, `exact`, `integers`: the sums, sixteen rows and eight columns at a time, as a warp has
//!   them in four registers

pub(crate) mod descriptor;
mod exact;
mod fast;
mod integers;
mod tiles;

use std::ops::Range;

use self::descriptor::{CHUNK, Descriptor, Major};
use self::tiles::Row;
use super::fragments::SumBits;
use super::{F32, MatrixUnit};
use crate::exec::half_float::{BF16, F16};
use crate::exec::host_simd::HostSimd;
use crate::exec::lane_mask::FULL;
use crate::exec::registers::Registers;
use crate::program::op::{Factors, LeftFactor, R, Sums, WarpgroupProduct};
use crate::settings::MmaMode;

/// A and B of a product, one set for each host thread. They are written before they are read, and
/// take no room where no kernel has such products.
#[derive(Default)]
pub(crate) struct Tiles {
    left: Vec<Row>,
    right: Vec<Row>,
    floats: fast::Factors,
    terms: exact::Factors,
    integers: integers::Factors,
    /// For [`Tiles::ranges`].
    chunks: Vec<bool>,
}

/// A tile that is not all in shared memory.
#[derive(Debug)]
pub(crate) struct BeyondShared {
    /// `A` or `B`.
    pub name: &'static str,
    pub descriptor: Descriptor,
    /// The address of 16 bytes of it.
    pub address: u64,
}

/// Operands of a product in shared memory, with their names and orders. A is none of them if it is
/// in registers.
pub(crate) fn shared_operands(
    product: &WarpgroupProduct,
) -> impl Iterator<Item = (&'static str, R, Major, usize)> {
    let major = |transposed| if transposed { Major::Mn } else { Major::K };
    let [of_a, of_b] = product.transposed.map(major);
    let a = match product.a {
        LeftFactor::Registers(_) => None,
        LeftFactor::Shared(descriptor) => Some(("A", descriptor, of_a, WarpgroupProduct::ROWS)),
    };
    let b = ("B", product.b, of_b, usize::from(product.columns));
    a.into_iter().chain([b])
}

impl Tiles {
    /// Reads A and B. The four warps have the same descriptors.
    pub(crate) fn read(
        &mut self,
        product: &WarpgroupProduct,
        shared: &[u8],
        warps: [&Registers; 4],
    ) -> Result<(), BeyondShared> {
        self.left.resize(WarpgroupProduct::ROWS, [[0; 4]; 2]);
        self.right.resize(product.columns.into(), [[0; 4]; 2]);
        if let LeftFactor::Registers(a) = &product.a {
            for (registers, rows) in warps.iter().zip(self.left.chunks_mut(16)) {
                tiles::read_fragments(registers, a, rows);
            }
        }
        for (name, r, major, _) in shared_operands(product) {
            let rows = match name {
                "A" => &mut self.left,
                _ => &mut self.right,
            };
            let descriptor = Descriptor::new(warps[0].read::<u64>(r)[0]);
            tiles::read(shared, &descriptor, major, rows).map_err(|address| BeyondShared {
                name,
                descriptor,
                address,
            })?;
        }
        // A product changes its sign with that of one factor.
        if product.negated[0] != product.negated[1] {
            tiles::negate(product.factors, &mut self.left);
        }
        Ok(())
    }

    /// The bytes of shared memory that these rows of a tile of a product are in, which have been
    /// read.
    pub(crate) fn ranges(
        &mut self,
        product: &WarpgroupProduct,
        descriptor: &Descriptor,
        major: Major,
        rows: Range<usize>,
    ) -> impl Iterator<Item = Range<u64>> {
        self.chunks.clear();
        let (lines, chunks) = match major {
            Major::K => (rows, 0..2),
            Major::Mn => (0..product.depth(), rows.start / 8..rows.end / 8),
        };
        let mut at = usize::MAX;
        for line in lines {
            for c in chunks.clone() {
                let chunk = descriptor.first_of(major, line, c) as usize / CHUNK;
                if self.chunks.len() <= chunk {
                    self.chunks.resize(chunk + 1, false);
                }
                self.chunks[chunk] = true;
                at = at.min(chunk);
            }
        }
        std::iter::from_fn(move || {
            let chunks = self.chunks.get(at..)?;
            let start = at + chunks.iter().position(|read| *read)?;
            let length = self.chunks[start..]
                .iter()
                .take_while(|read| **read)
                .count();
            at = start + length;
            Some((start * CHUNK) as u64..(at * CHUNK) as u64)
        })
    }
}

impl MatrixUnit {
    /// Runs a product on the tiles that were read, for the four warps. `d` are its accumulators.
    #[inline(always)]
    pub(crate) fn multiply_warpgroup<V: HostSimd>(
        &mut self,
        warps: &mut [&mut Registers; 4],
        product: &WarpgroupProduct,
        d: &[R],
        adds: bool,
    ) {
        let Tiles {
            left,
            right,
            floats,
            terms,
            integers,
            ..
        } = &mut self.tiles;
        let mut sums = SumTiles {
            warps,
            d,
            sums: product.sums,
            adds,
        };
        if let Factors::Int8 { a_signed, b_signed } = product.factors {
            integers.read(left, right, [a_signed, b_signed]);
            let saturate = product.sums == Sums::S32 { saturate: true };
            return sums.update(|warp, eight, tile| integers.add(warp, eight, saturate, tile));
        }
        if self.mode == MmaMode::Fast {
            floats.read::<V>(product.factors, left, right);
            return floats.multiply::<V>(&mut sums);
        }
        macro_rules! exactly {
            ($width:literal, $fraction:expr, $sum_width:literal, $sum_fraction:expr) => {{
                terms.read::<$width, { $fraction }>(product.factors, left, right);
                sums.update(|warp, eight, tile| {
                    terms.add::<V, $width, { $fraction }, $sum_width, { $sum_fraction }>(
                        warp, eight, tile,
                    );
                });
            }};
        }
        match (product.factors, product.sums) {
            (Factors::Bf16, _) => exactly!(16, BF16, 32, F32),
            (Factors::Tf32, _) => exactly!(32, F32, 32, F32),
            // 8-bit floats are computed with as f16.
            (_, Sums::F16) => exactly!(16, F16, 16, F16),
            _ => exactly!(16, F16, 32, F32),
        }
    }
}

/// The accumulators of a product.
struct SumTiles<'s, 'r> {
    warps: &'s mut [&'r mut Registers; 4],
    d: &'s [R],
    sums: Sums,
    /// False: the sums start with zero.
    adds: bool,
}

impl SumTiles<'_, '_> {
    /// Calls `add` with the number of each warp, that of each eight columns, and the sums there,
    /// which it changes. Those of 16 bits are in the low halves.
    #[inline(always)]
    fn update(&mut self, mut add: impl FnMut(usize, usize, &mut SumBits)) {
        for (w, warp) in self.warps.iter_mut().enumerate() {
            let mut tile = [[0; 32]; 4];
            if self.sums == Sums::F16 {
                for (eight, d) in self.d.as_chunks::<2>().0.iter().enumerate() {
                    for (half, r) in d.iter().enumerate().filter(|_| self.adds) {
                        let pairs = warp.read::<u32>(*r);
                        for lane in 0..32 {
                            tile[2 * half][lane] = pairs[lane] & 0xffff;
                            tile[2 * half + 1][lane] = pairs[lane] >> 16;
                        }
                    }
                    add(w, eight, &mut tile);
                    for (half, r) in d.iter().enumerate() {
                        let mut pairs = [0; 32];
                        for lane in 0..32 {
                            pairs[lane] = tile[2 * half + 1][lane] << 16 | tile[2 * half][lane];
                        }
                        warp.write(*r, FULL, &pairs);
                    }
                    tile = [[0; 32]; 4];
                }
            } else {
                for (eight, d) in self.d.as_chunks::<4>().0.iter().enumerate() {
                    for (part, r) in tile.iter_mut().zip(d).filter(|_| self.adds) {
                        *part = *warp.read(*r);
                    }
                    add(w, eight, &mut tile);
                    for (part, r) in tile.iter().zip(d) {
                        warp.write(*r, FULL, part);
                    }
                    tile = [[0; 32]; 4];
                }
            }
        }
    }
}
