use ndarray::{ArrayView2, ArrayViewMut2};

use super::Arithmetic;
use super::exp::exp;

// ANCHOR: online_softmax
/// Takes a tile of scores `s` `[keys, queries]` into the running softmax of each query; `s` becomes the weights `p`.
///
/// Of the keys so far, `m` is the largest score and `l` the sum of the weights, as multiples of `e^m`. Both are relative
/// to the old maximum before, and to the new one afterwards: `factor` is what carries one over to the other. A query
/// that has not seen a key yet has `m = −inf`, `l = 0`.
#[inline(always)]
pub(super) fn online_softmax<A: Arithmetic, const W: usize>(
    mut s: ArrayViewMut2<'_, f32>,
    m: &mut [f32],
    l: &mut [f32],
    factor: &mut [f32],
) {
    let (keys, queries) = s.dim();
    for column in (0..queries).step_by(W) {
        let m = of_slice::<W>(m, column);
        let l = of_slice::<W>(l, column);
        let factor = of_slice::<W>(factor, column);

        // m_new = max(m, rowmax(S)); two keys at once, because each comparison waits for the one before.
        let (mut even, mut odd) = (*m, *m);
        for j in (0..keys).step_by(2) {
            let s_even = *of_row::<W>(&mut s, j, column);
            let s_odd = *of_row::<W>(&mut s, (j + 1).min(keys - 1), column);
            for x in 0..W {
                even[x] = larger(s_even[x], even[x]);
                odd[x] = larger(s_odd[x], odd[x]);
            }
        }
        let mut m_new = [0.0; W];
        let mut base = [0.0; W];
        for x in 0..W {
            m_new[x] = larger(even[x], odd[x]);
            // Where all scores are −inf, −inf − −inf would be NaN.
            base[x] = if m_new[x] == f32::NEG_INFINITY {
                0.0
            } else {
                m_new[x]
            };
        }

        // P = exp(S − m_new), and rowsum(P)
        let mut sum = [0.0; W];
        for j in 0..keys {
            let s = of_row::<W>(&mut s, j, column);
            for x in 0..W {
                s[x] = exp::<A>(s[x] - base[x]);
                sum[x] += s[x];
            }
        }

        // l = exp(m − m_new) l + rowsum(P)
        for x in 0..W {
            factor[x] = exp::<A>(m[x] - base[x]);
            l[x] = A::mul_add(factor[x], l[x], sum[x]);
        }
        *m = m_new;
    }
}
// ANCHOR_END: online_softmax

/// Scores `s` `[queries, keys]` to weights `exp(s − lse)`, where the log-sum-exp of each query is known.
#[inline(always)]
pub(super) fn softmax<A: Arithmetic, const W: usize>(mut s: ArrayViewMut2<'_, f32>, lse: &[f32]) {
    let (queries, keys) = s.dim();
    for (i, &lse) in (0..queries).zip(lse) {
        let base = if lse == f32::NEG_INFINITY { 0.0 } else { lse };
        for column in (0..keys).step_by(W) {
            let s = of_row::<W>(&mut s, i, column);
            for s in s {
                *s = exp::<A>(*s - base);
            }
        }
    }
}

/// The gradient of the scores, `p ∘ (dp − delta)`, in the place of that of the weights, `dp`. Both are
/// `[queries, keys]`; there is one `delta` for each query.
#[inline(always)]
pub(super) fn score_gradient<const W: usize>(
    mut dp: ArrayViewMut2<'_, f32>,
    p: ArrayView2<'_, f32>,
    delta: &[f32],
) {
    let (queries, keys) = dp.dim();
    for ((i, &delta), p) in (0..queries).zip(delta).zip(p.rows()) {
        let p = p.to_slice().expect("the rows of a tile have no gaps");
        for column in (0..keys).step_by(W) {
            let dp = of_row::<W>(&mut dp, i, column);
            for (dp, p) in dp.iter_mut().zip(&p[column..column + W]) {
                *dp = p * (*dp - delta);
            }
        }
    }
}

/// The larger of two numbers; `b` if one is NaN. One instruction, which `f32::max` is not.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// `W` elements, from `start` on.
#[inline(always)]
fn of_slice<const W: usize>(slice: &mut [f32], start: usize) -> &mut [f32; W] {
    slice[start..]
        .first_chunk_mut()
        .expect("one for each column")
}

/// `W` columns of row `i`, from `column` on.
#[inline(always)]
fn of_row<'a, const W: usize>(
    tile: &'a mut ArrayViewMut2<'_, f32>,
    i: usize,
    column: usize,
) -> &'a mut [f32; W] {
    assert!(i < tile.nrows() && column + W <= tile.ncols() && tile.strides()[1] == 1);
    let offset = i as isize * tile.strides()[0] + column as isize;
    // SAFETY: the row has these columns, and they lie side by side.
    unsafe { &mut *tile.as_mut_ptr().offset(offset).cast() }
}
