//! Task `attention` (1 point): `kernels/scale_and_mask.cu` with its launch, and attention made of
//! the four steps.

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

    if blocks == 0 || nk == 0 {
        return Ok(());
    }
    let config = LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    };
    let causal = i32::from(causal);
    let kernel = own.kernel("scale_and_mask", &[])?;
    let mut launch = own.stream.launch_builder(&kernel);
    launch.arg(&mut scores).arg(&nq_arg).arg(&nk_arg);
    launch.arg(&scale).arg(&causal);
    // SAFETY: these are the parameters of `scale_and_mask`, in order. It touches only the elements
    // that the checks above found inside the view, and every block a row of `scores` of its own.
    unsafe { launch.launch(config) }?;
    Ok(())
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
    let Attention {
        batch,
        nq,
        nk,
        head_dim,
        scale,
        causal,
    } = shape;
    // A driver allocates no 0 bytes, and without keys there are no scores.
    // SAFETY: the first product writes every score before the next step reads it.
    let mut scores = unsafe { own.stream.alloc::<f32>((batch * nq * nk).max(1)) }?;
    let q_by_k = Gemm {
        product: Product::Nt,
        batch,
        m: nq,
        n: nk,
        k: head_dim,
    };
    let steps = own.steps();
    steps.run(Call::Gemm {
        a: q,
        b: k,
        c: scores.as_view_mut(),
        shape: q_by_k,
    })?;
    let masking = ScaleAndMask {
        batch,
        nq,
        nk,
        scale,
        causal,
    };
    scale_and_mask(own, scores.as_view_mut(), masking)?;
    steps.run(Call::Softmax {
        x: scores.as_view_mut(),
        lse,
        shape: Softmax {
            rows: batch * nq,
            columns: nk,
        },
    })?;
    steps.run(Call::Gemm {
        a: scores.as_view(),
        b: v,
        c: o,
        shape: Gemm {
            product: Product::Nn,
            n: head_dim,
            k: nk,
            ..q_by_k
        },
    })
}
