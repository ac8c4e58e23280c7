use ndarray::{ArrayView2, ArrayViewMut2, s};

use super::vector::{BLOCK, Vector};

/// `C = Aᵀ`, where `A` is `[m, n]` and `C` is `[n, m or more]`, its columns side by side; the
/// columns beyond m become 0.
///
/// Blocks whose rows lie side by side in `A` go through registers, the rest element by element.
///
/// # Safety
///
/// The processor has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn transpose<V: Vector>(a: ArrayView2<'_, f32>, mut c: ArrayViewMut2<'_, f32>) {
    let (m, n) = a.dim();
    assert!(c.nrows() == n && c.ncols() >= m && (n == 0 || c.strides()[1] == 1 || c.ncols() <= 1));
    c.slice_mut(s![.., m..]).fill(0.0);
    let (row_a, row_c) = (a.strides()[0], c.strides()[0]);
    let [rows, columns] = match a.strides()[1] {
        1 => [m / BLOCK[0] * BLOCK[0], n / BLOCK[1] * BLOCK[1]],
        _ => [0, 0],
    };
    for i in (0..rows).step_by(BLOCK[0]) {
        for j in (0..columns).step_by(BLOCK[1]) {
            // SAFETY: by the contract; the block lies in A, and in C the other way round.
            unsafe {
                let a = a.as_ptr().offset(i as isize * row_a).add(j);
                let c = c.as_mut_ptr().offset(j as isize * row_c).add(i);
                V::transpose(a, row_a, c, row_c);
            }
        }
    }
    let mut c = c.reversed_axes();
    for rest in [s![..rows, columns..], s![rows..m, ..]] {
        c.slice_mut(rest).assign(&a.slice(rest));
    }
}
