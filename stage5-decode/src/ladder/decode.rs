//! Launch of `decode`: a block for each query walks the cache.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;
use stage5_decode::{Error, Inputs, Outputs, Shape};

/// Attention of the last `nq` tokens of each sequence on its cache: launches, and does not wait.
/// All arguments have been checked, and there is at least one query.
pub fn launch(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    let cache = &inputs.cache;
    let Outputs { mut o, mut lse } = outputs;
    let sizes = [
        shape.heads,
        shape.heads / cache.shape.kv_heads,
        shape.nq,
        cache.shape.max_seq,
        cache.shape.head_dim,
    ];
    let [heads, group, nq, max_seq, head_dim] = sizes.map(|size| size as i32);
    let scale = shape.scale(cache.shape.head_dim);
    let mut builder = stream.launch_builder(kernel);
    builder.arg(&inputs.q).arg(&cache.k).arg(&cache.v);
    builder.arg(&cache.lengths.device);
    builder.arg(&mut o).optional(lse.as_mut());
    builder.arg(&heads).arg(&group).arg(&nq).arg(&max_seq);
    builder.arg(&head_dim).arg(&scale);
    let config = LaunchConfig {
        grid_dim: ((cache.shape.batch * shape.heads * shape.nq) as u32, 1, 1),
        block_dim: (128, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: these are the parameters of `decode`, in order. The tensors lie inside the views, and
    // rows below the lengths inside the cache; `lse` is not touched if it is null; every block
    // writes a row of its own.
    unsafe { builder.launch(config) }?;
    Ok(())
}
