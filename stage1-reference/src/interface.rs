use std::error;

use ndarray::{Array3, Array4, ArrayView3, ArrayView4};

use crate::{MultiHeadAttention, Options};

/// Result of attention.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The attended values, `[B, H, nq, D]`. A row that sees no key is 0.
    pub o: Array4<f32>,
    /// `ln Σ exp(score)` of each row of masked, scaled scores, `[B, H, nq]`. A row
    /// that sees no key has −inf.
    pub lse: Array3<f32>,
}

/// An implementation of attention on host arrays. The suites of `conformance` judge anything that
/// has it: that of this crate, those of later stages, and an exercise's.
pub trait Attend {
    /// Why arguments were refused.
    type Error: error::Error + Send + 'static;

    /// `o = softmax(scale · q kᵀ + mask) v`, and the log-sum-exp of each row of scores. `q` is
    /// `[B, H, nq, D]`; `k` and `v` are `[B, H_kv, nk, D]` with `H % H_kv == 0`.
    ///
    /// # Errors
    ///
    /// Those of [`Sizes::of`](crate::Sizes::of) and [`Options::check`].
    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Self::Error>;

    /// The argument that an error names, as [`Error::argument`](crate::Error::argument) does.
    fn argument_of(error: &Self::Error) -> Option<&str>
    where
        Self: Sized;
}

/// An implementation of the multi-head layer.
pub trait MultiHead: Attend {
    /// Applies `layer` to `x`, `[B, N, hidden]`: projects, splits heads, attends, merges, projects
    /// back to `[B, N, hidden]`.
    ///
    /// # Errors
    ///
    /// Those of [`MultiHeadAttention::check`] and [`Attend::attend`].
    fn multi_head(
        &self,
        layer: &MultiHeadAttention,
        x: ArrayView3<'_, f32>,
        options: &Options,
    ) -> Result<Array3<f32>, Self::Error>;
}
