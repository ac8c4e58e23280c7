//! Stage 1's interface, and that of stage 3.

use exercise_kit::frame::Tensor;
use exercise_kit::stage1::{Call, Modifiers};
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
        let (modifiers, more) = Modifiers::of(options);
        let mut tensors = Vec::from([q, k, v].map(|x| Tensor::of_array(&x)));
        tensors.extend(more);
        let (outcome, mut outputs) = self.call(Call::Attend(modifiers), &tensors)?;
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
        let (modifiers, more) = Modifiers::of(options);
        let maps = [&layer.w_q, &layer.w_k, &layer.w_v, &layer.w_o];
        let mut tensors = vec![Tensor::of_array(&x)];
        for linear in maps {
            tensors.push(Tensor::of_array(&linear.weight));
            tensors.extend(linear.bias.as_ref().map(Tensor::of_array));
        }
        tensors.extend(more);
        let call = Call::MultiHead {
            heads: layer.heads,
            biases: maps.map(|linear| linear.bias.is_some()),
            modifiers,
        };
        let (outcome, mut outputs) = self.call(call, &tensors)?;
        done(outcome)?;
        Ok(outputs.array()?)
    }
}
