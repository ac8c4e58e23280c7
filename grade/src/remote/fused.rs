//! Stage 4's interface.

use exercise_kit::stage4::Call;
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
        let Outputs { mut o, mut lse } = outputs;
        let lengths = &inputs.key_lengths;
        let call = Call {
            q: self.read(&inputs.q)?,
            k: self.read(&inputs.k)?,
            v: self.read(&inputs.v)?,
            mask: self.read_strided(&inputs.mask)?,
            key_lengths: lengths.as_ref().map(|x| self.read(x)).transpose()?,
            blocks: self.read_strided(&inputs.blocks)?,
            o: self.read(&o.as_view())?,
            lse: self.read_some(&lse)?,
            shape: *shape,
        };
        self.into_views(call, &mut o, lse.as_mut())
    }

    /// True if the task asks for it: what the learner's code says does not count.
    fn has_head_dim(&self, head_dim: usize) -> bool {
        HEAD_DIMS.contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

/// The head dimensions of the task.
const HEAD_DIMS: [usize; 4] = [16, 40, 64, 128];
