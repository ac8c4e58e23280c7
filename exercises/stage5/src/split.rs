//! Task `split` (1 point, a bonus): the launches of `kernels/split.cu` and `kernels/combine.cu`.

#![allow(unused)] // remove this line when nothing is left to do

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;
use stage5_decode::{Error, Inputs, Outputs, Shape};

/// Attention on a cache as in task `decode`, but with the keys of each sequence split into
/// parts: a block for each query and part, so that a long sequence keeps the whole device
/// busy. Launches `split`, which attends to the keys of a part, and then `combine`, which
/// merges the parts by their log-sum-exp. Does not wait. All arguments have been checked, and
/// there is at least one query.
///
/// The number of splits is yours. A device has `stream.context().attribute(…)` SMs; the longest
/// sequence is in `inputs.cache.lengths.host`. Memory for the parts: `stream.alloc_zeros`.
pub fn launch(
    stream: &Arc<CudaStream>,
    split: &CudaFunction,
    combine: &CudaFunction,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    // The number of splits; memory for o and lse of each part; two launches.
    todo!("TODO, task split: the launches")
}
