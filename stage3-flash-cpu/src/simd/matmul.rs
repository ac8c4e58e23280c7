use ndarray::{ArrayView2, ArrayViewMut2};

use super::{Arithmetic, LANES};

/// What becomes of the old contents `C` of a matrix that a product is written to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Old<'a> {
    /// They are overwritten.
    Replaced,
    /// The product is added to them.
    Kept,
    /// The product is added to `C diag(factors)`: each column has its own factor.
    Rescaled(&'a [f32]),
}

/// `C = alpha · A B + old`: `A` is `[m, k]` with any strides, `B` is `[k, n]` and `C` is `[m, n]`, both with their columns
/// side by side and `n` a multiple of [`LANES`].
///
/// Nothing is packed or copied. `C` is computed in pieces of `ROWS × COLUMNS` that stay in registers, and in smaller ones
/// for what is left.
#[inline(always)]
pub(super) fn mat_mul<M: Arithmetic, const ROWS: usize, const COLUMNS: usize>(
    alpha: f32,
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
    let mut product = Product {
        alpha,
        a,
        b,
        old,
        c,
    };
    let mut j = 0;
    // SAFETY: the strips lie within C, and the shapes have just been checked.
    unsafe {
        while j + COLUMNS <= n {
            product.strip::<M, ROWS, COLUMNS>(j);
            j += COLUMNS;
        }
        while j < n {
            product.strip::<M, ROWS, LANES>(j);
            j += LANES;
        }
    }
}

struct Product<'a> {
    alpha: f32,
    a: ArrayView2<'a, f32>,
    b: ArrayView2<'a, f32>,
    old: Old<'a>,
    c: ArrayViewMut2<'a, f32>,
}

impl Product<'_> {
    /// Columns `j..j + W` of the product.
    ///
    /// # Safety
    ///
    /// As [`piece`](Self::piece), for these columns and all rows.
    #[inline(always)]
    unsafe fn strip<M: Arithmetic, const ROWS: usize, const W: usize>(&mut self, j: usize) {
        let m = self.a.nrows();
        let mut i = 0;
        // SAFETY: by the contract; the rows are those of C.
        unsafe {
            while i + ROWS <= m {
                self.piece::<M, ROWS, W>(i, j);
                i += ROWS;
            }
            while i + 2 <= m {
                self.piece::<M, 2, W>(i, j);
                i += 2;
            }
            if i < m {
                self.piece::<M, 1, W>(i, j);
            }
        }
    }

    /// Rows `i..i + R` and columns `j..j + W` of the product: for each `p`, the outer product of a column of `A` and a
    /// row of `B`.
    ///
    /// # Safety
    ///
    /// These rows and columns exist in `C`, the columns of `B` and `C` lie side by side, the shapes of the three fit
    /// each other, and there is a factor for each column.
    #[inline(always)]
    unsafe fn piece<M: Arithmetic, const R: usize, const W: usize>(&mut self, i: usize, j: usize) {
        let [row_a, column_a] = [self.a.strides()[0], self.a.strides()[1]];
        let (row_b, row_c) = (self.b.strides()[0], self.c.strides()[0]);
        // SAFETY: by the contract, all offsets below stay within the matrices.
        unsafe {
            let a = self.a.as_ptr().offset(i as isize * row_a);
            let b = self.b.as_ptr().add(j);
            let c = self.c.as_mut_ptr().offset(i as isize * row_c).add(j);

            let mut sums = [[0.0; W]; R];
            for p in 0..self.a.ncols() as isize {
                let b = *b.offset(p * row_b).cast::<[f32; W]>();
                for (r, sums) in sums.iter_mut().enumerate() {
                    let a = *a.offset(r as isize * row_a + p * column_a);
                    for x in 0..W {
                        sums[x] = M::mul_add(a, b[x], sums[x]);
                    }
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                let c = c.offset(r as isize * row_c).cast::<[f32; W]>();
                let mut new = match self.old {
                    Old::Replaced => [0.0; W],
                    Old::Kept => *c,
                    Old::Rescaled(factors) => {
                        let factors = &*factors.as_ptr().add(j).cast::<[f32; W]>();
                        let mut old = *c;
                        for x in 0..W {
                            old[x] *= factors[x];
                        }
                        old
                    }
                };
                for x in 0..W {
                    new[x] = M::mul_add(self.alpha, sums[x], new[x]);
                }
                *c = new;
            }
        }
    }
}
