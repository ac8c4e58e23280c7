//! Exercise 1, solved. `heads.rs` is stage 1's own.

mod heads;

use ndarray::{Array3, Array4, ArrayView3, ArrayView4, ArrayViewMut1, s};
use stage1_reference::{
    Attend, Error, Feature, Linear, MultiHead, MultiHeadAttention, Options, Output, Sizes,
};

use heads::{apply, merge_heads, split_heads};

/// Features that are not asked for.
pub const LACKS: [Feature; 6] = [
    Feature::Window,
    Feature::KeyLengths,
    Feature::AdditiveMask,
    Feature::BlockSparse,
    Feature::Dropout,
    Feature::GroupedHeads,
];

/// The solution.
#[derive(Debug)]
pub struct Own;

impl Attend for Own {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        let sizes = Sizes::of("attention", q.dim(), k.dim(), v.dim())?;
        options.check("attention", &sizes)?;
        options.refuse("attention", &LACKS)?;
        let scale = options.scale.unwrap_or(sizes.default_scale());
        let (batch, heads, nq, head_dim) = q.dim();
        let mut o = Array4::zeros((batch, heads, nq, head_dim));
        let mut lse = Array3::zeros((batch, heads, nq));
        for b in 0..batch {
            for h in 0..heads {
                let (q, k, v) = (
                    q.slice(s![b, h, .., ..]),
                    k.slice(s![b, h, .., ..]),
                    v.slice(s![b, h, .., ..]),
                );
                let mut scores = q.dot(&k.t()) * scale; // [nq, nk]
                for ((i, j), score) in scores.indexed_iter_mut() {
                    if options.causal && j + nq > i + sizes.nk {
                        *score = f32::NEG_INFINITY;
                    }
                }
                for (i, row) in scores.rows_mut().into_iter().enumerate() {
                    lse[[b, h, i]] = softmax(row);
                }
                o.slice_mut(s![b, h, .., ..]).assign(&scores.dot(&v));
            }
        }
        Ok(Output { o, lse })
    }

    fn argument_of(error: &Error) -> Option<&str> {
        Some(error.argument())
    }
}

/// Replaces a row of scores by their softmax, and returns their log-sum-exp.
fn softmax(mut row: ArrayViewMut1<'_, f32>) -> f32 {
    let max = row.fold(f32::NEG_INFINITY, |max, &x| max.max(x));
    if max == f32::NEG_INFINITY {
        row.fill(0.0); // exp(−inf − −inf) would be NaN
        return max;
    }
    row.mapv_inplace(|x| (x - max).exp());
    let sum = row.sum();
    row /= sum;
    max + sum.ln()
}

impl MultiHead for Own {
    fn multi_head(
        &self,
        layer: &MultiHeadAttention,
        x: ArrayView3<'_, f32>,
        options: &Options,
    ) -> Result<Array3<f32>, Error> {
        layer.check(x)?;
        let [q, k, v] = [&layer.w_q, &layer.w_k, &layer.w_v]
            .map(|linear| split_heads(apply(linear, x), layer.heads));
        let output = self.attend(q.view(), k.view(), v.view(), options)?;
        Ok(apply(&layer.w_o, merge_heads(output.o).view()))
    }
}
