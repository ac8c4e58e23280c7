//! Task `attention` (1 point): `kernels/scale_and_mask.cu` with its launch, and attention made of the four steps.

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

    if blocks == 0 || nk == 0 {
        return Ok(());
    }
    let config = LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    };
    let strides = (mask.as_ref()).map_or(Strides::default(), |mask| mask.strides);
    let causal = i32::from(causal);
    let kernel = own.kernel("scale_and_mask")?;
    let mut launch = own.stream.launch_builder(&kernel);
    launch.arg(&mut scores);
    launch.optional(mask.as_ref().map(|mask| &mask.values));
    launch.arg(&strides).arg(&heads_arg);
    launch.arg(&nq_arg).arg(&nk_arg).arg(&scale).arg(&causal);
    // SAFETY: these are the parameters of `scale_and_mask`, in order. It touches only the elements that the checks above
    // found inside the views, `mask` only if it is not null, and every block a row of `scores` of its own.
    unsafe { launch.launch(config) }?;
    Ok(())
}

/// `o = softmax(scale · q kᵀ + mask) v`: `q` and `o` are `[B, H, nq, D]`, `k` and `v` are `[B, H_kv, nk, D]`, `lse`, where
/// given, is `[B, H, nq]`. A row that sees no key gets `o = 0` and `lse = −inf`. All arguments have been checked.
pub fn attention(
    own: &Own,
    inputs: AttentionInputs<'_>,
    outputs: AttentionOutputs<'_>,
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
    if batch * heads * nq == 0 {
        return Ok(());
    }
    let AttentionInputs { q, k, v, mask } = inputs;
    let AttentionOutputs { o, lse } = outputs;
    // A driver allocates no 0 bytes, and without keys there are no scores.
    // SAFETY: the first product writes every score before the next step reads it.
    let mut scores = unsafe {
        own.stream
            .alloc::<f32>((batch * heads * nq * nk).max(1))
    }?;
    let packed = Strides::packed(heads, nq, nk);
    let q_by_k = Gemm {
        batch,
        heads,
        b_heads: kv_heads,
        a: shape.q,
        b: shape.k,
        c: packed,
        ..Gemm::nt(nq, nk, head_dim)
    };
    let steps = own.steps();
    steps.gemm_nt(q, k, scores.as_view_mut(), &q_by_k)?;
    let masking = ScaleAndMask {
        batch,
        heads,
        nq,
        nk,
        scale: shape.scale.unwrap_or(shape.sizes.default_scale()),
        causal: shape.causal,
    };
    scale_and_mask(own, scores.as_view_mut(), mask, &masking)?;
    let by_row = Softmax {
        batch: batch * heads,
        rows: nq,
        columns: nk,
        axis: Axis::Last,
    };
    steps.softmax(scores.as_view_mut(), lse, &by_row)?;
    let p_by_v = Gemm {
        n: head_dim,
        k: nk,
        a: packed,
        b: shape.v,
        c: shape.o,
        ..q_by_k
    };
    steps.gemm_nn(scores.as_view(), v, o, &p_by_v)
}
