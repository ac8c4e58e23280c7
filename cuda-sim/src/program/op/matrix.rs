//! Matrix operations of a warp: `mma`, and moves of matrices between memory and registers.
//!
//! # Fragments
//!
//! Lane 4g + t holds a fragment of each matrix. W is the depth of the product in words of 32 bits,
//! over 4: 1 or 2.
//!
//! | matrix | register i of lane 4g + t |
//! |---|---|
//! | A, 16 rows | row 8 · (i mod 2) + g, word 4 · (i div 2) + t; 2W registers |
//! | B, 8 columns | column g, word 4i + t; W registers |
//! | C and D in 32 bits | row 8 · (i div 2) + g, column 2t + i mod 2; 4 registers |
//! | C and D in 16 bits | row 8i + g, columns 2t and 2t + 1; 2 registers |
//!
//! Words run along the depth: of f16, word w of a row has the columns 2w and 2w + 1. A register of
//! A or B is a matrix of 8 rows with 16 bytes each, as `ldmatrix` loads it. A product of 8 rows has
//! the first half of these registers of A, C and D. In a product of f64, a word is an element, and
//! all registers are 64-bit. `mma.m8n8k4` of f16 has other fragments: [`QuadPairProducts`].

use super::half::ByteType;
use super::memory::{Access, Address};
use super::operands::R;

/// `mma`: `d = a · b + c`. B has 8 columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixProduct {
    pub factors: Factors,
    pub sums: Sums,
    pub shape: ProductShape,
    pub d: [R; 4],
    pub a: [R; 4],
    pub b: [R; 2],
    pub c: [R; 4],
}

/// Four columns of A of an `mma` of f64: `d = a · b + c`. B has 4 rows and 8 columns. An
/// instruction of more columns is several of these, each of which adds to the sums of the one
/// before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixProduct64 {
    /// Rows of A: 8 or 16.
    pub rows: u8,
    /// Columns of A in the instruction that begins here; 0 if one goes on, which is counted where
    /// it begins.
    pub depth: u8,
    pub d: [R; 4],
    pub a: [R; 2],
    pub b: R,
    pub c: [R; 4],
}

/// Half of an `mma.m8n8k4` of f16: four columns of D in each of four products `d = a · b + c`, A of
/// 8 rows and 4 columns, B of 4 rows and 8 columns. Product p belongs to a quad pair, the lanes 16h
/// + 4p + t with h below 2 and t below 4.
///
/// | matrix | element i of a lane |
/// |---|---|
/// | A, `.row` | row 4h + t, column i |
/// | A, `.col` | row 4h + i, column t |
/// | B, `.row` | row t, column 4h + i |
/// | B, `.col` | row i, column 4h + t |
/// | C and D in f16 | row 4h + t, column i |
/// | C and D in f32 | row 4h + (t & 1) + (i & 2), column (i & 4) + (t & 2) + (i & 1) |
///
/// A register has two elements of f16, or one of f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuadPairProducts {
    pub a_layout: Layout,
    pub b_layout: Layout,
    /// Types of C and D: f16 or f32.
    pub c_type: Sums,
    pub d_type: Sums,
    /// Those of D. The instruction is counted with the low ones.
    pub columns: Columns,
    /// Those of the elements 0 to 3 of a lane, or 4 to 7.
    pub d: [R; 4],
    pub a: [R; 2],
    pub b: [R; 2],
    pub c: [R; 4],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// 0 to 3.
    Low,
    /// 4 to 7.
    High,
}

/// True if a lane has four elements of a row, false if of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Row,
    Column,
}

/// Type of A and B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Factors {
    F16,
    Bf16,
    Tf32,
    /// A is `e4m3`.
    E4m3 {
        b: ByteType,
    },
    /// A is `e5m2`.
    E5m2 {
        b: ByteType,
    },
    /// `s8` or, if not signed, `u8`.
    Int8 {
        a_signed: bool,
        b_signed: bool,
    },
}

/// Rows and columns of D, and columns of A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProductShape {
    M8N8K16,
    M16N8K4,
    M16N8K8,
    M16N8K16,
    M16N8K32,
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
    /// Rows of A.
    pub(crate) fn rows(&self) -> usize {
        if self.shape == ProductShape::M8N8K16 {
            8
        } else {
            16
        }
    }

    /// Columns of A and rows of B.
    pub(crate) fn depth(&self) -> usize {
        match self.shape {
            ProductShape::M16N8K4 => 4,
            ProductShape::M16N8K8 => 8,
            ProductShape::M8N8K16 | ProductShape::M16N8K16 => 16,
            ProductShape::M16N8K32 => 32,
        }
    }

    /// Registers of B: 16 bytes of each column in each.
    pub(crate) fn words(&self) -> usize {
        self.depth() * self.factors.bits() / 128
    }

    /// Registers of C, and of D.
    pub(crate) fn sum_registers(&self) -> usize {
        let of_16_rows = match self.sums {
            Sums::F16 => 2,
            Sums::F32 | Sums::S32 { .. } => 4,
        };
        of_16_rows * self.rows() / 16
    }

    /// Registers of A, of B, and of C or D.
    pub(crate) fn registers(&self) -> [usize; 3] {
        let left = self.words() * self.rows() / 8;
        [left, self.words(), self.sum_registers()]
    }
}

impl MatrixProduct64 {
    /// Registers of A, and of C or D.
    pub(crate) fn registers(&self) -> [usize; 2] {
        let rows = usize::from(self.rows);
        [rows / 8, rows / 4]
    }
}

impl Sums {
    /// Registers of C or D in [`QuadPairProducts`].
    pub(crate) fn registers_of_quad_pairs(self) -> usize {
        if self == Sums::F16 { 2 } else { 4 }
    }
}

impl Factors {
    /// 8-bit floats.
    pub(crate) fn bytes(a: ByteType, b: ByteType) -> Factors {
        match a {
            ByteType::E4m3 => Factors::E4m3 { b },
            ByteType::E5m2 => Factors::E5m2 { b },
        }
    }

    /// Bits of an element.
    pub(crate) fn bits(self) -> usize {
        match self {
            Factors::F16 | Factors::Bf16 => 16,
            Factors::Tf32 => 32,
            Factors::E4m3 { .. } | Factors::E5m2 { .. } | Factors::Int8 { .. } => 8,
        }
    }
}

/// Beginning of the matrix of a `wmma.load` or `wmma.store`: lanes meet, and its alignment is
/// checked.
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

/// `ldmatrix`, `stmatrix`: matrices of 8 rows, 16 bytes each; lane 8j + i has the address of row i
/// of matrix j.
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
