//! What is checked before a launch: that the kernels stay inside the views they are given. Later stages use it, too.

use cudarc::driver::DeviceSlice;

use crate::{Error, Kernels, Strides};

/// The largest size of a dimension: sums of two sizes still fit the kernels' 32-bit integers.
pub const MAX_SIZE: usize = (1 << 30) - 1;
const _: () = assert!(MAX_SIZE + MAX_SIZE <= i32::MAX as usize);

/// The largest grid, in blocks: CUDA's limit for the x dimension.
const MAX_BLOCKS: usize = i32::MAX as usize;

/// The checks of one operation.
#[derive(Debug, Clone, Copy)]
pub struct Checks {
    operation: &'static str,
    ordinal: usize,
}

impl Kernels {
    /// The checks of an operation on the device of these kernels.
    pub(crate) fn checks(&self, operation: &'static str) -> Checks {
        Checks::new(operation, self.stream.context().ordinal())
    }
}

impl Checks {
    /// The checks of `operation`, the caller's name for the messages, on device `ordinal`.
    pub const fn new(operation: &'static str, ordinal: usize) -> Self {
        Self { operation, ordinal }
    }

    /// Each size is at most [`MAX_SIZE`].
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] names the first that is not.
    pub fn sizes(&self, sizes: &[(&'static str, usize)]) -> Result<(), Error> {
        for &(argument, actual) in sizes {
            self.limit(argument, actual, MAX_SIZE)?;
        }
        Ok(())
    }

    /// The number of blocks, as CUDA takes it.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if a grid cannot have as many.
    pub fn grid(&self, blocks: usize) -> Result<u32, Error> {
        self.limit("blocks", blocks, MAX_BLOCKS)?;
        Ok(blocks as u32)
    }

    /// `view` is on the right device and holds every element of the `[B, H, rows, columns]` tensor.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDevice`], [`Error::TooShort`].
    pub fn input<T>(
        &self,
        argument: &'static str,
        view: &impl DeviceSlice<T>,
        shape: [usize; 4],
        strides: Strides,
    ) -> Result<(), Error> {
        let (operation, actual) = (self.operation, view.stream().context().ordinal());
        if actual != self.ordinal {
            return Err(Error::WrongDevice {
                operation,
                argument,
                actual,
                expected: self.ordinal,
            });
        }
        let (actual, needed) = (view.len(), extent(shape, strides));
        if needed > actual {
            return Err(Error::TooShort {
                operation,
                argument,
                actual,
                needed,
            });
        }
        Ok(())
    }

    /// As [`Checks::input`], and no two elements have the same address.
    ///
    /// # Errors
    ///
    /// Those of [`Checks::input`], and [`Error::Overlap`].
    pub fn output<T>(
        &self,
        argument: &'static str,
        view: &impl DeviceSlice<T>,
        shape: [usize; 4],
        strides: Strides,
    ) -> Result<(), Error> {
        self.input(argument, view, shape, strides)?;
        if overlaps(shape, strides) {
            return Err(Error::Overlap {
                operation: self.operation,
                argument,
            });
        }
        Ok(())
    }

    /// A head of `b` serves a whole number of `heads`.
    pub(crate) fn groups(&self, heads: usize, b_heads: usize) -> Result<(), Error> {
        if heads != 0 && (b_heads == 0 || !heads.is_multiple_of(b_heads)) {
            return Err(Error::HeadGroups {
                operation: self.operation,
                heads,
                b_heads,
            });
        }
        Ok(())
    }

    fn limit(&self, argument: &'static str, actual: usize, limit: usize) -> Result<(), Error> {
        if actual > limit {
            return Err(Error::TooLarge {
                operation: self.operation,
                argument,
                actual,
                limit,
            });
        }
        Ok(())
    }
}

/// One past the offset of the last element, 0 if there is none; `usize::MAX` if it overflows.
fn extent(shape: [usize; 4], strides: Strides) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    let last = shape
        .into_iter()
        .zip([strides.batch, strides.head, strides.row, 1]);
    last.fold(1usize, |sum, (size, stride)| {
        sum.saturating_add((size - 1).saturating_mul(stride))
    })
}

/// Whether two elements may have the same address.
///
/// Exact for tensors whose axes nest, as those of every permuted or sliced packed tensor do; a layout that interleaves
/// without nesting counts as overlapping.
fn overlaps(shape: [usize; 4], strides: Strides) -> bool {
    if shape.contains(&0) {
        return false;
    }
    let mut axes: Vec<(usize, usize)> = [strides.batch, strides.head, strides.row, 1]
        .into_iter()
        .zip(shape)
        .filter(|&(_, size)| size > 1)
        .collect();
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

    #[test]
    fn extent_is_one_past_the_last_element() {
        assert_eq!(extent([2, 3, 4, 5], Strides::packed(3, 4, 5)), 120);
        assert_eq!(
            extent(
                [2, 3, 4, 5],
                Strides {
                    batch: 60,
                    head: 5,
                    row: 15
                }
            ),
            120
        );
        assert_eq!(
            extent(
                [1, 1, 4, 5],
                Strides {
                    batch: 0,
                    head: 0,
                    row: 100
                }
            ),
            305
        );
        assert_eq!(extent([2, 0, 4, 5], Strides::packed(0, 4, 5)), 0);
        assert_eq!(
            extent(
                [2, 2, 2, 2],
                Strides {
                    batch: usize::MAX,
                    head: usize::MAX,
                    row: 1
                }
            ),
            usize::MAX
        );
    }

    #[test]
    fn overlap_is_found_whatever_the_order_of_the_axes() {
        assert!(!overlaps([2, 3, 4, 5], Strides::packed(3, 4, 5)));
        assert!(!overlaps(
            [2, 3, 4, 5],
            Strides {
                batch: 60,
                head: 5,
                row: 15
            }
        ));
        assert!(!overlaps(
            [1, 1, 4, 5],
            Strides {
                batch: 0,
                head: 0,
                row: 5
            }
        ));
        assert!(overlaps(
            [2, 3, 4, 5],
            Strides {
                batch: 0,
                head: 20,
                row: 5
            }
        ));
        assert!(overlaps(
            [2, 3, 4, 5],
            Strides {
                batch: 60,
                head: 20,
                row: 4
            }
        ));
        assert!(overlaps(
            [2, 3, 4, 5],
            Strides {
                batch: 59,
                head: 20,
                row: 5
            }
        ));
    }
}
