use std::array::from_fn;
use std::hint::black_box;

use ndarray::{ArrayView2, ArrayViewMut2};

use super::LANES;
use super::vector::Vector;

/// Treatment of the old contents `C` of a matrix that a product is written to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Old<'a> {
    /// They are overwritten by the product times this.
    Replaced(f32),
    /// The product is added to them.
    Kept,
    /// The product is added to `C diag(factors)`: each column has its own factor.
    Rescaled(&'a [f32]),
}

/// `C = A B + old`, or a multiple of `A B` alone: `A` is `[m, k]` with any strides, `B` is `[k, n]`
/// and `C` is `[m, n]`, both with their columns side by side and `n` a multiple of [`LANES`].
///
/// Nothing is packed or copied. `C` is computed in pieces of `ROWS` rows and `WIDTH` vectors that
/// stay in registers, and in smaller ones for what is left.
///
/// # Safety
///
/// The processor has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn mat_mul<V: Vector, const ROWS: usize, const WIDTH: usize>(
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    old: Old<'_>,
    c: ArrayViewMut2<'_, f32>,
) {
    let (m, n) = c.dim();
    assert_eq!((a.nrows(), b.dim()), (m, (a.ncols(), n)));
    assert!(n.is_multiple_of(LANES) && b.strides()[1] == 1 && c.strides()[1] == 1);
    if let Old::Rescaled(factors) = old {
        assert!(factors.len() >= n);
    }
    let mut product = Product { a, b, old, c };
    let mut j = 0;
    // SAFETY: the strips lie within C, and the shapes have just been checked.
    unsafe {
        while j + WIDTH * V::LANES <= n {
            product.strip::<V, ROWS, WIDTH>(j);
            j += WIDTH * V::LANES;
        }
        while j < n {
            product.strip::<V, ROWS, 2>(j);
            j += 2 * V::LANES;
        }
    }
}

struct Product<'a> {
    a: ArrayView2<'a, f32>,
    b: ArrayView2<'a, f32>,
    old: Old<'a>,
    c: ArrayViewMut2<'a, f32>,
}

impl Product<'_> {
    /// `W` vectors of columns of the product, from column `j` on.
    ///
    /// # Safety
    ///
    /// As [`piece`](Self::piece), for these columns and all rows.
    #[inline(always)]
    unsafe fn strip<V: Vector, const ROWS: usize, const W: usize>(&mut self, j: usize) {
        let m = self.a.nrows();
        let mut i = 0;
        // SAFETY: by the contract; the rows are those of C.
        unsafe {
            // 8 = 4 + 4 is faster than 6 + 1 + 1.
            while i + ROWS <= m && m - i != 8 {
                self.piece::<V, ROWS, W>(i, j);
                i += ROWS;
            }
            while i + 4 <= m {
                self.piece::<V, 4, W>(i, j);
                i += 4;
            }
            while i < m {
                self.piece::<V, 1, W>(i, j);
                i += 1;
            }
        }
    }

    /// Rows `i..i + R` of the product, and `W` vectors of columns from column `j` on: for each `p`,
    /// the outer product of a column of `A` and a row of `B`.
    ///
    /// # Safety
    ///
    /// These rows and columns exist in `C`, the columns of `B` and `C` lie side by side, the
    /// shapes of the three fit each other, there is a factor for each column, and the processor
    /// has the instructions of `V`.
    #[inline(always)]
    unsafe fn piece<V: Vector, const R: usize, const W: usize>(&mut self, i: usize, j: usize) {
        let [row_a, column_a] = [self.a.strides()[0], self.a.strides()[1]];
        let (row_b, row_c) = (self.b.strides()[0], self.c.strides()[0]);
        // SAFETY: by the contract, all offsets below stay within the matrices.
        unsafe {
            let a = self.a.as_ptr().offset(i as isize * row_a);
            // Each row has its own pointer, and the loop adds to an offset that all share. Without
            // the black box the compiler knows how far apart they are, and computes each from the
            // one before, within the loop.
            let rows: [*const f32; R] = black_box(from_fn(|r| a.offset(r as isize * row_a)));
            let mut column = 0;
            let mut b = self.b.as_ptr().add(j);
            let mut sums = [[V::splat(0.0); W]; R];
            for _ in 0..self.a.ncols() {
                let row: [V; W] = from_fn(|x| V::load(b.add(x * V::LANES)));
                for r in 0..R {
                    let a = V::splat(*rows[r].offset(column));
                    for x in 0..W {
                        sums[r][x] = a.mul_add(row[x], sums[r][x]);
                    }
                }
                column += column_a;
                b = b.wrapping_offset(row_b); // beyond B in the end
            }

            let c = self.c.as_mut_ptr().offset(i as isize * row_c).add(j);
            for (r, sums) in sums.into_iter().enumerate() {
                for (x, sum) in sums.into_iter().enumerate() {
                    let c = c.offset(r as isize * row_c).add(x * V::LANES);
                    let new = match self.old {
                        Old::Replaced(factor) => sum.mul(V::splat(factor)),
                        Old::Kept => sum.add(V::load(c)),
                        Old::Rescaled(factors) => {
                            let factor = V::load(factors.as_ptr().add(j + x * V::LANES));
                            factor.mul_add(V::load(c), sum)
                        }
                    };
                    new.store(c);
                }
            }
        }
    }
}
