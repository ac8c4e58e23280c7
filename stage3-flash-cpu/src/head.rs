//! Algorithm 1 for packed heads: cuts a problem into heads, and gives each to `flash.rs`.

use std::ops::Range;

use ndarray::{Array3, Array4, ArrayView2, ArrayView4, s};
use stage1_reference::{Attend, Error, Feature, Options, Output, Sizes};

use crate::flash::attend_head;

/// Attention of one head.
pub(crate) struct Head<'a> {
    pub(crate) q: ArrayView2<'a, f32>, // [nq, D]
    pub(crate) k: ArrayView2<'a, f32>, // [nk, D]
    pub(crate) v: ArrayView2<'a, f32>, // [nk, D]
    pub(crate) scale: f32,
    pub(crate) causal: bool,
}

/// Cuts a range into pieces of `size`; the last one may be shorter.
pub(crate) fn tiles(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let Range { start, end } = range;
    (start..end)
        .step_by(size)
        .map(move |first| first..end.min(first + size))
}

/// The plain implementation, `flash.rs`: causal or not, and no other option.
#[derive(Debug, Clone, Copy)]
pub struct Flash;

impl Flash {
    /// The options that it lacks.
    pub const LACKS: [Feature; 5] = [
        Feature::Window,
        Feature::KeyLengths,
        Feature::AdditiveMask,
        Feature::BlockSparse,
        Feature::GroupedHeads,
    ];
}

impl Attend for Flash {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        let sizes = Sizes::of("flash", q.dim(), k.dim(), v.dim())?;
        options.check("flash", &sizes)?;
        options.refuse("flash", &Self::LACKS)?;
        if sizes.group() > 1 {
            return Err(Error::Unsupported {
                operation: "flash",
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

    fn argument_of(error: &Error) -> Option<&str> {
        Some(error.argument())
    }
}
