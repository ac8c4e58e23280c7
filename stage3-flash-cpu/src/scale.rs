use ndarray::{ArrayView4, s};
use stage1_reference::{Mask, Options, Sizes};

use crate::Error;

/// Scores stay below this, 2¹⁰⁰: so far below the largest f32 that no additive mask takes them beyond it.
const LIMIT: f64 = (1u128 << 100) as f64;

/// What the products of queries and keys are multiplied by.
///
/// The default scale, and any other up to 1, makes scores smaller than the products. A larger one may take them out of
/// the range of f32, where infinity − infinity would be NaN; so the largest elements of `q` and `k` are looked up first.
/// Infinity and NaN among them are data, and padding is not looked at.
///
/// # Errors
///
/// [`Error::ScoreRange`].
pub(crate) fn scale(
    operation: &'static str,
    q: ArrayView4<'_, f32>, // [B, H, nq, D]
    k: ArrayView4<'_, f32>, // [B, H_kv, nk, D]
    options: &Options,
    mask: &Mask<'_>,
    sizes: &Sizes,
) -> Result<f32, Error> {
    let scale = options.scale.unwrap_or(sizes.default_scale());
    if scale.abs() <= 1.0 {
        return Ok(scale);
    }
    let keys = (0..sizes.batch)
        .flat_map(|b| k.slice_move(s![b, .., ..mask.key_length(b), ..]))
        .copied();
    let product = sizes.head_dim as f64 * largest(q.iter().copied()) * largest(keys);
    if product * f64::from(scale).abs() < LIMIT {
        Ok(scale)
    } else {
        Err(Error::ScoreRange {
            operation,
            scale,
            product,
        })
    }
}

/// The largest finite absolute value, 0 if there is none.
fn largest(values: impl Iterator<Item = f32>) -> f64 {
    values
        .map(f32::abs)
        .filter(|x| x.is_finite())
        .fold(0.0, f32::max)
        .into()
}
