//! Task `softmax` (1 point): `kernels/softmax.cu` and its launch.

#![allow(unused)] // remove this line when nothing is left to do

use cudarc::driver::{CudaViewMut, LaunchConfig, PushKernelArg};
use gpu::arguments::{OptionalArg, Strides};
use stage2_naive_cuda::{Axis, Error, Softmax};

use crate::Own;

/// Threads of a block: `THREADS` in `softmax.cu`.
const THREADS: u32 = 128;

/// Softmax in place over one dimension of `x`, a packed `[batch, rows, columns]` f32 tensor.
///
/// `lse`, where given, receives the natural log of the sum of exponentials of each vector: `[batch, rows]` over the columns
/// ([`Axis::Last`]), `[batch, columns]` over the rows ([`Axis::NextToLast`]). A vector that is empty or all −inf becomes 0
/// and has −inf there.
pub fn softmax(
    own: &Own,
    mut x: CudaViewMut<'_, f32>,
    mut lse: Option<CudaViewMut<'_, f32>>,
    shape: &Softmax,
) -> Result<(), Error> {
    let Softmax {
        batch,
        rows,
        columns,
        axis,
    } = *shape;
    // The dimension that is normalised has `length` elements, `inner` floats apart; `outer` is the product of those before.
    let (outer, length, inner) = match axis {
        Axis::Last => (batch.saturating_mul(rows), columns, 1),
        Axis::NextToLast => (batch, rows, columns),
    };
    let vectors = outer.saturating_mul(inner);

    // What does not fit is refused by name, before anything is launched.
    let checks = own.checks("softmax");
    checks.sizes([("batch", batch), ("rows", rows), ("columns", columns)])?;
    let packed = Strides::packed(batch, rows, columns);
    checks.input("x", &x, [1, batch, rows, columns], packed)?;
    if let Some(lse) = &lse {
        checks.input("lse", lse, [1, 1, 1, vectors], Strides::default())?;
    }
    let blocks = checks.grid(vectors)?; // one for each vector

    // A grid of 0 blocks is an error of CUDA's, so nothing is launched where there is nothing to do. Then: a LaunchConfig;
    // `own.kernel("softmax")?`; `own.stream.launch_builder(&kernel)`; `launch.arg(&mut x).optional(lse.as_mut())`, and so on
    // with `length` and `inner` as i32; `unsafe { launch.launch(config) }?`.
    todo!("TODO, task softmax: the launch")
}
