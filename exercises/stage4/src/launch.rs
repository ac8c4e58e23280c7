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
    // A `LaunchConfig`; `stream.launch_builder(flash)` with `arg` for each parameter,
    // `optional(lse.as_mut())` for lse and `shape.scale()` for the scale;
    // `unsafe { builder.launch(config) }?`.
    todo!("TODO, task 4/flash: the launch")
}
