//! Sums by the host's fused multiply-adds, as [`crate::exec::operations::mma::fast`] adds them.

use std::sync::OnceLock;

use super::SumTiles;
use super::tiles::Row;
use crate::exec::host_simd::HostSimd;
use crate::exec::operations::mma::fast::{float8, narrow_all, widen_all, widen_bf16};
use crate::exec::operations::mma::fragments::{COLUMNS, bytes, halves, rows_of_halves};
use crate::exec::operations::mma::tf32;
use crate::program::op::{self, ByteType, Sums};

/// A and B in f32: each row of A, and each eight columns of B, in pieces of 16 along the depth.
#[derive(Default)]
pub(super) struct Factors {
    /// Pieces of a row.
    pieces: usize,
    /// Columns of A in a piece.
    depth: usize,
    /// Of 16 rows, the pieces one after the other.
    left: Vec<[[f32; 16]; 16]>,
    /// Of eight columns, even ones first.
    right: Vec<[[f32; 8]; 16]>,
}

impl Factors {
    #[inline(always)]
    pub(super) fn read<V: HostSimd>(&mut self, factors: op::Factors, left: &[Row], right: &[Row]) {
        (self.pieces, self.depth) = match factors {
            op::Factors::Tf32 => (1, 8),
            op::Factors::F16 | op::Factors::Bf16 => (1, 16),
            _ => (2, 16),
        };
        self.left
            .resize(left.len() / 16 * self.pieces, [[0.0; 16]; 16]);
        self.right
            .resize(right.len() / 8 * self.pieces, [[0.0; 8]; 16]);
        // SAFETY: the handlers of an instruction set run only where it is there.
        match factors {
            // SAFETY: promised by the caller.
            op::Factors::F16 => self.read_halves(left, right, |half, to| unsafe {
                V::widen(half, to);
            }),
            // SAFETY: as above.
            op::Factors::Bf16 => self.read_halves(left, right, |half, to| unsafe {
                widen_bf16(half, to);
            }),
            op::Factors::Tf32 => self.read_words(left, right),
            op::Factors::E4m3 { b } => self.read_bytes(left, right, [ByteType::E4m3, b]),
            op::Factors::E5m2 { b } => self.read_bytes(left, right, [ByteType::E5m2, b]),
            op::Factors::Int8 { .. } => unreachable!("not floats"),
        }
    }

    /// A chunk has eight elements.
    #[inline(always)]
    fn read_halves(
        &mut self,
        left: &[Row],
        right: &[Row],
        widen: impl Fn(&[u16; 8], &mut [f32; 8]),
    ) {
        for (to, from) in self.left.as_flattened_mut().iter_mut().zip(left) {
            for (to, chunk) in to.as_chunks_mut::<8>().0.iter_mut().zip(from) {
                widen(&halves(*chunk), to);
            }
        }
        for (to, columns) in self.right.iter_mut().zip(right.as_chunks::<8>().0) {
            for (c, to) in to.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let columns = COLUMNS.map(|column| columns[column][c]);
                for (to, row) in to.iter_mut().zip(rows_of_halves(&columns)) {
                    widen(&row, to);
                }
            }
        }
    }

    /// A chunk has four elements of tf32.
    #[inline(always)]
    fn read_words(&mut self, left: &[Row], right: &[Row]) {
        let value = |word: u32| f32::from_bits(tf32(word));
        for (to, from) in self.left.as_flattened_mut().iter_mut().zip(left) {
            for (to, word) in to.iter_mut().zip(from.as_flattened()) {
                *to = value(*word);
            }
        }
        for (to, columns) in self.right.iter_mut().zip(right.as_chunks::<8>().0) {
            let columns = COLUMNS.map(|column| columns[column]);
            for (k, to) in to.iter_mut().take(8).enumerate() {
                *to = columns.map(|column| value(column[k / 4][k % 4]));
            }
        }
    }

    /// A chunk has 16 elements of 8 bits: a piece.
    #[inline(always)]
    fn read_bytes(&mut self, left: &[Row], right: &[Row], types: [ByteType; 2]) {
        let [of_a, of_b] = types.map(byte_values);
        let rows = |first: &[Row], to: &mut [[[f32; 16]; 16]]| {
            for (row, from) in first.iter().enumerate() {
                for (c, chunk) in from.iter().enumerate() {
                    to[row / 16 * 2 + c][row % 16] = bytes(*chunk).map(|x| of_a[usize::from(x)]);
                }
            }
        };
        rows(left, &mut self.left);
        for (eight, columns) in right.as_chunks::<8>().0.iter().enumerate() {
            for c in 0..2 {
                let to = &mut self.right[2 * eight + c];
                for (j, column) in COLUMNS.into_iter().enumerate() {
                    for (to, byte) in to.iter_mut().zip(bytes(columns[column][c])) {
                        to[j] = of_b[usize::from(byte)];
                    }
                }
            }
        }
    }

    /// Runs the product.
    #[inline(always)]
    pub(super) fn multiply<V: HostSimd>(&self, tiles: &mut SumTiles<'_, '_>) {
        let pieces = |warp: usize, eight: usize| {
            let left = &self.left[warp * self.pieces..][..self.pieces];
            let right = &self.right[eight * self.pieces..][..self.pieces];
            left.iter()
                .zip(right.iter().map(|rows| &rows[..self.depth]))
        };
        if tiles.sums == Sums::F16 {
            return tiles.update(|warp, eight, sums| {
                widen_all::<V>(sums);
                let to = sums.each_mut().map(|words| words.as_mut_ptr());
                for (left, right) in pieces(warp, eight) {
                    // SAFETY: the handlers of an instruction set run only where it is there; each
                    // part of `sums` has 32 words.
                    unsafe { V::multiply_add(left, right, to.map(<*mut u32>::cast_const), to) };
                }
                narrow_all::<V>(sums);
            });
        }
        let zeros = [0u32; 32];
        for (w, warp) in tiles.warps.iter_mut().enumerate() {
            for (eight, d) in tiles.d.as_chunks::<4>().0.iter().enumerate() {
                let to = warp.rows(*d);
                let mut from = match tiles.adds {
                    true => to.map(<*mut u32>::cast_const),
                    false => [zeros.as_ptr(); 4],
                };
                for (left, right) in pieces(w, eight) {
                    // SAFETY: as above; a row of a register has 32 words, and the registers are
                    // borrowed.
                    unsafe { V::multiply_add(left, right, from, to) };
                    from = to.map(<*mut u32>::cast_const);
                }
            }
        }
    }
}

/// The value of every byte.
fn byte_values(ty: ByteType) -> &'static [f32; 256] {
    static VALUES: OnceLock<[[f32; 256]; 2]> = OnceLock::new();
    let values = VALUES.get_or_init(|| {
        [ByteType::E4m3, ByteType::E5m2]
            .map(|ty| std::array::from_fn(|byte| float8(ty, byte as u8)))
    });
    match ty {
        ByteType::E4m3 => &values[0],
        ByteType::E5m2 => &values[1],
    }
}
