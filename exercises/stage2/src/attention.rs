//! Task `attention` (1 point): `kernels/scale_and_mask.cu` with its launch, and attention made of
//! the four steps.

#![allow(unused)] // remove this line when nothing is left to do

use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};
use stage2_naive_cuda::{Attention, Call, Error, Gemm, Product, ScaleAndMask, Softmax};

use crate::Own;

/// Threads of a block: `THREADS` in `scale_and_mask.cu`.
const THREADS: u32 = 128;

/// `scores = scale · scores`, in place on `[batch, nq, nk]` f32; the scores of keys hidden by the
/// mask become −inf, whatever they are.
pub fn scale_and_mask(
    own: &Own,
    mut scores: CudaViewMut<'_, f32>,
    shape: ScaleAndMask,
) -> Result<(), Error> {
    let ScaleAndMask {
        batch,
        nq,
        nk,
        scale,
        causal,
    } = shape;

    // Arguments that do not fit are refused by name, before anything is launched.
    let checks = own.checks("scale_and_mask");
    let [_, nq_arg, nk_arg] = checks.sizes([("batch", batch), ("nq", nq), ("nk", nk)])?;
    checks.packed("scores", &scores, [batch, nq, nk])?;
    let blocks = checks.grid(batch.saturating_mul(nq))?; // one for each row

    // The kernel's `causal` is an `int`, so its argument is `causal as i32`, and not the `bool`.
    todo!("TODO, task attention: the launch of scale_and_mask")
}

/// `o = softmax(scale · q kᵀ + mask) v`, all packed f32: `q` and `o` are `[batch, nq, D]`, `k` and
/// `v` are `[batch, nk, D]`, `lse` is `[batch, nq]`. A row that sees no key gets `o = 0` and `lse =
/// −inf`. All arguments have been checked.
pub fn attention(
    own: &Own,
    [q, k, v]: [CudaView<'_, f32>; 3],
    o: CudaViewMut<'_, f32>,
    lse: CudaViewMut<'_, f32>,
    shape: Attention,
) -> Result<(), Error> {
    // TODO: the steps need packed scores `[batch, nq, nk]`, on `own.stream`, and nothing more.
    // `own.steps().run(…)` computes a `Call::Gemm` or a `Call::Softmax`, by the solution or by you.
    todo!("TODO, task attention: the four steps")
}
