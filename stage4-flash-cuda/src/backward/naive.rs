//! The backward pass by stage 2's kernels, with weights and their gradients in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, CudaViewMut, LaunchConfig, PushKernelArg};
use stage2_naive_cuda::{
    Axis, DropoutShape, GemmShape, Kernels, Product, ScaleAndMaskShape, SoftmaxShape,
};

use super::{BackwardInputs, Gradients};
use crate::{Error, Inputs, Shape, Strides};

/// Computes the gradients; o and lse are not needed. Allocates four tensors `[B, H, nq, nk]`.
pub(super) fn run(
    stream: &Arc<CudaStream>,
    softmax_gradient: &CudaFunction,
    config: LaunchConfig,
    inputs: BackwardInputs<'_>,
    gradients: Gradients<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    let s = shape.sizes;
    let (scale, rows) = (shape.scale(), s.batch * s.heads * s.nq);
    let Inputs { q, k, v, mask, .. } = inputs.forward;
    let d_o = inputs.d_o;
    // SAFETY: each is written as a whole before it is read.
    let scores = || unsafe { stream.alloc::<f32>((rows * s.nk).max(1)) };
    let (mut p, mut ds) = (scores()?, scores()?);
    let (mut p_transposed, mut ds_transposed) = (scores()?, scores()?);
    // The modules stay loaded, so this costs a few look-ups.
    let kernels = Kernels::new(stream)?;

    let by_query = Strides::packed(s.heads, s.nq, s.nk);
    let by_key = Strides::packed(s.heads, s.nk, s.nq);
    let scores = |a, b| GemmShape {
        batch: s.batch,
        heads: s.heads,
        b_heads: s.heads,
        a,
        b,
        c: by_query,
        ..GemmShape::nt(s.nq, s.nk, s.head_dim)
    };
    kernels.gemm(
        q.slice(..),
        k.slice(..),
        p.as_view_mut(),
        &scores(shape.q, shape.k),
    )?;
    let masking = ScaleAndMaskShape {
        batch: s.batch,
        heads: s.heads,
        nq: s.nq,
        nk: s.nk,
        scale,
        causal: shape.causal,
    };
    kernels.scale_and_mask(p.as_view_mut(), mask, &masking)?;
    let by_row = SoftmaxShape {
        batch: s.batch * s.heads,
        rows: s.nq,
        columns: s.nk,
        axis: Axis::Last,
    };
    kernels.softmax(p.as_view_mut(), None, &by_row)?;
    kernels.gemm(
        d_o.slice(..),
        v,
        ds.as_view_mut(),
        &scores(shape.o, shape.v),
    )?;
    let drop = |weights: CudaViewMut<'_, f32>, transposed| match shape.dropout {
        None => Ok(()),
        Some(dropout) => {
            let dropping = DropoutShape {
                matrices: s.batch * s.heads,
                nq: s.nq,
                nk: s.nk,
                transposed,
                dropout,
            };
            kernels.dropout(weights, &dropping)
        }
    };
    drop(ds.as_view_mut(), false)?;
    if config.grid_dim.0 > 0 {
        let (rows, nq, nk) = (rows as i64, s.nq as i32, s.nk as i32);
        let mut builder = stream.launch_builder(softmax_gradient);
        builder.arg(&p).arg(&mut ds);
        builder.arg(&mut p_transposed).arg(&mut ds_transposed);
        builder.arg(&rows).arg(&nq).arg(&nk).arg(&scale);
        // SAFETY: these are the kernel's parameters, in order. All its tensors have `rows * nk`
        // elements; a warp writes a row, and a column, of its own.
        unsafe { builder.launch(config) }?;
    }
    drop(p_transposed.as_view_mut(), true)?;
    let sums = |m, k, a, b, c| GemmShape {
        product: Product::Nn,
        m,
        n: s.head_dim,
        k,
        a,
        b,
        c,
        ..scores(a, b)
    };
    let Gradients { dq, dk, dv } = gradients;
    let by_queries = sums(s.nq, s.nk, by_query, shape.k, shape.q);
    kernels.gemm(ds.as_view(), k, dq, &by_queries)?;
    let by_keys = |b, c| sums(s.nk, s.nq, by_key, b, c);
    kernels.gemm(ds_transposed.as_view(), q, dk, &by_keys(shape.q, shape.k))?;
    kernels.gemm(p_transposed.as_view(), d_o, dv, &by_keys(shape.o, shape.v))?;
    Ok(())
}
