use std::ops::Range;

use ndarray::{ArrayView2, ArrayViewMut2, s};

use crate::fast::simd::LANES;

/// A line of the cache, 64 bytes, and as wide as the widest register.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

const LINE: usize = 16;

/// A matrix in scratch memory, used again for tile after tile.
///
/// Its rows are aligned, and the views of it have columns in multiples of [`LANES`], so
/// that loops over a row need no remainder. Whoever asks for fewer gets some more,
/// whose contents mean nothing.
#[derive(Debug)]
pub(crate) struct LaneMatrix {
    lines: Vec<Line>,
    /// From row to row, in floats. Rows that are a power of two apart would compete for the same
    /// few places in the cache, so there is a line in between.
    stride: usize,
}

impl LaneMatrix {
    /// Room for `rows × columns`, all 0.
    pub fn new(rows: usize, columns: usize) -> Self {
        let stride = lanes(columns) + LINE;
        let lines = vec![Line([0.0; LINE]); rows * stride / LINE];
        Self { lines, stride }
    }

    /// The first `rows` rows of these columns, rounded outwards to multiples of [`LANES`].
    pub fn view(&self, rows: usize, columns: Range<usize>) -> ArrayView2<'_, f32> {
        let (pointer, length) = (self.lines.as_ptr().cast(), LINE * self.lines.len());
        // SAFETY: a `Line` is LINE floats without padding, and the slice borrows `self`.
        let floats = unsafe { std::slice::from_raw_parts(pointer, length) };
        let all = ArrayView2::from_shape((rows, self.stride), floats).expect(FITS);
        all.slice_move(s![.., round(columns)])
    }

    /// The same, to be written.
    pub fn view_mut(&mut self, rows: usize, columns: Range<usize>) -> ArrayViewMut2<'_, f32> {
        let (pointer, length) = (self.lines.as_mut_ptr().cast(), LINE * self.lines.len());
        // SAFETY: as above, and `self` is borrowed mutably.
        let floats = unsafe { std::slice::from_raw_parts_mut(pointer, length) };
        let all = ArrayViewMut2::from_shape((rows, self.stride), floats).expect(FITS);
        all.slice_move(s![.., round(columns)])
    }
}

/// Outwards to multiples of [`LANES`].
pub(crate) fn round(columns: Range<usize>) -> Range<usize> {
    columns.start / LANES * LANES..lanes(columns.end)
}

const FITS: &str = "tiles are cut no larger than the scratch memory was made for";

/// The next multiple of [`LANES`].
pub(crate) fn lanes(columns: usize) -> usize {
    columns.next_multiple_of(LANES)
}
