//! Task `decode` (3 points in 3 steps): the launch of `kernels/decode.cu`.

#![allow(unused)] // remove this line when nothing is left to do

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;
use stage5_decode::{Error, Inputs, Outputs, Shape};

/// Attention of the last `nq` tokens of each sequence on its cache: launches, and does not wait.
/// All arguments have been checked, and there is at least one query.
///
/// - `inputs.q`, `outputs.o`: `[B, H, nq, D]`, packed; `shape.heads` is H, `shape.nq` is
///   nq, 1 in a decoding step
/// - `inputs.cache.k`, `inputs.cache.v`: `[B, H_kv, max_seq, D]`;
///   `inputs.cache.shape` has the sizes. Each begins at a multiple of 4 bytes, not of 16
/// - `inputs.cache.lengths.device`: `[B]` `i32`, tokens of each sequence
/// - `outputs.lse`: `[B, H, nq]`, if it is wanted
/// - the scale: `shape.scale(head_dim)`
pub fn launch(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    // As in update_cache.rs; lse is `optional(lse.as_mut())`.
    todo!("TODO, task decode: the launch")
}
