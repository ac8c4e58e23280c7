//! Matrix operations of a warpgroup, four warps in a row: `wgmma`.
//!
//! Warp w of the four has rows 16w to 16w + 15 of D and of an A in registers. Within them its
//! fragments are those of [`super::matrix`]: A has 2 words of a row to a lane for each half of its
//! depth, and the eight columns of D from 8j on are D of an `mma`, in the registers from 4j on (of
//! 16-bit sums, from 2j on).

use super::matrix::{Factors, Sums};
use super::operands::{Condition, R};

/// `wgmma.mma_async`: `d = a · b + d`, of 64 rows. Its accumulators are in the
/// [`Accumulators`] before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WarpgroupProduct {
    /// Number of the product among those of the kernel.
    pub number: u32,
    pub factors: Factors,
    pub sums: Sums,
    /// Columns of B and D.
    pub columns: u16,
    pub a: LeftFactor,
    /// The descriptor of B.
    pub b: R,
    /// False: `d = a · b`.
    pub adds: Condition,
    /// `imm-scale-a` and `imm-scale-b`: -1.
    pub negated: [bool; 2],
    /// `imm-trans-a` and `imm-trans-b`: the elements that follow one another in shared memory are
    /// those of a column of A, or of a row of B.
    pub transposed: [bool; 2],
}

/// Where A is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftFactor {
    Registers([R; 4]),
    /// In shared memory, with this descriptor.
    Shared(R),
}

/// Some accumulators of the [`WarpgroupProduct`] that follows: their list is too long for one
/// operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accumulators {
    pub count: u8,
    /// The registers that are written.
    pub d: [R; Accumulators::MOST],
    /// Those that are read: the same.
    pub c: [R; Accumulators::MOST],
    /// They are read, not only written.
    pub adds: Condition,
}

impl WarpgroupProduct {
    /// Rows of A and D.
    pub(crate) const ROWS: usize = 64;

    /// Columns of A and rows of B: 32 bytes.
    pub(crate) fn depth(&self) -> usize {
        256 / self.factors.bits()
    }

    /// Registers of D in a lane.
    pub(crate) fn accumulators(&self) -> usize {
        let of_32_bits = usize::from(self.columns) / 2;
        match self.sums {
            Sums::F16 => of_32_bits / 2,
            Sums::F32 | Sums::S32 { .. } => of_32_bits,
        }
    }

    /// True if both write the same fragments: of one shape and type.
    pub(crate) fn has_shape_of(&self, other: &WarpgroupProduct) -> bool {
        let shape = |product: &WarpgroupProduct| {
            let is_half = product.sums == Sums::F16;
            (product.columns, product.depth(), is_half)
        };
        shape(self) == shape(other)
    }
}

impl Accumulators {
    /// The most that one operation lists.
    pub(crate) const MOST: usize = 6;

    pub(crate) fn registers(&self) -> &[R] {
        &self.d[..usize::from(self.count)]
    }
}
