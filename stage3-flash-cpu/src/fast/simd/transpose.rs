use ndarray::{ArrayView2, ArrayViewMut2, s};

/// `C = Aᵀ`, where `A` is `[m, n]` and `C` is `[n, m or more]`, its columns side by side; the
/// columns beyond m become 0.
///
/// `W` rows of `A` at a time, so that every line of the cache that is touched is used whole
/// before it has to make room.
#[inline(always)]
pub(super) fn transpose<const W: usize>(a: ArrayView2<'_, f32>, mut c: ArrayViewMut2<'_, f32>) {
    let (m, n) = a.dim();
    assert!(c.nrows() == n && c.ncols() >= m && (n == 0 || c.strides()[1] == 1 || c.ncols() <= 1));
    c.slice_mut(s![.., m..]).fill(0.0);
    let (row_a, column_a) = (a.strides()[0], a.strides()[1]);
    let row_c = c.strides()[0];
    let whole = m / W * W;
    for i in (0..whole).step_by(W) {
        for j in 0..n as isize {
            let mut column = [0.0; W];
            // SAFETY: rows i..i + W and column j exist in A; C has them the other way round,
            // its columns side by side.
            unsafe {
                let a = a.as_ptr().offset(i as isize * row_a + j * column_a);
                for (x, element) in column.iter_mut().enumerate() {
                    *element = *a.offset(x as isize * row_a);
                }
                let c = c.as_mut_ptr().offset(j * row_c).add(i);
                *c.cast::<[f32; W]>() = column;
            }
        }
    }
    c.slice_mut(s![.., whole..m])
        .assign(&a.slice(s![whole.., ..]).t());
}
