//! Fragments of matrices in the registers of a warp, as [`crate::program::op::MatrixProduct`] has
//! them, by rows.

use std::mem::transmute;

use crate::exec::lane_mask::FULL;
use crate::exec::registers::Registers;
use crate::program::op::{MatrixProduct, Sums};

/// Columns of B in the order in which rows of B are computed with: as C and D have them in 32 bits,
/// the even ones of even registers first.
pub(super) const COLUMNS: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

/// C or D, as bits: the fragments of 32-bit sums. Those of 16 bits are in the low halves.
pub(super) type SumBits = [[u32; 32]; 4];

/// Calls `row` with every row of A, in pieces of four words: the row, the number of the piece, the
/// words.
#[inline(always)]
pub(super) fn left(
    registers: &Registers,
    product: &MatrixProduct,
    mut row: impl FnMut(usize, usize, [u32; 4]),
) {
    let [registers_of_a, ..] = product.registers();
    for (i, r) in product.a[..registers_of_a].iter().enumerate() {
        let tile = registers.read::<u32>(*r).as_chunks::<4>().0;
        for (g, words) in tile.iter().enumerate() {
            row(i % 2 * 8 + g, i / 2, *words);
        }
    }
}

/// Calls `piece` with four words of all columns of B, one such piece after the other, numbered.
#[inline(always)]
pub(super) fn right(
    registers: &Registers,
    product: &MatrixProduct,
    mut piece: impl FnMut(usize, &[[u32; 4]; 8]),
) {
    for (i, r) in product.b[..product.words()].iter().enumerate() {
        let tile = registers.read::<u32>(*r).as_chunks::<4>().0;
        let [a, b, c, d, e, f, g, h] = COLUMNS;
        let columns = [
            tile[a], tile[b], tile[c], tile[d], tile[e], tile[f], tile[g], tile[h],
        ];
        piece(i, &columns);
    }
}

/// A and B of 8-bit elements, by rows. Columns of A beyond its depth are zero.
pub(super) struct Bytes {
    pub left: [[u8; 32]; 16],
    pub right: [[u8; 8]; 32],
}

impl Bytes {
    #[inline(always)]
    pub(super) fn read(registers: &Registers, product: &MatrixProduct) -> Bytes {
        let (mut left, mut right) = ([[0; 32]; 16], [[0; 8]; 32]);
        self::left(registers, product, |row, piece, words| {
            left[row].as_chunks_mut::<16>().0[piece] = bytes(words);
        });
        self::right(registers, product, |piece, columns| {
            for (j, words) in columns.iter().enumerate() {
                let rows = &mut right[16 * piece..][..16];
                for (row, byte) in rows.iter_mut().zip(bytes(*words)) {
                    row[j] = byte;
                }
            }
        });
        Bytes { left, right }
    }
}

/// C.
#[inline(always)]
pub(super) fn read(registers: &Registers, product: &MatrixProduct) -> SumBits {
    let mut sums = [[0; 32]; 4];
    if product.sums == Sums::F16 {
        for half in 0..2 {
            let pairs: &[u32; 32] = registers.read(product.c[half]);
            for lane in 0..32 {
                sums[2 * half][lane] = pairs[lane] & 0xffff;
                sums[2 * half + 1][lane] = pairs[lane] >> 16;
            }
        }
    } else {
        for (sums, c) in sums.iter_mut().zip(&product.c[..product.sum_registers()]) {
            *sums = *registers.read(*c);
        }
    }
    sums
}

/// Writes D.
#[inline(always)]
pub(super) fn write(registers: &mut Registers, product: &MatrixProduct, sums: &SumBits) {
    if product.sums == Sums::F16 {
        for half in 0..2 {
            let mut pairs = [0; 32];
            for lane in 0..32 {
                pairs[lane] = sums[2 * half + 1][lane] << 16 | sums[2 * half][lane];
            }
            registers.write(product.d[half], FULL, &pairs);
        }
    } else {
        for (sums, d) in sums.iter().zip(&product.d[..product.sum_registers()]) {
            registers.write(*d, FULL, sums);
        }
    }
}

/// The 16-bit elements of four words.
#[inline(always)]
pub(super) fn halves(words: [u32; 4]) -> [u16; 8] {
    // SAFETY: both are 16 bytes in which every bit pattern is valid; the host has the low half of a
    // word first.
    unsafe { transmute(words) }
}

/// The bytes of four words.
#[inline(always)]
pub(super) fn bytes(words: [u32; 4]) -> [u8; 16] {
    // SAFETY: as above, with the low byte first.
    unsafe { transmute(words) }
}

/// Rows of B of which these are the columns, in 16-bit elements.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn rows_of_halves(columns: &[[u32; 4]; 8]) -> [[u16; 8]; 8] {
    std::array::from_fn(|row| std::array::from_fn(|column| halves(columns[column])[row]))
}

/// Rows of B of which these are the columns, in 16-bit elements.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn rows_of_halves(columns: &[[u32; 4]; 8]) -> [[u16; 8]; 8] {
    use std::arch::x86_64::{__m128i, _mm_unpackhi_epi16, _mm_unpacklo_epi16};

    // SAFETY: both are 128 bytes in which every bit pattern is valid.
    let mut rows: [__m128i; 8] = unsafe { transmute(*columns) };
    // Each pass rotates the six bits of an element's place, row and column, by one. Three exchange
    // row and column.
    for _ in 0..3 {
        let from = rows;
        for i in 0..4 {
            // SAFETY: every processor of this architecture has these instructions.
            unsafe {
                rows[2 * i] = _mm_unpacklo_epi16(from[i], from[i + 4]);
                rows[2 * i + 1] = _mm_unpackhi_epi16(from[i], from[i + 4]);
            }
        }
    }
    // SAFETY: as above.
    unsafe { transmute(rows) }
}
