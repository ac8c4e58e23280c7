use ndarray::{ArrayView2, ArrayViewMut2};

use super::LANES;
use super::exp::exp;
use super::vector::Vector;

/// Takes a tile of scores `s` `[keys, queries]` into the running softmax of each query; `s`
/// becomes the weights `p`.
///
/// Of the keys so far, `m` is the largest score and `l` the sum of the weights, as multiples of
/// `e^m`. Both are relative to the old maximum before, and to the new one afterwards: `factor` is
/// what carries one over to the other. A query that has not seen a key yet has `m = −inf`, `l = 0`.
///
/// # Safety
///
/// The processor has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn online_softmax<V: Vector>(
    mut s: ArrayViewMut2<'_, f32>,
    m: &mut [f32],
    l: &mut [f32],
    factor: &mut [f32],
) {
    let (keys, queries) = s.dim();
    check(&s);
    assert!(m.len() >= queries && l.len() >= queries && factor.len() >= queries);
    let stride = s.strides()[0];
    for column in (0..queries).step_by(V::LANES) {
        // SAFETY: by the contract, and these columns exist in all of them.
        unsafe {
            let s = s.as_mut_ptr().add(column);
            let s = |j: usize| s.offset(j as isize * stride);
            let [m, l, factor] = [&mut *m, l, factor].map(|x| x.as_mut_ptr().add(column));

            // m_new = max(m, rowmax(S)); two keys at once, because each comparison
            // waits for the one before.
            let m_old = V::load(m);
            let (mut even, mut odd) = (m_old, m_old);
            for j in (0..keys).step_by(2) {
                even = V::load(s(j)).max(even);
                odd = V::load(s((j + 1).min(keys - 1))).max(odd);
            }
            let m_new = even.max(odd);
            let base = base(m_new);

            // P = exp(S − m_new), and rowsum(P)
            let mut sum = V::splat(0.0);
            for j in 0..keys {
                let p = exp(V::load(s(j)).sub(base));
                p.store(s(j));
                sum = sum.add(p);
            }

            // l = exp(m − m_new) l + rowsum(P)
            let carry = exp(m_old.sub(base));
            carry.mul_add(V::load(l), sum).store(l);
            carry.store(factor);
            m_new.store(m);
        }
    }
}

/// Scores `s` `[queries, keys]` to weights `exp(s − lse)`, where the
/// log-sum-exp of each query is known.
///
/// # Safety
///
/// The processor has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn softmax<V: Vector>(mut s: ArrayViewMut2<'_, f32>, lse: &[f32]) {
    check(&s);
    assert_eq!(s.nrows(), lse.len());
    for (mut s, &lse) in s.rows_mut().into_iter().zip(lse) {
        // SAFETY: by the contract, and a row is as many vectors.
        unsafe {
            let base = base(V::splat(lse));
            for column in (0..s.len()).step_by(V::LANES) {
                let s = s.as_mut_ptr().add(column);
                exp(V::load(s).sub(base)).store(s);
            }
        }
    }
}

/// The gradient of the scores, `p ∘ (dp − delta)`, in the place of that of the weights, `dp`. Both
/// are `[queries, keys]`; there is one `delta` for each query.
///
/// # Safety
///
/// The processor has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn score_gradient<V: Vector>(
    mut dp: ArrayViewMut2<'_, f32>,
    p: ArrayView2<'_, f32>,
    delta: &[f32],
) {
    check(&dp);
    assert_eq!((dp.dim(), dp.nrows()), (p.dim(), delta.len()));
    let rows = dp.rows_mut().into_iter().zip(p.rows());
    for ((mut dp, p), &delta) in rows.zip(delta) {
        let p = p.to_slice().expect("the rows of a tile have no gaps");
        // SAFETY: by the contract, and both rows are as many vectors.
        unsafe {
            let delta = V::splat(delta);
            for column in (0..p.len()).step_by(V::LANES) {
                let dp = dp.as_mut_ptr().add(column);
                let p = V::load(p.as_ptr().add(column));
                p.mul(V::load(dp).sub(delta)).store(dp);
            }
        }
    }
}

/// The number to subtract from scores whose maximum or log-sum-exp is `m`. Where all are −inf,
/// −inf − −inf would be NaN.
#[inline(always)]
fn base<V: Vector>(m: V) -> V {
    // SAFETY: `m` exists, so the processor has the instructions.
    m.max(unsafe { V::splat(f32::MIN) })
}

/// A row is so many vectors, of any kind.
fn check(tile: &ArrayViewMut2<'_, f32>) {
    assert!(tile.ncols().is_multiple_of(LANES) && tile.strides()[1] == 1);
}
