//! Exercise 1, solved.

use ndarray::{Array3, Array4, ArrayView3, ArrayView4, ArrayViewMut1, s};
use stage1_reference::{
    Attend, Error, Feature, Linear, MultiHead, MultiHeadAttention, Options, Output, Sizes,
};

/// What is not asked for.
pub const LACKS: [Feature; 5] = [
    Feature::Window,
    Feature::KeyLengths,
    Feature::AdditiveMask,
    Feature::BlockSparse,
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

/// `x · weight + bias`, of `x` `[B, N, in]`.
fn apply(linear: &Linear, x: ArrayView3<'_, f32>) -> Array3<f32> {
    let (batch, n, width) = x.dim();
    let rows = x
        .to_shape((batch * n, width))
        .expect("the same number of elements");
    let mut y = rows.dot(&linear.weight);
    if let Some(bias) = &linear.bias {
        y += bias;
    }
    let shape = (batch, n, linear.weight.ncols());
    y.into_shape_with_order(shape)
        .expect("the same number of elements")
}

/// `[B, N, hidden]` to `[B, H, N, D]`.
fn split_heads(x: Array3<f32>, heads: usize) -> Array4<f32> {
    let (batch, n, hidden) = x.dim();
    let shape = (batch, n, heads, hidden / heads);
    let split = x.into_shape_with_order(shape).expect("hidden = H · D");
    split.permuted_axes([0, 2, 1, 3])
}

/// `[B, H, N, D]` to `[B, N, hidden]`.
fn merge_heads(o: Array4<f32>) -> Array3<f32> {
    let (batch, heads, n, d) = o.dim();
    let o = o.permuted_axes([0, 2, 1, 3]);
    o.as_standard_layout()
        .into_owned()
        .into_shape_with_order((batch, n, heads * d))
        .expect("hidden = H · D")
}
