use ndarray::{Array3, ArrayView3, ArrayView4};

use crate::{Attend, Error, MultiHead, MultiHeadAttention, Options, Output, attention};

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
