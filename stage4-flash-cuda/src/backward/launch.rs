//! The launches of the backward pass, which are the same for rungs and library.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchArgs, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;

use super::{BackwardInputs, Gradients};
use crate::library::Problem;
use crate::{Error, Inputs, Shape};

/// The parameters of a kernel behind its tensors.
#[derive(Debug)]
pub(super) enum Rest {
    /// Of a rung.
    Packed {
        columns: i32,
        nq: i32,
        nk: i32,
        scale: f32,
        causal: i32,
    },
    /// Of the library.
    Any(Problem),
}

impl Rest {
    pub(super) fn packed(shape: &Shape) -> Self {
        Self::Packed {
            columns: shape.sizes.head_dim as i32,
            nq: shape.sizes.nq as i32,
            nk: shape.sizes.nk as i32,
            scale: shape.scale(),
            causal: shape.causal.into(),
        }
    }

    /// Those of the kernel that computes delta.
    fn of_rows<'a>(&'a self, builder: &mut LaunchArgs<'a>) {
        match self {
            Self::Packed { columns, .. } => builder.arg(columns),
            Self::Any(problem) => builder.arg(problem),
        };
    }

    /// Those of the others.
    fn of_tiles<'a, T>(&'a self, forward: &'a Inputs<'_, T>, builder: &mut LaunchArgs<'a>) {
        match self {
            Self::Packed {
                nq,
                nk,
                scale,
                causal,
                ..
            } => builder.arg(nq).arg(nk).arg(scale).arg(causal),
            Self::Any(problem) => {
                builder.optional(forward.mask.as_ref().map(|mask| &mask.values));
                builder.optional(forward.key_lengths.as_ref());
                builder.optional(forward.blocks.as_ref().map(|blocks| &blocks.values));
                builder.arg(problem)
            }
        };
    }
}

/// Launches the kernels one after the other, and does not wait. The arguments have been checked;
/// `T` is the type of the kernels' tensors.
pub(super) fn launch<T>(
    stream: &Arc<CudaStream>,
    [row_dots, dk_dv, only_dq]: &[CudaFunction; 3],
    [of_rows, of_keys, of_queries]: [LaunchConfig; 3],
    inputs: &BackwardInputs<'_, T>,
    gradients: Gradients<'_, T>,
    rest: &Rest,
    rows: usize,
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
    // SAFETY: `row_dots` writes every element before another kernel reads one.
    let mut delta = unsafe { stream.alloc::<f32>(rows.max(1)) }?;
    let rows = rows as i64;
    if of_rows.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(row_dots);
        builder.arg(d_o).arg(o).arg(&mut delta).arg(&rows);
        rest.of_rows(&mut builder);
        // SAFETY: these are the kernel's parameters, in order, and `T` is the type of its elements.
        // Every element that its rows and columns name lies inside the views; a warp writes a
        // number of its own.
        unsafe { builder.launch(of_rows) }?;
    }
    if of_keys.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(dk_dv);
        builder.arg(q).arg(k).arg(v).arg(d_o).arg(lse).arg(&delta);
        builder.arg(&mut dk).arg(&mut dv);
        rest.of_tiles(forward, &mut builder);
        // SAFETY: these are the kernel's parameters, in order. Every element that sizes and strides
        // name lies inside the views; an argument that is null is not touched; a block writes rows
        // of its own.
        unsafe { builder.launch(of_keys) }?;
    }
    if of_queries.grid_dim.0 > 0 {
        let mut builder = stream.launch_builder(only_dq);
        builder.arg(q).arg(k).arg(v).arg(d_o).arg(lse).arg(&delta);
        builder.arg(&mut dq);
        rest.of_tiles(forward, &mut builder);
        // SAFETY: as before.
        unsafe { builder.launch(of_queries) }?;
    }
    Ok(())
}
