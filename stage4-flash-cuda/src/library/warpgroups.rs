//! Tile, conditions and launch of the library's kernel for compute capability 9.0 itself,
//! `attention_wgmma.cu`.

use cudarc::driver::{
    CudaFunction, CudaStream, DevicePtr, DriverError, LaunchConfig, PushKernelArg,
};
use gpu::arguments::{OptionalArg, Strides};

use super::{Problem, Tile};
use crate::tensor_map::{TensorMap, has_strides};
use crate::{Format, Inputs, Outputs, Shape};

/// The kernel file.
pub(crate) const FILE: &str = "library/attention_wgmma.cu";

/// The kernel's name.
pub(crate) const KERNEL: &str = "attention_wgmma";

/// Head dimensions for which the kernel is compiled. Others are padded to them.
pub const PADDED: [usize; 2] = [64, 128];

/// Its only tile.
pub const TILE: Tile = Tile::new(128, 128, 384);

/// Rows of a box of q: the queries of a warpgroup.
const GROUP_Q: usize = 64;

/// Dynamic shared memory of a block, in bytes.
pub(crate) const fn shared_bytes(columns: usize) -> usize {
    (TILE.block_q + 4 * TILE.block_kv) * columns * size_of::<u16>()
}

/// True if the kernel takes a shape, of tensors that begin at multiples of 16 bytes.
pub(crate) fn takes(shape: &Shape) -> bool {
    let has = |sizes, strides| has_strides(outer(sizes), of_outer(strides));
    shape.sizes.head_dim <= PADDED[1]
        && has(shape.queries(), shape.q)
        && has(shape.keys(), shape.k)
        && has(shape.keys(), shape.v)
}

/// True if q, k and v begin at multiples of 16 bytes, and there is no block mask, whose squares are
/// smaller than the tile: what [`takes`] cannot tell.
pub(crate) fn takes_inputs<T>(stream: &CudaStream, inputs: &Inputs<'_, T>) -> bool {
    let tensors = [&inputs.q, &inputs.k, &inputs.v];
    let begins = |address: u64| address.is_multiple_of(16);
    inputs.blocks.is_none()
        && tensors
            .iter()
            .all(|tensor| begins(tensor.device_ptr(stream).0))
}

/// The axes of a tensor but for the columns.
fn outer([batch, heads, rows, _]: [usize; 4]) -> [usize; 3] {
    [batch, heads, rows]
}

fn of_outer(strides: Strides) -> [usize; 3] {
    [strides.batch, strides.head, strides.row]
}

/// Launches the kernel, and does not wait. Every element that the shape names lies inside its view;
/// [`takes`] and [`takes_inputs`] are true; `format` is that of `T`.
pub(crate) fn launch<T>(
    format: Format,
    stream: &CudaStream,
    function: &CudaFunction,
    config: LaunchConfig,
    inputs: Inputs<'_, T>,
    outputs: Outputs<'_, T>,
    shape: &Shape,
) -> Result<(), DriverError> {
    let problem = Problem::new(shape, &inputs);
    let Outputs { mut o, mut lse } = outputs;
    // Until the launch: streams that write a tensor are waited for, and wait for its readers.
    let [(q, _q), (k, _k), (v, _v)] =
        [&inputs.q, &inputs.k, &inputs.v].map(|tensor| tensor.device_ptr(stream));
    let map = |address, sizes, strides, box_rows| {
        let (sizes, strides) = (outer(sizes), of_outer(strides));
        TensorMap::new(
            format,
            address,
            sizes,
            strides,
            shape.sizes.head_dim,
            box_rows,
        )
    };
    // Without keys, k and v are not read, and may have no address.
    let (k, v) = if shape.sizes.nk == 0 { (q, q) } else { (k, v) };
    let q = map(q, shape.queries(), shape.q, GROUP_Q)?;
    let k = map(k, shape.keys(), shape.k, TILE.block_kv)?;
    let v = map(v, shape.keys(), shape.v, TILE.block_kv)?;
    let mut builder = stream.launch_builder(function);
    builder.arg(&q).arg(&k).arg(&v);
    builder.optional(inputs.mask.as_ref().map(|mask| &mask.values));
    builder.optional(inputs.key_lengths.as_ref());
    builder.arg(&mut o).optional(lse.as_mut()).arg(&problem);
    // SAFETY: these are the kernel's parameters, in order. The maps describe tensors of `T` inside
    // the views, and so does the problem; an argument that is null is not touched; every block
    // writes rows of its own.
    unsafe { builder.launch(config) }?;
    Ok(())
}
