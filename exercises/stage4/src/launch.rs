//! Task `flash`: the tile and the launch of `kernels/flash.cu`.

#![allow(unused)] // remove this line when nothing is left to do

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;
use stage4_flash_cuda::{Error, Inputs, Outputs, Shape};

use crate::Tile;

/// The tile for a head dimension of [`HEAD_DIMS`](crate::HEAD_DIMS).
///
/// The kernel's shared arrays must fit: 48 KiB is the most for arrays of fixed size.
pub fn tile(head_dim: usize) -> Tile {
    // TODO, task 4/flash: does this fit your kernel, and every head dimension?
    Tile {
        block_q: 16,
        block_kv: 32,
        threads: 128,
    }
}

/// Launches `flash` on `stream`, and does not wait. All arguments have been
/// checked, and `o` is not empty.
///
/// The parameters of the kernel, in order: q, k, v, o, lse (a null pointer if it is not wanted),
/// nq, nk, scale, causal. Sizes are `i32`, causal is 0 or 1.
pub fn launch(
    stream: &Arc<CudaStream>,
    flash: &CudaFunction,
    tile: Tile,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    // `inputs.q`, `inputs.k`, `inputs.v` and `outputs.o` are views of tensors, and `outputs.lse` is
    // an `Option` of one: write `mut outputs` above. `shape.sizes` has `batch`, `heads`, `nq`, `nk`
    // and `head_dim`. A `LaunchConfig`; `let mut builder = stream.launch_builder(flash)` with
    // `builder.arg(&inputs.q)`, `builder.arg(&mut outputs.o)`, and so on, in order;
    // `builder.optional(outputs.lse.as_mut())`, which passes null for `None`; `shape.scale()` for
    // the scale and `shape.causal as i32` for causal, each in a variable of its own; `unsafe {
    // builder.launch(config) }?`.
    todo!("TODO, task 4/flash: the launch")
}
