//! Task `softmax` (1 point): `kernels/softmax.cu` and its launch.

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

    if blocks == 0 {
        return Ok(());
    }
    let config = LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    };
    let kernel = own.kernel("softmax", &[])?;
    let mut launch = own.stream.launch_builder(&kernel);
    launch.arg(&mut x).arg(&mut lse).arg(&columns_arg);
    // SAFETY: these are the parameters of `softmax`, in order. It touches only the elements that
    // the checks above found inside the views, and every block those of a row of its own.
    unsafe { launch.launch(config) }?;
    Ok(())
}
