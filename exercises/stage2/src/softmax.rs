//! Task `softmax` (1 point): `kernels/softmax.cu` and its launch.

#![allow(unused)] // remove this line when nothing is left to do

use cudarc::driver::{CudaViewMut, LaunchConfig, PushKernelArg};
use stage2_naive_cuda::{Error, Softmax};

use crate::Own;

/// Threads of a block: `THREADS` in `softmax.cu`.
const THREADS: u32 = 128;

/// Softmax of each row of `x`, `[rows, columns]` f32, in place.
///
/// `lse`, `[rows]`, receives the natural log of the sum of exponentials of each row. A row that is
/// empty or all −inf becomes 0 and has −inf there.
pub fn softmax(
    own: &Own,
    mut x: CudaViewMut<'_, f32>,
    mut lse: CudaViewMut<'_, f32>,
    shape: Softmax,
) -> Result<(), Error> {
    let Softmax { rows, columns } = shape;

    // Arguments that do not fit are refused by name, before anything is launched.
    let checks = own.checks("softmax");
    let [_, columns_arg] = checks.sizes([("rows", rows), ("columns", columns)])?;
    checks.packed("x", &x, [1, rows, columns])?;
    checks.packed("lse", &lse, [1, 1, rows])?;
    let blocks = checks.grid(rows)?; // one for each row

    // A grid of 0 blocks is an error of CUDA's, so nothing is launched where there is nothing to
    // do. Then: a LaunchConfig; `own.kernel("softmax", &[])?`;
    // `own.stream.launch_builder(&kernel)`; `launch.arg(&mut x).arg(&mut lse)`, and so on with
    // `columns_arg`, which is an i32; `unsafe { launch.launch(config) }?`.
    todo!("TODO, task softmax: the launch")
}
