use ndarray::{Array3, Array4, ArrayView4, ArrayViewMut1, s};

use crate::{Attend, Error, Options, Output, Sizes};

/// Attention: `o = softmax(scale · q kᵀ + mask) v`, in f32.
///
/// `q` is `[B, H, nq, D]`; `k` and `v` are `[B, H_kv, nk, D]` with `H % H_kv == 0`.
/// Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.
///
/// ```
/// use ndarray::Array4;
/// use stage1_reference::{Options, attention};
///
/// let q = Array4::<f32>::ones((1, 2, 3, 8));
/// let k = Array4::<f32>::ones((1, 1, 5, 8));
/// let v = Array4::<f32>::from_elem((1, 1, 5, 8), 7.0);
/// let output = attention(q.view(), k.view(), v.view(), &Options::default().causal())?;
/// assert_eq!(output.o.dim(), (1, 2, 3, 8));
/// assert!((output.o[[0, 1, 2, 0]] - 7.0).abs() < 1e-5);
/// # Ok::<(), stage1_reference::Error>(())
/// ```
///
/// # Errors
///
/// Shapes that do not fit each other, a mask that does not broadcast, a key length above nk, a
/// scale that is not finite, a probability of dropout that is not in `[0, 1)`: see [`Error`].
pub fn attention(
    q: ArrayView4<'_, f32>,
    k: ArrayView4<'_, f32>,
    v: ArrayView4<'_, f32>,
    options: &Options,
) -> Result<Output, Error> {
    let sizes = Sizes::of("attention", q.dim(), k.dim(), v.dim())?;
    let mask = options.combined("attention", &sizes)?;
    let (batch, heads, nq, head_dim) = q.dim();
    let mut o = Array4::zeros((batch, heads, nq, head_dim));
    let mut lse = Array3::zeros((batch, heads, nq));

    // ANCHOR: attention
    let scale = options.scale.unwrap_or(sizes.default_scale());
    for b in 0..batch {
        for h in 0..heads {
            let h_kv = h / sizes.group();
            let q = q.slice(s![b, h, .., ..]); // [nq, D]
            let n = mask.key_length(b); // nk, or fewer where the rest is padding
            let k = k.slice(s![b, h_kv, ..n, ..]); // [n, D]
            let v = v.slice(s![b, h_kv, ..n, ..]); // [n, D]

            let mut scores = q.dot(&k.t()) * scale; // [nq, n]
            for ((i, j), score) in scores.indexed_iter_mut() {
                *score += mask.bias(b, h, i, j); // −inf where query i must not see key j
            }
            for (i, row) in scores.rows_mut().into_iter().enumerate() {
                lse[[b, h, i]] = softmax(row);
            }
            if let Some(dropout) = options.dropout {
                scores *= &dropout.factors(b * heads + h, 0..nq, 0..n);
            }
            o.slice_mut(s![b, h, .., ..]).assign(&scores.dot(&v));
        }
    }
    // ANCHOR_END: attention
    Ok(Output { o, lse })
}

// ANCHOR: softmax
/// Replaces a row of scores by their softmax and returns the log of the sum of their exponentials.
///
/// The maximum is subtracted first, so that the largest exponent is 0 and nothing overflows. A row
/// that sees no key becomes all 0.
fn softmax(mut row: ArrayViewMut1<'_, f32>) -> f32 {
    if row.iter().all(|&x| x == f32::NEG_INFINITY) {
        row.fill(0.0); // exp(−inf − −inf) would be NaN
        return f32::NEG_INFINITY;
    }
    let max = row.fold(f32::NEG_INFINITY, |max, &x| max.max(x));
    row.mapv_inplace(|x| (x - max).exp());
    let sum = row.sum();
    row /= sum;
    max + sum.ln()
}
// ANCHOR_END: softmax

/// This stage's own implementation.
#[derive(Debug, Clone, Copy)]
pub struct Stage1;

impl Attend for Stage1 {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        attention(q, k, v, options)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        Some(error.argument())
    }
}
