//! Exercise 2: attention as separate CUDA kernels, one per step of the formula (3 points).
//!
//! | task | you write |
//! |---|---|
//! | `softmax` (1) | `kernels/softmax.cu` and its launch in `src/softmax.rs` |
//! | `gemm` (1) | `kernels/gemm_nt_tiled.cu`, `kernels/gemm_nn_tiled.cu` and their launch in `src/gemm.rs` |
//! | `attention` (1) | `kernels/scale_and_mask.cu`, its launch and the order of the steps in `src/attention.rs` |
//!
//! Each can be done alone. `cargo grade 2` judges them, `cargo grade hint softmax` helps. This file is done: it says where a
//! call goes, checks the arguments of attention, and loads kernels.
//!
//! Everything is f32. A call launches on [`Own::stream`] and does not wait. Sizes of 0 are allowed everywhere.

mod attention;
mod gemm;
mod softmax;

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, CudaView, CudaViewMut};
use gpu::arguments::{Checks, Strides};
use stage1_reference::Sizes;
use stage2_naive_cuda::{
    Additive, AttentionInputs, AttentionOutputs, AttentionShape, Error, Gemm, Kernels,
    ScaleAndMask, Softmax, Stage2, Steps, Variant,
};

/// The files of `kernels/`.
static KERNELS: gpu::Bundle = gpu::bundle!();

/// Your implementation.
#[derive(Debug)]
pub struct Own {
    /// All launches go to it.
    pub stream: Arc<CudaStream>,
    /// The solution; `None` with `cargo grade --own`.
    lower: Option<Stage2>,
}

impl Own {
    /// An implementation on this stream, above the solution's kernels or its own.
    pub fn new(stream: &Arc<CudaStream>, lower: Option<Kernels>) -> Self {
        let stream = stream.clone();
        let variant = Variant::Tiled;
        let lower = lower.map(|kernels| Stage2 { kernels, variant });
        Self { stream, lower }
    }

    /// Softmax and the products that `attention` is made of: the solution's, or yours with `cargo grade --own`.
    pub fn steps(&self) -> &dyn Steps<Error = Error> {
        match &self.lower {
            Some(solution) => solution,
            None => self,
        }
    }

    /// The kernel `name` of `kernels/<name>.cu`. It is compiled and loaded once.
    ///
    /// # Errors
    ///
    /// [`Error::Load`], with the compiler's messages if it does not compile.
    pub fn kernel(&self, name: &str) -> Result<CudaFunction, Error> {
        let module = KERNELS.load(self.stream.context(), &format!("{name}.cu"), &[])?;
        Ok(module.load_function(name)?)
    }

    /// The checks of an operation, whose errors name the argument that does not fit.
    pub fn checks(&self, operation: &'static str) -> Checks {
        Checks::new(operation, self.stream.context())
    }
}

#[rustfmt::skip]
impl Steps for Own {
    type Error = Error;

    fn softmax(&self, x: CudaViewMut<'_, f32>, lse: Option<CudaViewMut<'_, f32>>, shape: &Softmax) -> Result<(), Error> {
        softmax::softmax(self, x, lse, shape)
    }

    fn gemm_nt(&self, a: CudaView<'_, f32>, b: CudaView<'_, f32>, c: CudaViewMut<'_, f32>, shape: &Gemm) -> Result<(), Error> {
        gemm::gemm(self, gemm::Product::Nt, a, b, c, shape)
    }

    fn gemm_nn(&self, a: CudaView<'_, f32>, b: CudaView<'_, f32>, c: CudaViewMut<'_, f32>, shape: &Gemm) -> Result<(), Error> {
        gemm::gemm(self, gemm::Product::Nn, a, b, c, shape)
    }

    fn scale_and_mask(&self, scores: CudaViewMut<'_, f32>, mask: Option<Additive<'_>>, shape: &ScaleAndMask) -> Result<(), Error> {
        attention::scale_and_mask(self, scores, mask, shape)
    }

    fn attention(&self, inputs: AttentionInputs<'_>, outputs: AttentionOutputs<'_>, shape: &AttentionShape) -> Result<(), Error> {
        check(self, &inputs, &outputs, shape)?;
        attention::attention(self, inputs, outputs, shape)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

/// Refuses arguments of attention that do not fit, by name.
fn check(
    own: &Own,
    inputs: &AttentionInputs<'_>,
    outputs: &AttentionOutputs<'_>,
    shape: &AttentionShape,
) -> Result<(), Error> {
    let Sizes {
        batch,
        heads,
        kv_heads,
        nq,
        nk,
        head_dim,
    } = shape.sizes;
    let rows = batch.saturating_mul(heads).saturating_mul(nq);
    shape.sizes.check("attention")?;
    let checks = own.checks("attention");
    checks.scale(shape.scale.unwrap_or(shape.sizes.default_scale()))?;
    checks.sizes([("batch", batch), ("heads", heads), ("nq", nq), ("nk", nk)])?;
    checks.input("q", &inputs.q, [batch, heads, nq, head_dim], shape.q)?;
    checks.input("k", &inputs.k, [batch, kv_heads, nk, head_dim], shape.k)?;
    checks.input("v", &inputs.v, [batch, kv_heads, nk, head_dim], shape.v)?;
    checks.output("o", &outputs.o, [batch, heads, nq, head_dim], shape.o)?;
    if let Some(mask) = &inputs.mask {
        checks.input("mask", &mask.values, [batch, heads, nq, nk], mask.strides)?;
    }
    if let Some(lse) = &outputs.lse {
        checks.input("lse", lse, [1, 1, 1, rows], Strides::default())?;
    }
    Ok(())
}
