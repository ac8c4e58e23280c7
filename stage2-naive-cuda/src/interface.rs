use std::error;

use cudarc::driver::{CudaView, CudaViewMut};
use ndarray::ArrayView4;
use stage1_reference::{Attend, Options, Output};

use crate::{
    Additive, AttentionInputs, AttentionOutputs, AttentionShape, Error, Gemm, Kernels,
    ScaleAndMask, Softmax, Variant,
};

/// An implementation of the steps of attention, and of attention itself, in device memory. The suite of `conformance` judges
/// anything that has it: this crate's [`Stage2`], and an exercise's.
///
/// Each method launches and does not wait. It checks its arguments first, and launches nothing if one does not fit.
pub trait Steps {
    /// Why arguments were refused, or a launch failed.
    type Error: error::Error + 'static;

    /// What [`Kernels::softmax`] computes, with its errors.
    fn softmax(
        &self,
        x: CudaViewMut<'_, f32>,
        lse: Option<CudaViewMut<'_, f32>>,
        shape: &Softmax,
    ) -> Result<(), Self::Error>;

    /// What [`Kernels::gemm_nt`] computes, with its errors.
    fn gemm_nt(
        &self,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Self::Error>;

    /// What [`Kernels::gemm_nn`] computes, with its errors.
    fn gemm_nn(
        &self,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Self::Error>;

    /// What [`Kernels::scale_and_mask`] computes, with its errors.
    fn scale_and_mask(
        &self,
        scores: CudaViewMut<'_, f32>,
        mask: Option<Additive<'_>>,
        shape: &ScaleAndMask,
    ) -> Result<(), Self::Error>;

    /// What [`Kernels::attention`] computes, with its errors.
    fn attention(
        &self,
        inputs: AttentionInputs<'_>,
        outputs: AttentionOutputs<'_>,
        shape: &AttentionShape,
    ) -> Result<(), Self::Error>;

    /// The argument that an error names, such as `k`; `heads` if those of two arguments do not divide.
    fn argument_of(error: &Self::Error) -> Option<&str>
    where
        Self: Sized;
}

/// This stage's own implementation.
#[derive(Debug)]
pub struct Stage2 {
    /// The kernels.
    pub kernels: Kernels,
    /// The matrix product.
    pub variant: Variant,
}

impl Steps for Stage2 {
    type Error = Error;

    fn softmax(
        &self,
        x: CudaViewMut<'_, f32>,
        lse: Option<CudaViewMut<'_, f32>>,
        shape: &Softmax,
    ) -> Result<(), Error> {
        self.kernels.softmax(x, lse, shape)
    }

    fn gemm_nt(
        &self,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Error> {
        self.kernels.gemm_nt(self.variant, a, b, c, shape)
    }

    fn gemm_nn(
        &self,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Error> {
        self.kernels.gemm_nn(self.variant, a, b, c, shape)
    }

    fn scale_and_mask(
        &self,
        scores: CudaViewMut<'_, f32>,
        mask: Option<Additive<'_>>,
        shape: &ScaleAndMask,
    ) -> Result<(), Error> {
        self.kernels.scale_and_mask(scores, mask, shape)
    }

    fn attention(
        &self,
        inputs: AttentionInputs<'_>,
        outputs: AttentionOutputs<'_>,
        shape: &AttentionShape,
    ) -> Result<(), Error> {
        self.kernels.attention(self.variant, inputs, outputs, shape)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

impl Attend for Stage2 {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        self.kernels.attention_host(self.variant, q, k, v, options)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        <Self as Steps>::argument_of(error)
    }
}
