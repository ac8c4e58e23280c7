use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr};
use gpu::arguments::{ArgumentError, Checks};

use super::BackwardMode;
use crate::ladder::check_aligned;
use crate::{Error, Inputs, Rung, Shape};

/// The device memory that the backward pass reads. `T` is the type of the elements of all but lse.
#[derive(Debug)]
pub struct BackwardInputs<'a, T = f32> {
    /// What the forward pass read.
    pub forward: Inputs<'a, T>,
    /// What it wrote, `[B, H, nq, D]`.
    pub o: CudaView<'a, T>,
    /// The log-sum-exp of each row, `[B, H, nq]`, which it wrote too.
    pub lse: CudaView<'a, f32>,
    /// The gradient of the loss by `o`, with its strides.
    pub d_o: CudaView<'a, T>,
}

/// The device memory that the backward pass writes: the gradients of the loss. Each has the shape
/// and the strides of its tensor.
#[derive(Debug)]
pub struct Gradients<'a, T = f32> {
    /// By `q`.
    pub dq: CudaViewMut<'a, T>,
    /// By `k`.
    pub dk: CudaViewMut<'a, T>,
    /// By `v`.
    pub dv: CudaViewMut<'a, T>,
}

impl<T> BackwardInputs<'_, T> {
    /// Checks everything about the arguments of a mode.
    ///
    /// # Errors
    ///
    /// Those of [`Shape::check`], also for what only the backward pass has; an option that the mode
    /// lacks; of a rung another head dimension than [`Rung::HEAD_DIMS`], or a tensor that does not
    /// begin at a multiple of 16 bytes.
    pub fn check(
        &self,
        checks: &Checks,
        stream: &Arc<CudaStream>,
        gradients: &Gradients<'_, T>,
        shape: &Shape,
        mode: BackwardMode,
    ) -> Result<(), Error> {
        let (queries, keys) = (shape.queries(), shape.keys());
        let Gradients { dq, dk, dv } = gradients;
        shape.check_inputs(checks, &self.forward)?;
        checks.input("o", &self.o, queries, shape.o)?;
        checks.input("d_o", &self.d_o, queries, shape.o)?;
        shape.check_rows(checks, "lse", &self.lse)?;
        checks.output("dq", dq, queries, shape.q)?;
        checks.output("dk", dk, keys, shape.k)?;
        checks.output("dv", dv, keys, shape.v)?;
        shape.refuse(checks.operation(), &self.forward, mode.lacks())?;
        match mode {
            BackwardMode::Naive | BackwardMode::Library => Ok(()),
            BackwardMode::Recompute | BackwardMode::Mma => {
                Ok(self.check_rung(checks, stream, gradients, shape.sizes.head_dim)?)
            }
        }
    }

    fn check_rung(
        &self,
        checks: &Checks,
        stream: &Arc<CudaStream>,
        gradients: &Gradients<'_, T>,
        head_dim: usize,
    ) -> Result<(), ArgumentError> {
        if !Rung::HEAD_DIMS.contains(&head_dim) {
            let expected = format!("one of {:?}", Rung::HEAD_DIMS);
            return Err(checks.error("head_dim", expected, head_dim));
        }
        let inputs = [
            ("q", &self.forward.q),
            ("k", &self.forward.k),
            ("v", &self.forward.v),
            ("d_o", &self.d_o),
        ];
        let Gradients { dq, dk, dv } = gradients;
        let inputs = inputs.map(|(name, view)| (name, view.device_ptr(stream).0));
        let outputs = [("dq", dq), ("dk", dk), ("dv", dv)];
        let outputs = outputs.map(|(name, view)| (name, view.device_ptr(stream).0));
        check_aligned(checks, inputs.into_iter().chain(outputs))
    }
}
