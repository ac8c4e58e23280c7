use cudarc::driver::DeviceRepr;
use gpu::arguments::Strides;
use stage2_naive_cuda::DropoutArgument;

use crate::{Inputs, Shape};

// ANCHOR: problem
/// `struct Problem` of `kernels/library/problem.cuh`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub(crate) struct Problem {
    q: Strides,
    k: Strides,
    v: Strides,
    o: Strides,
    mask: Strides,
    blocks: Strides,
    heads: i32,
    group: i32,
    nq: i32,
    nk: i32,
    head_dim: i32,
    first_diagonal: i32,
    last_diagonal: i32,
    scale: f32,
    /// Of the kernels that are compiled for it; the others take what is before it.
    dropout: DropoutArgument,
}
// ANCHOR_END: problem

// SAFETY: integers of 64 and 32 bits and a float in C layout, the same as
// `struct Problem` in the kernel.
unsafe impl DeviceRepr for Problem {}

impl Problem {
    /// The problem as the kernels take it. Its sizes have been checked: they fit 32 bits.
    pub(crate) fn new<T>(shape: &Shape, inputs: &Inputs<'_, T>) -> Self {
        let sizes = shape.sizes;
        let (first, last) = sizes.diagonals(shape.causal, shape.window);
        Self {
            q: shape.q,
            k: shape.k,
            v: shape.v,
            o: shape.o,
            mask: (inputs.mask.as_ref()).map_or(Strides::default(), |mask| mask.strides),
            blocks: (inputs.blocks.as_ref()).map_or(Strides::default(), |blocks| blocks.strides),
            heads: sizes.heads as i32,
            group: sizes.group() as i32,
            nq: sizes.nq as i32,
            nk: sizes.nk as i32,
            head_dim: sizes.head_dim as i32,
            first_diagonal: first as i32,
            last_diagonal: last as i32,
            scale: shape.scale(),
            dropout: shape.dropout.map(Into::into).unwrap_or_default(),
        }
    }
}
