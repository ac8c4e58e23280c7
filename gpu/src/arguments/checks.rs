//! Checks before a launch.

use std::fmt::Display;

use cudarc::driver::{CudaContext, DeviceSlice};

use super::strides::Strides;

/// Largest size of a dimension: the sum of two sizes fits the kernels' 32-bit integers.
pub const MAX_SIZE: usize = (1 << 30) - 1;
const _: () = assert!(MAX_SIZE + MAX_SIZE <= i32::MAX as usize);

/// Largest grid, in blocks: CUDA's limit for the x dimension.
const MAX_BLOCKS: usize = i32::MAX as usize;

/// An argument that an operation refuses. Nothing has been launched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: `{argument}`: expected {expected}, got {actual}")]
pub struct ArgumentError {
    /// The operation that was called.
    pub operation: &'static str,
    /// The argument, as the caller knows it.
    pub argument: &'static str,
    /// The expected value or shape.
    pub expected: String,
    /// The actual value or shape.
    pub actual: String,
}

/// The checks of one operation on one device.
#[derive(Debug, Clone, Copy)]
pub struct Checks {
    operation: &'static str,
    ordinal: usize,
}

impl Checks {
    /// The checks of `operation`, as errors name it, on the device of `context`.
    pub fn new(operation: &'static str, context: &CudaContext) -> Self {
        let ordinal = context.ordinal();
        Self { operation, ordinal }
    }

    /// The name of the operation.
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// The error that names `argument`.
    pub fn error(
        &self,
        argument: &'static str,
        expected: impl Display,
        actual: impl Display,
    ) -> ArgumentError {
        ArgumentError {
            operation: self.operation,
            argument,
            expected: expected.to_string(),
            actual: actual.to_string(),
        }
    }

    /// Checks that `argument` belongs to the device.
    ///
    /// # Errors
    ///
    /// Both ordinals.
    pub fn device(
        &self,
        argument: &'static str,
        context: &CudaContext,
    ) -> Result<(), ArgumentError> {
        let [expected, actual] = [self.ordinal, context.ordinal()];
        if expected != actual {
            let [expected, actual] = [expected, actual].map(|ordinal| format!("device {ordinal}"));
            return Err(self.error(argument, expected, actual));
        }
        Ok(())
    }

