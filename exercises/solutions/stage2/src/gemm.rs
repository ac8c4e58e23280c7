//! Task `gemm` (1 point): `kernels/gemm.cu` and its launch.

use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};
use stage2_naive_cuda::{Error, Gemm, Product};

use crate::Own;

/// Rows and columns of the tile of `c` that a block computes, and threads along each: `TILE` in the
/// kernel file.
const TILE: u32 = 16;

/// `c = a · b` or `c = a · bᵀ` for each matrix of a batch, all packed f32: `a` is `[batch, m, k]`,
/// `b` is `[batch, k, n]` or `[batch, n, k]`, `c` is `[batch, m, n]`.
pub fn gemm(
    own: &Own,
    a: CudaView<'_, f32>,
    b: CudaView<'_, f32>,
    mut c: CudaViewMut<'_, f32>,
    shape: Gemm,
) -> Result<(), Error> {
    let Gemm {
        product,
        batch,
        m,
        n,
        k,
    } = shape;
    let (transposed, b_shape) = match product {
        Product::Nn => ("0", [batch, k, n]),
        Product::Nt => ("1", [batch, n, k]),
    };

    // Arguments that do not fit are refused by name, before anything is launched.
    let checks = own.checks("gemm");
    let sizes = [("batch", batch), ("m", m), ("n", n), ("k", k)];
    let [_, m_arg, n_arg, k_arg] = checks.sizes(sizes)?;
    checks.packed("a", &a, [batch, m, k])?;
    checks.packed("b", &b, b_shape)?;
    checks.packed("c", &c, [batch, m, n])?;

    let [tiles_n, tiles_m] = [n, m].map(|size| size.div_ceil(TILE as usize));
    let grid_dim = checks.grid_3d([batch, tiles_n, tiles_m])?;
    if batch * m * n == 0 {
        return Ok(());
    }
    let config = LaunchConfig {
        grid_dim,
        block_dim: (TILE, TILE, 1),
        shared_mem_bytes: 0, // it is static
    };
    let kernel = own.kernel("gemm", &[("TRANSPOSED", transposed)])?;
    let mut launch = own.stream.launch_builder(&kernel);
    launch.arg(&a).arg(&b).arg(&mut c);
    launch.arg(&m_arg).arg(&n_arg).arg(&k_arg);
    // SAFETY: these are the parameters of `gemm`, in order. It touches only the elements that the
    // checks above found inside the views, and every thread writes an element of `c` of its own.
    unsafe { launch.launch(config) }?;
    Ok(())
}
