//! Matrix operations of a warp: `mma` and `ldmatrix`.

use super::half::NarrowType;
use super::memory::{Access, Address};
use super::operands::R;

/// `mma` with sums in f32, `m16n8k16` or, of tf32, `m16n8k8`: `d = a · b + c`. A has 16 rows, B 8 columns. Each lane holds a
/// fragment of each matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixProduct {
    /// Of A and B.
    pub ty: NarrowType,
    pub d: [R; 4],
    pub a: [R; 4],
    pub b: [R; 2],
    pub c: [R; 4],
}

impl MatrixProduct {
    /// Columns of A and rows of B.
    pub(crate) fn depth(&self) -> usize {
        match self.ty {
            NarrowType::F16 | NarrowType::Bf16 => 16,
            NarrowType::Tf32 => 8,
        }
    }
}

/// `ldmatrix`: loads `access.count` matrices of 8 rows, 16 bytes each; lane 8j + i has the address of row i of matrix j.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixLoad {
    /// Of one row.
    pub access: Access,
    pub address: Address,
    /// Matrices: 1, 2 or 4.
    pub count: u8,
    /// `.trans`: as matrices of 16-bit elements, transposed.
    pub transposed: bool,
    /// As many as there are matrices.
    pub d: [R; 4],
}

impl MatrixLoad {
    /// The lanes of `mask` whose addresses are those of rows.
    pub(crate) fn readers(&self, mask: u32) -> u32 {
        mask & u32::MAX >> (32 - 8 * u32::from(self.count))
    }
}
