//! Attention cut into heads, for implementations that know one head at a time.

use std::ops::Range;

use ndarray::{Array3, Array4, ArrayView2, ArrayView4, ArrayViewMut1, ArrayViewMut2, s};

use crate::{Error, Feature, Options, Output, Sizes};

/// Attention of one head, causal or not.
#[derive(Debug)]
pub struct Head<'a> {
    /// Queries, `[nq, D]`.
    pub q: ArrayView2<'a, f32>,
    /// Keys, `[nk, D]`.
    pub k: ArrayView2<'a, f32>,
    /// Values, `[nk, D]`.
    pub v: ArrayView2<'a, f32>,
    /// Factor of the scores.
    pub scale: f32,
    /// True with the causal mask.
    pub causal: bool,
}

impl Head<'_> {
    /// The options that a head does not have.
    pub const LACKS: [Feature; 6] = [
        Feature::Window,
        Feature::KeyLengths,
        Feature::AdditiveMask,
        Feature::BlockSparse,
        Feature::Dropout,
        Feature::GroupedHeads,
    ];
}

/// Attention by a function that computes `o` `[nq, D]` and `lse` `[nq]` of one head,
/// and gets them full of NaN.
///
/// # Errors
///
/// Those of [`Sizes::of`] and [`Options::check`]; an option among [`Head::LACKS`].
pub fn by_head(
    operation: &'static str,
    [q, k, v]: [ArrayView4<'_, f32>; 3],
    options: &Options,
    attend_head: impl Fn(&Head<'_>, ArrayViewMut2<'_, f32>, ArrayViewMut1<'_, f32>),
) -> Result<Output, Error> {
    let sizes = Sizes::of(operation, q.dim(), k.dim(), v.dim())?;
    options.check(operation, &sizes)?;
    options.refuse(operation, &Head::LACKS)?;
    if sizes.group() > 1 {
        return Err(Error::Unsupported {
            operation,
            feature: Feature::GroupedHeads,
        });
    }
    let mut o = Array4::from_elem(q.dim(), f32::NAN);
    let mut lse = Array3::from_elem((sizes.batch, sizes.heads, sizes.nq), f32::NAN);
    for b in 0..sizes.batch {
        for h in 0..sizes.heads {
            let head = Head {
                q: q.slice(s![b, h, .., ..]),
                k: k.slice(s![b, h, .., ..]),
                v: v.slice(s![b, h, .., ..]),
                scale: options.scale.unwrap_or(sizes.default_scale()),
                causal: options.causal,
            };
            let o = o.slice_mut(s![b, h, .., ..]);
            attend_head(&head, o, lse.slice_mut(s![b, h, ..]));
        }
    }
    Ok(Output { o, lse })
}

/// Cuts a range into pieces of `size`; the last one may be shorter.
pub fn tiles(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let Range { start, end } = range;
    (start..end)
        .step_by(size)
        .map(move |first| first..end.min(first + size))
}
