//! Launch of `update_cache`.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use stage5_decode::{CacheViewMut, Error, NewTokens, PerSequence};

/// Warps of a block, each of which moves a row.
const WARPS: usize = 4;

/// Appends new rows of keys and values to the cache: launches, and does not wait. All arguments
/// have been checked, and there is at least one row.
pub fn launch(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    mut cache: CacheViewMut<'_>,
    counts: PerSequence<'_>,
    new: NewTokens<'_>,
) -> Result<(), Error> {
    let shape = cache.shape;
    let rows = shape.batch * shape.kv_heads * new.n;
    let sizes = [shape.kv_heads, new.n, shape.max_seq, shape.head_dim, rows];
    let [kv_heads, n, max_seq, head_dim, rows_arg] = sizes.map(|size| size as i32);
    let mut builder = stream.launch_builder(kernel);
    builder.arg(&new.k).arg(&new.v);
    builder.arg(&mut cache.k).arg(&mut cache.v);
    builder.arg(&cache.lengths.device).arg(&counts.device);
    builder.arg(&kv_heads).arg(&n).arg(&max_seq);
    builder.arg(&head_dim).arg(&rows_arg);
    let config = LaunchConfig {
        grid_dim: (rows.div_ceil(WARPS) as u32, 1, 1),
        block_dim: (32 * WARPS as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: these are the parameters of `update_cache`, in order. New rows lie inside their views
    // and, because lengths were checked, inside the cache; each warp writes a row of its own.
    unsafe { builder.launch(config) }?;
    Ok(())
}
