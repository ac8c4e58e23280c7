use std::error;

use ndarray::{Array3, ArrayView3, ArrayView4};

use crate::{Error, MultiHeadAttention, Options, Output, attention};

/// An implementation of attention on host arrays. The suites of `conformance` judge anything that has it: this crate's
/// [`Stage1`], those of later stages, and an exercise's.
pub trait Attend {
    /// Why arguments were refused.
    type Error: error::Error + 'static;

    /// What [`attention()`] computes, with its errors.
    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Self::Error>;

    /// The argument that an error names, as [`Error::argument`] does.
    fn argument_of(error: &Self::Error) -> Option<&str>;
}

/// An implementation of the multi-head layer.
pub trait MultiHead: Attend {
    /// What [`MultiHeadAttention::forward`] computes, with its errors; `layer` has the weights.
    fn multi_head(
        &self,
        layer: &MultiHeadAttention,
        x: ArrayView3<'_, f32>,
        options: &Options,
    ) -> Result<Array3<f32>, Self::Error>;
}

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

impl MultiHead for Stage1 {
    fn multi_head(
        &self,
        layer: &MultiHeadAttention,
        x: ArrayView3<'_, f32>,
        options: &Options,
    ) -> Result<Array3<f32>, Error> {
        layer.forward(x, options)
    }
}
