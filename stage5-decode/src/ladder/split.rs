//! Launches of `split` and `combine`: a block for each query and part of the keys, then
//! one that merges the parts.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;
use stage5_decode::{Error, Inputs, Outputs, Shape};

/// Keys of a part, at least.
const PART: usize = 64;

/// The most splits: a thread of `combine` has the weight of one.
const MOST: usize = 128;

/// Blocks of one part of every sequence, and the number of parts, the splits.
pub struct Grid {
    /// Blocks of one part.
    pub blocks: usize,
    /// Number of splits.
    pub splits: usize,
}

/// Attention on a cache as in `decode`, but with the keys of each sequence split into parts. All
/// arguments have been checked, and there is at least one query.
pub fn launch(
    stream: &Arc<CudaStream>,
    split: &CudaFunction,
    combine: &CudaFunction,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    let blocks = inputs.cache.shape.batch * shape.heads * shape.nq;
    let sms = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    let sms = usize::try_from(stream.context().attribute(sms)?).unwrap_or(1);
    let longest = inputs.cache.lengths.host.iter().copied().max();
    let splits = splits(blocks, longest.unwrap_or(0), sms);
    let grid = Grid { blocks, splits };
    launch_in(stream, [split, combine], grid, inputs, outputs, shape)
}

/// The same with a grid of the caller's.
pub fn launch_in(
    stream: &Arc<CudaStream>,
    [split, combine]: [&CudaFunction; 2],
    grid: Grid,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    let cache = &inputs.cache;
    let Grid { blocks, splits } = grid;
    let rows = cache.shape.batch * shape.heads * shape.nq;
    // SAFETY: any bits are floats, and `split` writes all of them.
    let mut parts = unsafe { stream.alloc::<f32>(rows * splits * cache.shape.head_dim) }?;
    // SAFETY: as above.
    let mut parts_lse = unsafe { stream.alloc::<f32>(rows * splits) }?;

    let sizes = [
        shape.heads,
        shape.heads / cache.shape.kv_heads,
        shape.nq,
        cache.shape.max_seq,
        cache.shape.head_dim,
        splits,
    ];
    let [heads, group, nq, max_seq, head_dim, splits] = sizes.map(|size| size as i32);
    let scale = shape.scale(cache.shape.head_dim);
    let config = |blocks: usize| LaunchConfig {
        grid_dim: (blocks as u32, 1, 1),
        block_dim: (128, 1, 1),
        shared_mem_bytes: 0,
    };
    let mut builder = stream.launch_builder(split);
    builder.arg(&inputs.q).arg(&cache.k).arg(&cache.v);
    builder.arg(&cache.lengths.device);
    builder.arg(&mut parts).arg(&mut parts_lse);
    builder.arg(&heads).arg(&group).arg(&nq).arg(&max_seq);
    builder.arg(&head_dim).arg(&scale).arg(&splits);
    // SAFETY: these are the parameters of `split`, in order. The tensors lie inside the views, and
    // rows below the lengths inside the cache; every block writes parts of its own.
    unsafe { builder.launch(config(blocks * grid.splits)) }?;

    let Outputs { mut o, mut lse } = outputs;
    let mut builder = stream.launch_builder(combine);
    builder.arg(&parts).arg(&parts_lse);
    builder.arg(&mut o).optional(lse.as_mut());
    builder.arg(&head_dim).arg(&splits);
    // SAFETY: these are the parameters of `combine`, in order. `lse` is not touched if it is null;
    // every block writes a row of its own.
    unsafe { builder.launch(config(rows)) }?;
    Ok(())
}

/// Number of splits that gives each of `sms` SMs 4 blocks, where one part takes `blocks`, but parts
/// of no fewer than 64 keys.
pub fn splits(blocks: usize, longest: usize, sms: usize) -> usize {
    let enough = (4 * sms).div_ceil(blocks.max(1));
    enough.min(longest.div_ceil(PART)).clamp(1, MOST)
}
