use std::error;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use ndarray::ArrayView4;
use stage1_reference::{Attend, Options, Output};

use crate::{
    Attention, Backward, BackwardInputs, BackwardMode, Error, Gradients, Half, Inputs, Mode,
    Outputs, Rung, Shape,
};

/// An implementation of attention in device memory, with options; q, k, v and o are tensors of `T`.
/// The suite of `conformance` judges anything that has it: this crate's [`Stage4`], in f32 and in
/// [half precision](Half), and an exercise's.
pub trait Fused<T = f32> {
    /// Why arguments were refused, or a launch failed.
    type Error: error::Error + 'static;

    /// Computes what [`Attention::forward`] or [`Attention::forward_half`] does. Launches, and does
    /// not wait. Checks its arguments first, and launches nothing if one does not fit.
    ///
    /// # Errors
    ///
    /// Those of [`Attention::forward`].
    fn forward(
        &self,
        inputs: Inputs<'_, T>,
        outputs: Outputs<'_, T>,
        shape: &Shape,
    ) -> Result<(), Self::Error>;

    /// True if it can have this head dimension.
    fn has_head_dim(&self, head_dim: usize) -> bool;

    /// The argument that an error names, such as `k`; `heads` if those of two
    /// arguments do not divide.
    fn argument_of(error: &Self::Error) -> Option<&str>
    where
        Self: Sized;
}

/// An implementation of the backward pass in device memory, of tensors of `T`. The suite of
/// `conformance` judges anything that has it: this crate's [`Stage4Backward`], in f32 and half
/// precision, and an exercise's.
pub trait FusedBackward<T = f32> {
    /// Why arguments were refused, or a launch failed.
    type Error: error::Error + 'static;

    /// Computes what [`Backward::backward`] or [`Backward::backward_half`] does. Launches, and does
    /// not wait. Checks its arguments first, and launches nothing if one does not fit.
    ///
    /// # Errors
    ///
    /// Those of [`Backward::backward`].
    fn backward(
        &self,
        inputs: BackwardInputs<'_, T>,
        gradients: Gradients<'_, T>,
        shape: &Shape,
    ) -> Result<(), Self::Error>;

    /// True if it can have this head dimension.
    fn has_head_dim(&self, head_dim: usize) -> bool;

    /// As [`Fused::argument_of`].
    fn argument_of(error: &Self::Error) -> Option<&str>
    where
        Self: Sized;
}

/// This stage's own implementation, on one stream.
#[derive(Debug)]
pub struct Stage4 {
    /// The stream.
    pub stream: Arc<CudaStream>,
    /// The kernels.
    pub attention: Attention,
}

impl Fused for Stage4 {
    type Error = Error;

    fn forward(
        &self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        self.attention.forward(&self.stream, inputs, outputs, shape)
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        match self.attention.mode() {
            Mode::Rung(rung) => rung.head_dims().contains(&head_dim),
            Mode::Naive | Mode::Tiled | Mode::Library | Mode::Padded => true,
        }
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

impl<T: Half> Fused<T> for Stage4 {
    type Error = Error;

    fn forward(
        &self,
        inputs: Inputs<'_, T>,
        outputs: Outputs<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let stream = &self.stream;
        self.attention.forward_half(stream, inputs, outputs, shape)
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        <Self as Fused>::has_head_dim(self, head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

impl Attend for Stage4 {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        self.attention.forward_host(&self.stream, q, k, v, options)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        <Self as Fused>::argument_of(error)
    }
}

/// This stage's own backward pass, on one stream.
#[derive(Debug)]
pub struct Stage4Backward {
    /// The stream.
    pub stream: Arc<CudaStream>,
    /// The kernels.
    pub backward: Backward,
}

impl FusedBackward for Stage4Backward {
    type Error = Error;

    fn backward(
        &self,
        inputs: BackwardInputs<'_>,
        gradients: Gradients<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        self.backward
            .backward(&self.stream, inputs, gradients, shape)
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        match self.backward.mode() {
            BackwardMode::Recompute | BackwardMode::Mma => Rung::HEAD_DIMS.contains(&head_dim),
            BackwardMode::Naive | BackwardMode::Library => true,
        }
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

impl<T: Half> FusedBackward<T> for Stage4Backward {
    type Error = Error;

    fn backward(
        &self,
        inputs: BackwardInputs<'_, T>,
        gradients: Gradients<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        self.backward
            .backward_half(&self.stream, inputs, gradients, shape)
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        <Self as FusedBackward>::has_head_dim(self, head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
