//! Exercise 1, task `mha` (2 points): multi-head attention on the CPU.
//!
//! Fill in the two functions that say `TODO`. `cargo grade 1` judges them,
//! `cargo grade hint mha` helps.
//!
//! Arrays have the axes `[B, H, N, D]`: batch, heads, sequence, head dimension. They may lie in
//! memory in any order of the axes. The default scale and any other, and the causal mask are asked
//! for; sizes may be anything, 0 included. See `README.md` of `stage1-reference` for the formula
//! and an example by hand.

#![allow(unused_imports, unused_variables)] // remove this line when nothing is left to do

use ndarray::{Array3, Array4, ArrayView3, ArrayView4, s};
use stage1_reference::{
    Attend, Error, Feature, Linear, MultiHead, MultiHeadAttention, Options, Output, Sizes,
};

/// Features that are not asked for.
pub const LACKS: [Feature; 6] = [
    Feature::Window,
    Feature::KeyLengths,
    Feature::AdditiveMask,
    Feature::BlockSparse,
    Feature::Dropout,
    Feature::GroupedHeads,
];

/// Your implementation.
#[derive(Debug)]
pub struct Own;

impl Attend for Own {
    type Error = Error;

    /// `o = softmax(scale · q kᵀ + mask) v`, and for each row of scores `lse = ln Σ exp(score)`.
    ///
    /// `q` is `[B, H, nq, D]`, `k` and `v` are `[B, H, nk, D]`; `o` is `[B, H, nq, D]`, `lse` is
    /// `[B, H, nq]`. With `options.causal`, query i sees the keys `j ≤ i + nk − nq`. A row that
    /// sees no key has `o = 0` and `lse = −inf`.
    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        // Refuses what does not fit, by name. Every operation of the course begins so.
        let sizes = Sizes::of("attention", q.dim(), k.dim(), v.dim())?;
        options.check("attention", &sizes)?;
        options.refuse("attention", &LACKS)?;
        let scale = options.scale.unwrap_or(sizes.default_scale());
        todo!("TODO, task mha: attention")
    }

    fn argument_of(error: &Error) -> Option<&str> {
        Some(error.argument())
    }
}

impl MultiHead for Own {
    /// The layer: `x` `[B, N, hidden]` times the weights `w_q`, `w_k`, `w_v` `[hidden, hidden]`,
    /// plus their biases `[hidden]` where there are any; each split into `layer.heads` heads of
    /// `D = hidden / heads` neighbouring columns, `[B, H, N, D]`; attention; the heads side by side
    /// again, `[B, N, hidden]`; times `w_o`, plus its bias.
    fn multi_head(
        &self,
        layer: &MultiHeadAttention,
        x: ArrayView3<'_, f32>,
        options: &Options,
    ) -> Result<Array3<f32>, Error> {
        layer.check(x)?;
        todo!("TODO, task mha: the multi-head layer")
    }
}
