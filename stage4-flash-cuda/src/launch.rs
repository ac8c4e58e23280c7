//! What the kernels take, and the launch.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg};
use stage1_reference::Options;
use stage2_naive_cuda::Strides;

use crate::{Error, Inputs, Outputs, Shape, Variant};

/// The null device pointer, for an argument that is left out.
pub(crate) const NULL: u64 = 0;

/// `struct Problem` of `kernels/problem.cuh`.
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
    pub(crate) nk: i32,
    head_dim: i32,
    first_diagonal: i32,
    last_diagonal: i32,
    scale: f32,
}

// SAFETY: integers of 64 and 32 bits and a float in C layout, the same as `struct Problem` in the kernels.
unsafe impl DeviceRepr for Problem {}

impl Problem {
    /// Sizes must have been checked to be at most 2³⁰.
    pub(crate) fn new(shape: &Shape, inputs: &Inputs<'_>) -> Result<Self, Error> {
        let sizes = shape.sizes;
        let mut band = Options::default();
        band.causal = shape.causal;
        band.window = shape.window;
        let diagonals = band.combined("attention", &sizes)?.diagonals();
        Ok(Self {
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
            first_diagonal: *diagonals.start() as i32,
            last_diagonal: *diagonals.end() as i32,
            scale: shape.scale.unwrap_or(sizes.default_scale()),
        })
    }
}

/// Launches a fused kernel on a problem that has been checked, with `blocks` blocks.
pub(crate) fn launch(
    stream: &Arc<CudaStream>,
    function: &CudaFunction,
    variant: &Variant,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
    blocks: u32,
) -> Result<(), Error> {
    let problem = Problem::new(shape, &inputs)?;
    let Outputs { mut o, mut lse } = outputs;
    let config = LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (variant.tile.threads as u32, 1, 1),
        shared_mem_bytes: variant.dynamic_bytes() as u32,
    };
    let mut launch = stream.launch_builder(function);
    launch.arg(&inputs.q).arg(&inputs.k).arg(&inputs.v);
    match &inputs.mask {
        Some(mask) => launch.arg(&mask.values),
        None => launch.arg(&NULL),
    };
    match &inputs.key_lengths {
        Some(lengths) => launch.arg(lengths),
        None => launch.arg(&NULL),
    };
    match &inputs.blocks {
        Some(blocks) => launch.arg(&blocks.bits),
        None => launch.arg(&NULL),
    };
    launch.arg(&mut o);
    match &mut lse {
        Some(lse) => launch.arg(lse),
        None => launch.arg(&NULL),
    };
    launch.arg(&problem);
    // SAFETY: these are the parameters of the fused kernels, in order. The caller found every element that the problem
    // names inside the views; an argument that is null is not touched; every block writes rows of its own.
    unsafe { launch.launch(config) }?;
    Ok(())
}
