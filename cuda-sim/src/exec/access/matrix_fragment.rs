//! Matrices of 8 rows with 16 bytes each, as a warp's registers hold them.
//!
//! The lanes 8j to 8j + 7 have the rows of matrix j in memory. In a fragment, lane 4g + t has two
//! elements of 16 bits: 2t and 2t + 1 of row g, or, transposed, of column g.

use crate::exec::registers::Registers;
use crate::program::op::MatrixRows;

/// The words of the rows that an `stmatrix` stores, by lanes.
pub(crate) fn words_of_rows(registers: &Registers, matrices: &MatrixRows) -> [[u32; 32]; 4] {
    let mut words = [[0; 32]; 4];
    for (j, r) in matrices.registers().iter().enumerate() {
        let mut rows = rows(registers.read(*r));
        if matrices.transposed {
            rows = exchanged(&rows);
        }
        for (i, row) in rows.iter().enumerate() {
            for (words, word) in words.iter_mut().zip(row) {
                words[8 * j + i] = *word;
            }
        }
    }
    words
}

/// The fragment of a matrix: two elements of each lane.
pub(crate) fn fragment(rows: &[[u32; 4]; 8]) -> [u32; 32] {
    std::array::from_fn(|lane| rows[lane / 4][lane % 4])
}

/// The rows of a matrix, from its fragment.
pub(crate) fn rows(fragment: &[u32; 32]) -> [[u32; 4]; 8] {
    std::array::from_fn(|g| std::array::from_fn(|t| fragment[4 * g + t]))
}

/// Rows and columns exchanged, of 16-bit elements.
pub(crate) fn exchanged(rows: &[[u32; 4]; 8]) -> [[u32; 4]; 8] {
    let element = |row: usize, column: usize| rows[row][column / 2] >> (16 * (column % 2)) & 0xffff;
    std::array::from_fn(|g| {
        std::array::from_fn(|t| element(2 * t + 1, g) << 16 | element(2 * t, g))
    })
}
