use ndarray::{Array3, Array4, ArrayView4, ArrayViewMut2, s};

use crate::{Error, Sizes};

/// What modifies an attention problem besides `q`, `k` and `v`.
///
/// The default is the default scale and no mask. The masks combine: a key is seen only if every mask lets it be.
///
/// ```
/// use stage1_reference::Options;
/// let options = Options::default().causal().scale(0.5);
/// assert!(options.causal);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// What the scores `q kᵀ` are multiplied by; `1 / sqrt(D)` if `None`.
    pub scale: Option<f32>,
    /// Whether query `i` sees only the keys `j ≤ i + nk − nq` (aligned bottom-right: the last query sees all keys).
    pub causal: bool,
    /// Added to the scaled scores: `[B or 1, H or 1, nq, nk]`, where an axis of 1 is repeated. `−inf` hides a key.
    pub mask: Option<Array4<f32>>,
}

impl Options {
    /// With this scale instead of `1 / sqrt(D)`.
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = Some(scale);
        self
    }

    /// With the causal mask.
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    /// With an additive mask, `[B or 1, H or 1, nq, nk]`.
    pub fn mask(mut self, mask: Array4<f32>) -> Self {
        self.mask = Some(mask);
        self
    }

    /// Checks the options against the sizes of a problem.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the mask does not broadcast to `[B, H, nq, nk]`, [`Error::Scale`] if the scale is not
    /// finite. `operation` is the caller's name, for the message.
    pub fn check(&self, operation: &'static str, sizes: &Sizes) -> Result<(), Error> {
        if let Some(scale) = self.scale
            && !scale.is_finite()
        {
            return Err(Error::Scale { operation, scale });
        }
        let Sizes {
            batch,
            heads,
            nq,
            nk,
            ..
        } = *sizes;
        if let Some(mask) = &self.mask {
            let (b, h, rows, columns) = mask.dim();
            let fits =
                (b == 1 || b == batch) && (h == 1 || h == heads) && (rows, columns) == (nq, nk);
            if !fits {
                return Err(Error::Shape {
                    operation,
                    argument: "mask",
                    actual: mask.shape().to_vec(),
                    expected: format!("[{batch} or 1, {heads} or 1, {nq}, {nk}]"),
                });
            }
        }
        Ok(())
    }
}

/// What attention returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The attended values, `[B, H, nq, D]`. A row that sees no key is 0.
    pub o: Array4<f32>,
    /// `ln Σ exp(score)` of each row of masked, scaled scores, `[B, H, nq]`. A row that sees no key has −inf.
    pub lse: Array3<f32>,
}

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
/// Shapes that do not fit each other, a mask that does not broadcast, a scale that is not finite: see [`Error`].
pub fn attention(
    q: ArrayView4<'_, f32>,
    k: ArrayView4<'_, f32>,
    v: ArrayView4<'_, f32>,
    options: &Options,
) -> Result<Output, Error> {
    let sizes = Sizes::of("attention", q.dim(), k.dim(), v.dim())?;
    options.check("attention", &sizes)?;
    let Sizes {
        batch,
        heads,
        nq,
        head_dim,
        ..
    } = sizes;
    let mut o = Array4::zeros((batch, heads, nq, head_dim));
    let mut lse = Array3::zeros((batch, heads, nq));

    // ANCHOR: attention
    let scale = options.scale.unwrap_or(sizes.default_scale());
    for b in 0..batch {
        for h in 0..heads {
            let h_kv = h / sizes.group();
            let q = q.slice(s![b, h, .., ..]); // [nq, D]
            let k = k.slice(s![b, h_kv, .., ..]); // [nk, D]
            let v = v.slice(s![b, h_kv, .., ..]); // [nk, D]

            let mut scores = q.dot(&k.t()) * scale; // [nq, nk]
            apply_masks(scores.view_mut(), options, b, h);
            for (i, mut row) in scores.rows_mut().into_iter().enumerate() {
                lse[[b, h, i]] = softmax(
                    row.as_slice_mut()
                        .expect("a fresh matrix has contiguous rows"),
                );
            }
            o.slice_mut(s![b, h, .., ..]).assign(&scores.dot(&v));
        }
    }
    // ANCHOR_END: attention
    Ok(Output { o, lse })
}

// ANCHOR: masks
/// Hides keys from queries by setting scores to −inf. `scores` is `[nq, nk]`, of batch `b` and head `h`.
fn apply_masks(mut scores: ArrayViewMut2<'_, f32>, options: &Options, b: usize, h: usize) {
    if let Some(mask) = &options.mask {
        // An axis of length 1 is shared by all batches, or by all heads.
        let (b, h) = (b.min(mask.dim().0 - 1), h.min(mask.dim().1 - 1));
        scores += &mask.slice(s![b, h, .., ..]);
    }
    if options.causal {
        let (nq, nk) = scores.dim();
        for ((i, j), score) in scores.indexed_iter_mut() {
            // Aligned bottom-right: the queries are the last nq of nk tokens.
            if j + nq > i + nk {
                *score = f32::NEG_INFINITY;
            }
        }
    }
}
// ANCHOR_END: masks

// ANCHOR: softmax
/// Replaces a row of scores by their softmax and returns the log of the sum of their exponentials.
///
/// The maximum is subtracted first, so that the largest exponent is 0 and nothing overflows. A row without any
/// finite score becomes all 0.
fn softmax(row: &mut [f32]) -> f32 {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY {
        row.fill(0.0); // exp(−inf − −inf) would be NaN
        return f32::NEG_INFINITY;
    }
    let mut sum = 0.0;
    for x in row.iter_mut() {
        *x = (*x - max).exp();
        sum += *x;
    }
    for x in row.iter_mut() {
        *x /= sum;
    }
    max + sum.ln()
}
// ANCHOR_END: softmax
