//! Stage 1's interface, and that of stage 3.

use exercise_kit::frame::Tensor;
use exercise_kit::stage1::{Attention, Call};
use ndarray::{Array3, ArrayView3, ArrayView4};
use stage1_reference::{Attend, MultiHead, MultiHeadAttention, Options, Output};

use super::{Error, Remote, done};

impl Attend for Remote {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        let call = Call::Attend(Attention {
            q: Tensor::from_array(&q),
            k: Tensor::from_array(&k),
            v: Tensor::from_array(&v),
            options: options.clone(),
        });
        let (outcome, mut outputs) = self.call(call)?;
        done(outcome)?;
        Ok(Output {
            o: outputs.array()?,
            lse: outputs.array()?,
        })
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

impl MultiHead for Remote {
    fn multi_head(
        &self,
        layer: &MultiHeadAttention,
        x: ArrayView3<'_, f32>,
        options: &Options,
    ) -> Result<Array3<f32>, Error> {
        let maps = [&layer.w_q, &layer.w_k, &layer.w_v, &layer.w_o].map(|map| {
            let bias = map.bias.as_ref().map(Tensor::from_array);
            (Tensor::from_array(&map.weight), bias)
        });
        let (outcome, mut outputs) = self.call(Call::MultiHead {
            x: Tensor::from_array(&x),
            maps: Box::new(maps),
            heads: layer.heads,
            options: options.clone(),
        })?;
        done(outcome)?;
        Ok(outputs.array()?)
    }
}
