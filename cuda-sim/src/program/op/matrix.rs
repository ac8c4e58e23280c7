//! Matrix operations of a warp: `mma`, and moves of matrices between memory and registers.
//!
//! # Fragments
//!
//! Lane 4g + t holds a fragment of each matrix. W is the depth of the product in words of 32 bits, over 4: 1 or 2.
//!
//! | matrix | register i of lane 4g + t |
//! |---|---|
//! | A, 16 rows | row 8 · (i mod 2) + g, word 4 · (i div 2) + t; 2W registers |
//! | B, 8 columns | column g, word 4i + t; W registers |
//! | C and D in 32 bits | row 8 · (i div 2) + g, column 2t + i mod 2; 4 registers |
//! | C and D in 16 bits | row 8i + g, columns 2t and 2t + 1; 2 registers |
//!
//! Words run along the depth: of f16, word w of a row has the columns 2w and 2w + 1. A register of A or B is a matrix of 8 rows
//! with 16 bytes each, as `ldmatrix` loads it.

use super::memory::{Access, Address};
use super::operands::R;

/// `mma`: `d = a · b + c`. A has 16 rows, B 8 columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixProduct {
    pub factors: Factors,
    pub sums: Sums,
    /// Columns of A and rows of B.
    pub depth: u8,
    pub d: [R; 4],
    pub a: [R; 4],
    pub b: [R; 2],
    pub c: [R; 4],
}

/// `mma` of f64: `d = a · b + c`. A has 8 rows and 4 columns, B 4 rows and 8 columns. Lane 4g + t holds column t of row g of A,
/// row t of column g of B, and columns 2t and 2t + 1 of row g of C and D. All registers are 64-bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixProduct64 {
    pub d: [R; 2],
    pub a: R,
    pub b: R,
    pub c: [R; 2],
}

/// Type of A and B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Factors {
    F16,
    Bf16,
    Tf32,
    /// `s8` or, if not signed, `u8`.
    Int8 {
        a_signed: bool,
        b_signed: bool,
    },
}

/// Type of C and D.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sums {
    F32,
    F16,
    /// `.satfinite`: clamped to the range of the type; otherwise modulo 2³².
    S32 {
        saturate: bool,
    },
}

impl MatrixProduct {
    /// Registers of B: 16 bytes of each column in each.
    pub(crate) fn words(&self) -> usize {
        usize::from(self.depth) * self.factors.bits() / 128
    }

    /// Registers of C, and of D.
    pub(crate) fn sum_registers(&self) -> usize {
        match self.sums {
            Sums::F16 => 2,
            Sums::F32 | Sums::S32 { .. } => 4,
        }
    }
}

impl Factors {
    /// Bits of an element.
    fn bits(self) -> usize {
        match self {
            Factors::F16 | Factors::Bf16 => 16,
            Factors::Tf32 => 32,
            Factors::Int8 { .. } => 8,
        }
    }
}

/// Where the matrix of a `wmma.load` or `wmma.store` begins: lanes meet, and its alignment is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixStart {
    pub address: Address,
    /// Elements from one line (row or column) to the next.
    pub stride: R,
    /// Bytes of an element.
    pub element: u8,
    /// Bytes of a lane's fragment.
    pub fragment: u8,
    /// It is stored.
    pub write: bool,
}

/// `ldmatrix`, `stmatrix`: matrices of 8 rows, 16 bytes each; lane 8j + i has the address of row i of matrix j.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixRows {
    /// Of one row.
    pub access: Access,
    pub address: Address,
    /// Matrices: 1, 2 or 4.
    pub count: u8,
    /// `.trans`: as matrices of 16-bit elements, transposed.
    pub transposed: bool,
    /// Of each matrix, the register that is loaded or stored.
    pub r: [R; 4],
}

impl MatrixRows {
    /// A register for each matrix.
    pub(crate) fn registers(&self) -> &[R] {
        &self.r[..usize::from(self.count)]
    }

    /// The lanes of `mask` whose addresses are those of rows.
    pub(crate) fn row_lanes(&self, mask: u32) -> u32 {
        mask & u32::MAX >> (32 - 8 * u32::from(self.count))
    }
}
