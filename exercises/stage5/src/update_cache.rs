//! Task `update_cache` (1 point): the launch of `kernels/update_cache.cu`.

#![allow(unused)] // remove this line when nothing is left to do

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use stage5_decode::{CacheViewMut, Error, NewTokens, PerSequence};

/// Appends new rows of keys and values to the cache: launches, and does not wait. All arguments
/// have been checked, and there is at least one row.
///
/// - `cache.k`, `cache.v`: `[B, H_kv, max_seq, D]`; `cache.shape` has the sizes. They are views of
///   bytes; the kernel takes them as `float*`. Each begins at a multiple of 4 bytes, not of 16.
/// - `cache.lengths.device`: `[B]` `i32`, tokens of each sequence, the new ones included
/// - `counts.device`: `[B]` `i32`, how many of the `n` rows of a sequence are new tokens;
///   the other rows are padding
/// - `new.k`, `new.v`: `[B, H_kv, n, D]`, packed; `new.n` is n
pub fn launch(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    cache: CacheViewMut<'_>,
    counts: PerSequence<'_>,
    new: NewTokens<'_>,
) -> Result<(), Error> {
    // A `LaunchConfig`; `stream.launch_builder(kernel)` with `arg` for each parameter, sizes as
    // i32; `unsafe { builder.launch(config) }?`.
    todo!("TODO, task update_cache: the launch")
}
