//! Stage 4's interface.

use exercise_kit::cuda::array_of;
use exercise_kit::stage4::{Call, Fields};
use stage4_flash_cuda::{Fused, Inputs, Outputs, Shape};

use super::{Error, Remote};

impl Fused for Remote {
    type Error = Error;

    fn forward(
        &self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let Inputs {
            q,
            k,
            v,
            mask,
            key_lengths,
            blocks,
        } = inputs;
        let Outputs { mut o, mut lse } = outputs;
        let mut tensors = vec![self.read(&q)?, self.read(&k)?, self.read(&v)?];
        if let Some(mask) = &mask {
            tensors.push(self.read(&mask.values)?);
        }
        if let Some(lengths) = &key_lengths {
            tensors.push(self.read(lengths)?);
        }
        if let Some(blocks) = &blocks {
            tensors.push(self.read(&blocks.values)?);
        }
        tensors.push(self.read(&o.as_view())?);
        if let Some(lse) = &lse {
            tensors.push(self.read(&lse.as_view())?);
        }
        let call = Call::Forward {
            shape: Fields::of(shape),
            mask: mask.map(|mask| array_of(mask.strides)),
            key_lengths: key_lengths.is_some(),
            blocks: blocks.map(|blocks| array_of(blocks.strides)),
            lse: lse.is_some(),
        };
        self.into_views(call, &tensors, &mut o, lse.as_mut())
    }

    /// Whether the task asks for it: what the learner's code says does not count.
    fn has_head_dim(&self, head_dim: usize) -> bool {
        HEAD_DIMS.contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

/// The head dimensions of the task.
const HEAD_DIMS: [usize; 4] = [16, 40, 64, 128];
