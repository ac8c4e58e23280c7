//! Where a tensor lies in device memory.

use cudarc::driver::{CudaView, DeviceRepr};
use serde::{Deserialize, Serialize};

/// Where the rows of a `[B, H, rows, columns]` tensor lie in memory, in elements from the start of
/// its view.
///
/// Element `(b, h, i, j)` is at `b · batch + h · head + i · row + j`: the columns are always
/// contiguous. So the same kernel reads packed tensors, `[B, N, H, D]` tensors, slices of a fused
/// q/k/v projection and half-filled caches:
///
/// | tensor | `batch` | `head` | `row` |
/// |---|---|---|---|
/// | `[B, H, N, D]`, packed | `H · N · D` | `N · D` | `D` |
/// | `[B, N, H, D]` | `N · H · D` | `D` | `H · D` |
/// | first `N` rows of a cache `[B, H, capacity, D]` | `H · capacity · D` | `capacity · D` | `D` |
/// | one matrix for all batches and heads | 0 | 0 | `D` |
///
/// A stride of an axis of length 1 is never used. Kernels receive this struct by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[repr(C)]
pub struct Strides {
    /// From one batch to the next, in elements.
    pub batch: usize,
    /// From one head to the next, in elements.
    pub head: usize,
    /// From one row to the next, in elements.
    pub row: usize,
}

// SAFETY: three 64-bit integers in C layout, the same as `struct Strides` in the kernels (x86-64
// and aarch64 hosts, where `usize` has 64 bits; see the assertion below).
unsafe impl DeviceRepr for Strides {}

const _: () = assert!(
    size_of::<usize>() == 8,
    "the kernels take strides of 64 bits"
);

impl Strides {
    /// The strides of a packed row-major `[B, heads, rows, columns]` tensor.
    ///
    /// Saturates at `usize::MAX` instead of overflowing; every check refuses a tensor that large.
    pub const fn packed(heads: usize, rows: usize, columns: usize) -> Self {
        let head = rows.saturating_mul(columns);
        Self {
            batch: heads.saturating_mul(head),
            head,
            row: columns,
        }
    }

    /// The strides of a `[B, H, rows, columns]` tensor that lies in memory as packed `[B, rows, H,
    /// columns]`.
    pub const fn sequence_first(heads: usize, rows: usize, columns: usize) -> Self {
        let row = heads.saturating_mul(columns);
        Self {
            batch: rows.saturating_mul(row),
            head: columns,
            row,
        }
    }

    /// The strides of a packed `[B or 1, H or 1, rows, columns]` tensor, which is repeated along an
    /// axis of length 1.
    pub const fn broadcast((batch, heads, rows, columns): (usize, usize, usize, usize)) -> Self {
        let packed = Self::packed(heads, rows, columns);
        Self {
            batch: if batch == 1 { 0 } else { packed.batch },
            head: if heads == 1 { 0 } else { packed.head },
            row: packed.row,
        }
    }

    /// True if these strides and those place each element of a `[B, H, rows, columns]` tensor
    /// alike: whether they are the same for every axis longer than 1.
    pub fn agrees_with(self, those: Self, shape: [usize; 4]) -> bool {
        let mut strides = self.by_axis().into_iter().zip(those.by_axis()).zip(shape);
        strides.all(|((these, those), size)| size <= 1 || these == those)
    }

    /// The strides of all four axes.
    pub(super) const fn by_axis(self) -> [usize; 4] {
        [self.batch, self.head, self.row, 1]
    }
}

/// A tensor in device memory: a view, and where the elements lie in it. A stride of 0 repeats it
/// along an axis.
#[derive(Debug)]
pub struct Strided<'a, T> {
    /// The elements.
    pub values: CudaView<'a, T>,
    /// Where they lie.
    pub strides: Strides,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stride_of_an_axis_of_length_1_does_not_count() {
        let (packed, sequence_first) = (Strides::packed(1, 4, 8), Strides::sequence_first(1, 4, 8));
        assert_ne!(packed, sequence_first);
        assert!(packed.agrees_with(sequence_first, [2, 1, 4, 8]));
        assert!(!packed.agrees_with(sequence_first, [2, 2, 4, 8]));
    }
}
