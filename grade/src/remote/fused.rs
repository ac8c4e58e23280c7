//! Stage 4's interface.

use cudarc::driver::DeviceRepr;
use exercise_kit::frame::Plain;
use exercise_kit::stage4::{Backward, Call, Forward, InputTensors};
use half::f16;
use stage4_flash_cuda::{
    BackwardInputs, Fused, FusedBackward, Gradients, Inputs, Outputs, Rung, Shape,
};

use super::{Error, Remote, done};

/// The learner's kernel of a bonus task, on tensors of f16.
#[derive(Debug)]
pub struct Bonus<'a> {
    /// The program.
    pub remote: &'a Remote,
    /// The task, by the rung that solves it.
    pub rung: Rung,
}

impl Remote {
    fn attend<T: Plain + DeviceRepr>(
        &self,
        bonus: Option<Rung>,
        inputs: Inputs<'_, T>,
        outputs: Outputs<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let Outputs { mut o, mut lse } = outputs;
        let call = Call::Forward(Box::new(Forward {
            bonus,
            inputs: self.read_inputs(&inputs)?,
            o: self.read(&o.as_view())?,
            lse: self.read_some(&lse)?,
            shape: *shape,
        }));
        self.into_views(call, &mut o, lse.as_mut())
    }

    fn read_inputs<T: Plain + DeviceRepr>(
        &self,
        inputs: &Inputs<'_, T>,
    ) -> Result<InputTensors, Error> {
        let lengths = &inputs.key_lengths;
        Ok(InputTensors {
            q: self.read(&inputs.q)?,
            k: self.read(&inputs.k)?,
            v: self.read(&inputs.v)?,
            mask: self.read_strided(&inputs.mask)?,
            key_lengths: lengths.as_ref().map(|x| self.read(x)).transpose()?,
            blocks: self.read_strided(&inputs.blocks)?,
        })
    }
}

impl Fused for Remote {
    type Error = Error;

    fn forward(
        &self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        self.attend(None, inputs, outputs, shape)
    }

    /// True if the task asks for it: what the learner's code says does not count.
    fn has_head_dim(&self, head_dim: usize) -> bool {
        HEAD_DIMS.contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

impl Fused<f16> for Bonus<'_> {
    type Error = Error;

    fn forward(
        &self,
        inputs: Inputs<'_, f16>,
        outputs: Outputs<'_, f16>,
        shape: &Shape,
    ) -> Result<(), Error> {
        self.remote.attend(Some(self.rung), inputs, outputs, shape)
    }

    /// True if the task asks for it, as above.
    fn has_head_dim(&self, head_dim: usize) -> bool {
        self.rung.head_dims().contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

impl FusedBackward for Remote {
    type Error = Error;

    fn backward(
        &self,
        inputs: BackwardInputs<'_>,
        gradients: Gradients<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let Gradients {
            mut dq,
            mut dk,
            mut dv,
        } = gradients;
        let (outcome, mut outputs) = self.call(Call::Backward(Box::new(Backward {
            inputs: self.read_inputs(&inputs.forward)?,
            o: self.read(&inputs.o)?,
            lse: self.read(&inputs.lse)?,
            d_o: self.read(&inputs.d_o)?,
            dq: self.read(&dq.as_view())?,
            dk: self.read(&dk.as_view())?,
            dv: self.read(&dv.as_view())?,
            shape: *shape,
        })))?;
        let mut views = [&mut dq, &mut dk, &mut dv].into_iter();
        let written = views.try_for_each(|view| self.write(&mut outputs, view));
        // Where there are no outputs, the outcome says why.
        done(outcome).and(written)
    }

    /// True if the task asks for it, as above.
    fn has_head_dim(&self, head_dim: usize) -> bool {
        Rung::HEAD_DIMS.contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

/// The head dimensions of task `flash`.
const HEAD_DIMS: [usize; 4] = [16, 40, 64, 128];
