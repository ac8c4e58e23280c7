//! Device memory that a pass works in.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DriverError};

use super::Model;
use crate::kernels::Activation;

/// The activations of a pass over up to `capacity` tokens.
#[derive(Debug)]
pub(super) struct Buffers {
    pub capacity: usize,
    /// The residual stream, `[capacity, C]`.
    pub x: Rows,
    /// Output of a norm, `[capacity, C]`.
    pub normed: Rows,
    /// Queries, keys and values side by side, `[capacity, (H + 2 H_kv) D]`.
    pub qkv: Rows,
    /// Output of attention, its heads side by side, `[capacity, H D]`.
    pub attended: Rows,
    /// Hidden layer of the feed-forward part, `[capacity, F]`.
    pub hidden: Rows,
}

impl Buffers {
    pub fn new(model: &Model, capacity: usize) -> Result<Self, DriverError> {
        let architecture = &model.architecture;
        let rows = |columns| Rows::new(&model.stream, capacity, columns);
        Ok(Self {
            capacity,
            x: rows(architecture.hidden)?,
            normed: rows(architecture.hidden)?,
            qkv: rows(architecture.qkv_rows())?,
            attended: rows(architecture.heads * architecture.head_dim)?,
            hidden: rows(architecture.inner)?,
        })
    }
}

/// A row-major f32 matrix on the device. Half of its memory can hold as many elements in half
/// precision instead.
#[derive(Debug)]
pub(super) struct Rows {
    pub values: CudaSlice<f32>,
    pub columns: usize,
}

impl Rows {
    pub fn new(stream: &Arc<CudaStream>, rows: usize, columns: usize) -> Result<Self, DriverError> {
        // SAFETY: floats have no invalid values, and each pass writes the rows that it reads.
        let values = unsafe { stream.alloc((rows * columns).max(1)) }?;
        Ok(Self { values, columns })
    }

    /// `n` rows from row `first` on.
    pub fn range(&self, first: usize, n: usize) -> CudaView<'_, f32> {
        self.values
            .slice(first * self.columns..(first + n) * self.columns)
    }

    /// The first `n` rows.
    pub fn first(&self, n: usize) -> CudaView<'_, f32> {
        self.range(0, n)
    }

    /// `n` rows from row `first` on, to be written.
    pub fn range_mut(&mut self, first: usize, n: usize) -> CudaViewMut<'_, f32> {
        self.values
            .slice_mut(first * self.columns..(first + n) * self.columns)
    }

    /// The first `n` rows, to be written.
    pub fn first_mut(&mut self, n: usize) -> CudaViewMut<'_, f32> {
        self.range_mut(0, n)
    }

    /// `n` elements of another type, from the beginning of the memory on.
    pub fn elements<T: Activation>(&self, n: usize) -> CudaView<'_, T> {
        // SAFETY: numbers have no invalid bits.
        let elements = unsafe { self.values.transmute(n) };
        elements.expect("a buffer has room for the elements of its rows")
    }

    /// The same, to be written.
    pub fn elements_mut<T: Activation>(&mut self, n: usize) -> CudaViewMut<'_, T> {
        // SAFETY: numbers have no invalid bits.
        let elements = unsafe { self.values.transmute_mut(n) };
        elements.expect("a buffer has room for the elements of its rows")
    }
}
