use cudarc::driver::DeviceRepr;

/// Where the rows of a `[B, H, rows, columns]` tensor lie in memory, in elements from the start of its view.
///
/// Element `(b, h, i, j)` is at `b · batch + h · head + i · row + j`: the columns are always contiguous. So the same
/// kernel reads packed tensors, `[B, N, H, D]` tensors, slices of a fused q/k/v projection and half-filled caches:
///
/// | tensor | `batch` | `head` | `row` |
/// |---|---|---|---|
/// | `[B, H, N, D]`, packed | `H · N · D` | `N · D` | `D` |
/// | `[B, N, H, D]` | `N · H · D` | `D` | `H · D` |
/// | first `N` rows of a cache `[B, H, capacity, D]` | `H · capacity · D` | `capacity · D` | `D` |
/// | one matrix for all batches and heads | 0 | 0 | `D` |
///
/// A stride of an axis of length 1 is never used. The kernels receive this struct by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Strides {
    /// From one batch to the next, in elements.
    pub batch: usize,
    /// From one head to the next, in elements.
    pub head: usize,
    /// From one row to the next, in elements.
    pub row: usize,
}

// SAFETY: three 64-bit integers in C layout, the same as `struct Strides` in the kernels (x86-64 and aarch64 hosts,
// where `usize` has 64 bits; see the assertion below).
unsafe impl DeviceRepr for Strides {}

const _: () = assert!(
    size_of::<usize>() == 8,
    "the kernels take strides of 64 bits"
);

impl Strides {
    /// The strides of a packed row-major `[B, heads, rows, columns]` tensor.
    ///
    /// Saturates at `usize::MAX` instead of overflowing; a tensor that large is refused by every kernel's checks.
    pub const fn packed(heads: usize, rows: usize, columns: usize) -> Self {
        let head = rows.saturating_mul(columns);
        Self {
            batch: heads.saturating_mul(head),
            head,
            row: columns,
        }
    }
}
