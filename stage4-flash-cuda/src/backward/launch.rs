//! The launches of the backward pass.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;

use super::{BackwardInputs, Gradients};
use crate::library::Problem;
use crate::{Error, Inputs, Shape};

/// Launches the kernels of a rung one after the other, and does not wait. The arguments have been
/// checked; `T` is the type of the kernels' tensors.
pub(super) fn launch_rung<T>(
    stream: &Arc<CudaStream>,
    [row_dots, dk_dv, only_dq]: &[CudaFunction; 3],
    [of_rows, of_keys, of_queries]: [LaunchConfig; 3],
    inputs: &BackwardInputs<'_, T>,
    gradients: Gradients<'_, T>,
    shape: &Shape,
) -> Result<(), Error> {
    let BackwardInputs {
        forward,
        o,
        lse,
        d_o,
    } = inputs;
    let Inputs { q, k, v, .. } = forward;
    let Gradients {
        mut dq,
        mut dk,
        mut dv,
    } = gradients;
    let rows = shape.sizes.batch * shape.sizes.heads * shape.sizes.nq;
    // SAFETY: `row_dots` writes every element before another kernel reads one.
    let mut delta = unsafe { stream.alloc::<f32>(rows.max(1)) }?;
    let rows = rows as i64;
    let columns = shape.sizes.head_dim as i32;
    let (nq, nk) = (shape.sizes.nq as i32, shape.sizes.nk as i32);
    let scale = shape.scale();
    let causal = i32::from(shape.causal);
    if of_rows.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(row_dots);
        builder.arg(d_o).arg(o).arg(&mut delta).arg(&rows);
        builder.arg(&columns);
        // SAFETY: these are the kernel's parameters, in order, and `T` is the type of its elements.
        // Every element that its rows and columns name lies inside the views; a warp writes a
        // number of its own.
        unsafe { builder.launch(of_rows) }?;
    }
    if of_keys.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(dk_dv);
        builder.arg(q).arg(k).arg(v).arg(d_o).arg(lse).arg(&delta);
        builder.arg(&mut dk).arg(&mut dv);
        builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
        // SAFETY: these are the kernel's parameters, in order. Every element that the sizes name
        // lies inside the views; a block writes rows of its own.
        unsafe { builder.launch(of_keys) }?;
    }
    if of_queries.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(only_dq);
        builder.arg(q).arg(k).arg(v).arg(d_o).arg(lse).arg(&delta);
        builder.arg(&mut dq);
        builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
        // SAFETY: as before.
        unsafe { builder.launch(of_queries) }?;
    }
    Ok(())
}

/// The sums of dq that blocks of keys add to.
pub(super) struct Sums {
    /// Floats of a row.
    pub columns: usize,
    /// Tiles of queries of all matrices, at each of which blocks take turns.
    pub tiles: usize,
}

/// Launches the library's kernels one after the other, and does not wait. The arguments have been
/// checked; `T` is the type of the kernels' tensors.
pub(super) fn launch_library<T>(
    stream: &Arc<CudaStream>,
    [row_dots, gradients_of_keys, only_dq]: &[CudaFunction; 3],
    [of_rows, of_keys, of_queries]: [LaunchConfig; 3],
    inputs: &BackwardInputs<'_, T>,
    gradients: Gradients<'_, T>,
    shape: &Shape,
    sums: Sums,
) -> Result<(), Error> {
    let BackwardInputs {
        forward,
        o,
        lse,
        d_o,
    } = inputs;
    let Inputs { q, k, v, .. } = forward;
    let Gradients {
        mut dq,
        mut dk,
        mut dv,
    } = gradients;
    let problem = Problem::new(shape, forward);
    let rows = shape.sizes.batch * shape.sizes.heads * shape.sizes.nq;
    // SAFETY: `row_dots` writes every element before another kernel reads one.
    let mut delta = unsafe { stream.alloc::<f32>(rows.max(1)) }?;
    let mut dq_sums = stream.alloc_zeros::<f32>((rows * sums.columns).max(1))?;
    let mut turns = stream.alloc_zeros::<u32>(1 + sums.tiles)?;
    let rows = rows as i64;
    let columns = sums.columns as i64;
    if of_rows.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(row_dots);
        builder.arg(d_o).arg(o).arg(&mut delta).arg(&rows);
        builder.arg(&problem);
        // SAFETY: these are the kernel's parameters, in order, and `T` is the type of its elements.
        // Every element that sizes and strides name lies inside the views; a warp writes a number
        // of its own.
        unsafe { builder.launch(of_rows) }?;
    }
    if of_keys.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(gradients_of_keys);
        builder.arg(q).arg(k).arg(v).arg(d_o).arg(lse).arg(&delta);
        builder.arg(&mut dk).arg(&mut dv);
        builder.arg(&mut dq_sums).arg(&mut turns);
        builder.optional(forward.mask.as_ref().map(|mask| &mask.values));
        builder.optional(forward.key_lengths.as_ref());
        builder.optional(forward.blocks.as_ref().map(|blocks| &blocks.values));
        builder.arg(&problem);
        // SAFETY: these are the kernel's parameters, in order. Every element that sizes and strides
        // name lies inside the views; an argument that is null is not touched; a block writes rows
        // of its own, and adds to sums in its turn. Sums and turns are zeros, and have the size
        // that the kernel's constants ask for.
        unsafe { builder.launch(of_keys) }?;
    }
    if of_queries.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(only_dq);
        builder.arg(&dq_sums).arg(&mut dq).arg(&rows).arg(&columns);
        builder.arg(&problem);
        // SAFETY: as for the first; a warp writes a row of its own.
        unsafe { builder.launch(of_queries) }?;
    }
    Ok(())
}
