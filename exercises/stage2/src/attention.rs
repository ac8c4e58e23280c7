//! Task `attention` (1 point): `kernels/scale_and_mask.cu` with its launch, and attention made of the four steps.

#![allow(unused)] // remove this line when nothing is left to do

use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};
use gpu::arguments::{OptionalArg, Strides};
use stage1_reference::Sizes;
use stage2_naive_cuda::{
    Additive, AttentionInputs, AttentionOutputs, AttentionShape, Axis, Error, Gemm, ScaleAndMask,
    Softmax, Steps,
};

use crate::Own;

/// Threads of a block: `THREADS` in `scale_and_mask.cu`.
const THREADS: u32 = 128;

/// `scores = scale · scores + mask`, in place on packed `[batch, heads, nq, nk]` f32 scores; causal keys become −inf.
pub fn scale_and_mask(
    own: &Own,
    mut scores: CudaViewMut<'_, f32>,
    mask: Option<Additive<'_>>,
    shape: &ScaleAndMask,
) -> Result<(), Error> {
    let ScaleAndMask {
        batch,
        heads,
        nq,
        nk,
        scale,
        causal,
    } = *shape;

    // What does not fit is refused by name, before anything is launched.
    let checks = own.checks("scale_and_mask");
    let sizes = [("batch", batch), ("heads", heads), ("nq", nq), ("nk", nk)];
    let [_, heads_arg, nq_arg, nk_arg] = checks.sizes(sizes)?;
    let all = [batch, heads, nq, nk];
    checks.input("scores", &scores, all, Strides::packed(heads, nq, nk))?;
    if let Some(mask) = &mask {
        checks.input("mask", &mask.values, all, mask.strides)?;
    }
    let blocks = checks.grid(batch.saturating_mul(heads).saturating_mul(nq))?; // one for each row

    // Without a mask the kernel gets a null pointer, by `launch.optional(…)`, and `Strides::default()`.
    todo!("TODO, task attention: the launch of scale_and_mask")
}

/// `o = softmax(scale · q kᵀ + mask) v`: `q` and `o` are `[B, H, nq, D]`, `k` and `v` are `[B, H_kv, nk, D]`, `lse`, where
/// given, is `[B, H, nq]`. A row that sees no key gets `o = 0` and `lse = −inf`. All arguments have been checked.
pub fn attention(
    own: &Own,
    inputs: AttentionInputs<'_>,
    outputs: AttentionOutputs<'_>,
    shape: &AttentionShape,
) -> Result<(), Error> {
    // TODO: the steps need packed scores `[B, H, nq, nk]`, on `own.stream`, and nothing more; where there are none to
    // compute, nothing is launched. `own.steps()` has `gemm_nt`, `softmax` and `gemm_nn`, the solution's or yours.
    todo!("TODO, task attention: the four steps")
}
