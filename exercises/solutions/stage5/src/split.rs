//! Task `split` (1 point, a bonus): the launches of `kernels/split.cu` and `kernels/combine.cu`.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;
use stage5_decode::{Error, Inputs, Outputs, Shape};

/// Fewer keys are not worth a part of their own.
const PART: usize = 64;

/// The most parts: a thread of `combine` has the weight of one.
const MOST: usize = 128;

/// Attention on a cache as in task `decode`, but with the keys of each sequence split into parts. All arguments have been
/// checked, and there is at least one query.
pub fn launch(
    stream: &Arc<CudaStream>,
    split: &CudaFunction,
    combine: &CudaFunction,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    let cache = &inputs.cache;
    let of_cache = cache.shape;
    let rows = of_cache.batch * shape.heads * shape.nq;
    let splits = parts(stream, rows, cache.lengths.host)?;
    let mut parts = stream.alloc_zeros::<f32>(rows * splits * of_cache.head_dim)?;
    let mut parts_lse = stream.alloc_zeros::<f32>(rows * splits)?;

    let group = shape.heads / of_cache.kv_heads;
    let sizes = [shape.heads, group, shape.nq, of_cache.max_seq, of_cache.head_dim, splits];
    let [heads, group, nq, max_seq, head_dim, splits_arg] = sizes.map(|size| size as i32);
    let scale = shape.scale(of_cache.head_dim);
    let mut builder = stream.launch_builder(split);
    builder.arg(&inputs.q).arg(&cache.k).arg(&cache.v);
    builder.arg(&cache.lengths.device);
    builder.arg(&mut parts).arg(&mut parts_lse);
    builder.arg(&heads).arg(&group).arg(&nq).arg(&max_seq);
    builder.arg(&head_dim).arg(&scale).arg(&splits_arg);
    let config = |blocks: usize| LaunchConfig {
        grid_dim: (blocks as u32, 1, 1),
        block_dim: (128, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: these are the parameters of `split`, in order. The tensors lie inside the views, and rows below the lengths inside
    // the cache; every block writes a part of its own.
    unsafe { builder.launch(config(rows * splits)) }?;

    let Outputs { mut o, mut lse } = outputs;
    let mut builder = stream.launch_builder(combine);
    builder.arg(&parts).arg(&parts_lse);
    builder.arg(&mut o).optional(lse.as_mut());
    builder.arg(&head_dim).arg(&splits_arg);
    // SAFETY: these are the parameters of `combine`, in order. `lse` is not touched if it is null; every block writes a row of
    // its own.
    unsafe { builder.launch(config(rows)) }?;
    Ok(())
}

/// Parts that give each SM 4 blocks, but none without keys to speak of.
fn parts(stream: &Arc<CudaStream>, rows: usize, lengths: &[usize]) -> Result<usize, Error> {
    let sms = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    let sms = usize::try_from(stream.context().attribute(sms)?).unwrap_or(1);
    let longest = lengths.iter().copied().max().unwrap_or(0);
    Ok((4 * sms).div_ceil(rows).min(longest.div_ceil(PART)).clamp(1, MOST))
}