    /// Sizes as kernels take them: each is at most [`MAX_SIZE`].
    ///
    /// # Errors
    ///
    /// The first that is larger.
    pub fn sizes<const N: usize>(
        &self,
        sizes: [(&'static str, usize); N],
    ) -> Result<[i32; N], ArgumentError> {
        for (argument, actual) in sizes {
            self.limit(argument, actual, MAX_SIZE)?;
        }
        Ok(sizes.map(|(_, size)| size as i32))
    }

    /// The number of blocks of a grid, as CUDA takes it.
    ///
    /// # Errors
    ///
    /// `grid`, if it cannot have as many.
    pub fn grid(&self, blocks: usize) -> Result<u32, ArgumentError> {
        self.limit("grid", blocks, MAX_BLOCKS)?;
        Ok(blocks as u32)
    }

    /// The blocks of a grid of three dimensions, as CUDA takes them.
    ///
    /// # Errors
    ///
    /// `grid`, if it cannot have as many: y and z have lower limits than x.
    pub fn grid_3d(&self, [x, y, z]: [usize; 3]) -> Result<(u32, u32, u32), ArgumentError> {
        const MAX_YZ: usize = 65_535;
        self.limit("grid", y, MAX_YZ)?;
        self.limit("grid", z, MAX_YZ)?;
        Ok((self.grid(x)?, y as u32, z as u32))
    }

    /// Checks that `scale` is finite.
    ///
    /// # Errors
    ///
    /// `scale`, if it is infinite or NaN.
    pub fn scale(&self, scale: f32) -> Result<(), ArgumentError> {
        if !scale.is_finite() {
            return Err(self.error("scale", "a finite number", scale));
        }
        Ok(())
    }

    /// Checks that each of `kv_heads` serves a whole number of `heads`.
    ///
    /// # Errors
    ///
    /// `heads`, if they are not a multiple.
    pub fn groups(&self, heads: usize, kv_heads: usize) -> Result<(), ArgumentError> {
        if heads != 0 && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
            return Err(self.error("heads", format_args!("a multiple of {kv_heads}"), heads));
        }
        Ok(())
    }

    /// Checks that an array is on the device and has `length` elements.
    ///
    /// # Errors
    ///
    /// The array's device or length.
    pub fn length<T>(
        &self,
        argument: &'static str,
        array: &impl DeviceSlice<T>,
        length: usize,
    ) -> Result<(), ArgumentError> {
        if array.len() != length {
            let expected = format_args!("{length} elements");
            return Err(self.error(argument, expected, array.len()));
        }
        self.device(argument, array.stream().context())
    }

    /// Checks that an array is on the device and holds whole rows, at least one. Returns the number
    /// of rows.
    ///
    /// # Errors
    ///
    /// The array's device or length.
    pub fn rows<T>(
        &self,
        argument: &'static str,
        array: &impl DeviceSlice<T>,
        columns: usize,
    ) -> Result<usize, ArgumentError> {
        let length = array.len();
        if columns == 0 || length == 0 || !length.is_multiple_of(columns) {
            let expected = format_args!("one or more rows of {columns}");
            return Err(self.error(argument, expected, format_args!("{length} elements")));
        }
        self.device(argument, array.stream().context())?;
        Ok(length / columns)
    }

    /// Checks that `view` is on the device and holds every element of the `[B, H, rows, columns]`
    /// tensor.
    ///
    /// # Errors
    ///
    /// The view's device or length.
    pub fn input<T>(
        &self,
        argument: &'static str,
        view: &impl DeviceSlice<T>,
        shape: [usize; 4],
        strides: Strides,
    ) -> Result<(), ArgumentError> {
        self.device(argument, view.stream().context())?;
        let (actual, needed) = (view.len(), extent(shape, strides));
        if needed > actual {
            let expected = format_args!("at least {needed} elements");
            return Err(self.error(argument, expected, actual));
        }
        Ok(())
    }

    /// Checks that `view` is on the device and holds every element of the packed
    /// `[batch, rows, columns]` tensor.
    ///
    /// # Errors
    ///
    /// The view's device or length.
    pub fn packed<T>(
        &self,
        argument: &'static str,
        view: &impl DeviceSlice<T>,
        [batch, rows, columns]: [usize; 3],
    ) -> Result<(), ArgumentError> {
        let strides = Strides::packed(batch, rows, columns);
        self.input(argument, view, [1, batch, rows, columns], strides)
    }

    /// As [`Checks::input`], and no two elements have the same address.
    ///
    /// # Errors
    ///
    /// Those of [`Checks::input`], and strides that let elements overlap.
    pub fn output<T>(
        &self,
        argument: &'static str,
        view: &impl DeviceSlice<T>,
        shape: [usize; 4],
        strides: Strides,
    ) -> Result<(), ArgumentError> {
        self.input(argument, view, shape, strides)?;
        if overlaps(shape, strides) {
            let expected = "strides that give each element an address of its own";
            return Err(self.error(argument, expected, format_args!("{strides:?} of {shape:?}")));
        }
        Ok(())
    }

    fn limit(
        &self,
        argument: &'static str,
        actual: usize,
        limit: usize,
    ) -> Result<(), ArgumentError> {
        if actual > limit {
            return Err(self.error(argument, format_args!("at most {limit}"), actual));
        }
        Ok(())
    }
}

/// One past the offset of the last element, 0 if there is none; `usize::MAX` if it overflows.
fn extent(shape: [usize; 4], strides: Strides) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    let axes = shape.into_iter().zip(strides.by_axis());
    axes.fold(1, |sum: usize, (size, stride)| {
        sum.saturating_add((size - 1).saturating_mul(stride))
    })
}

/// True if two elements may have the same address.
///
/// Exact for tensors whose axes nest, as those of every permuted or sliced packed tensor do; a
/// layout that interleaves without nesting counts as overlapping.
fn overlaps(shape: [usize; 4], strides: Strides) -> bool {
    if shape.contains(&0) {
        return false;
    }
    let axes = strides.by_axis().into_iter().zip(shape);
    let mut axes = Vec::from_iter(axes.filter(|&(_, size)| size > 1));
    axes.sort_unstable();
    let mut span = 1usize; // of the axes so far
    for (stride, size) in axes {
        if stride < span {
            return true;
        }
        span = span.saturating_add((size - 1).saturating_mul(stride));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn strides(batch: usize, head: usize, row: usize) -> Strides {
        Strides { batch, head, row }
    }

    #[test]
    fn extent_is_one_past_the_last_element() {
        const SHAPE: [usize; 4] = [2, 3, 4, 5];
        assert_eq!(extent(SHAPE, Strides::packed(3, 4, 5)), 120);
        assert_eq!(extent(SHAPE, Strides::sequence_first(3, 4, 5)), 120);
        assert_eq!(extent([1, 1, 4, 5], strides(0, 0, 100)), 305);
        assert_eq!(extent([2, 0, 4, 5], Strides::packed(0, 4, 5)), 0);
        let huge = strides(usize::MAX, usize::MAX, 1);
        assert_eq!(extent([2, 2, 2, 2], huge), usize::MAX);
    }

    #[test]
    fn overlap_is_found_whatever_the_order_of_the_axes() {
        const SHAPE: [usize; 4] = [2, 3, 4, 5];
        assert!(!overlaps(SHAPE, Strides::packed(3, 4, 5)));
        assert!(!overlaps(SHAPE, Strides::sequence_first(3, 4, 5)));
        assert!(!overlaps([1, 1, 4, 5], strides(0, 0, 5)));
        assert!(overlaps(SHAPE, strides(0, 20, 5)));
        assert!(overlaps(SHAPE, strides(60, 20, 4)));
        assert!(overlaps(SHAPE, strides(59, 20, 5)));
    }
}
