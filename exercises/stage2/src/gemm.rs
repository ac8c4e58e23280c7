//! Task `gemm` (1 point): `kernels/gemm.cu` and its launch.

#![allow(unused)] // remove this line when nothing is left to do

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

    // TODO: how many tiles of TILE × TILE cover c? Along a row of c they are
    // `n.div_ceil(TILE as usize)`. `checks.grid_3d([batch, columns of tiles, rows of tiles])?` is
    // the grid. Launch nothing if c has no elements. `own.kernel("gemm", &[("TRANSPOSED",
    // transposed)])?` is the kernel; its arguments are, in order: a, b, c, then `m_arg`, `n_arg`,
    // `k_arg`, which are i32.
    todo!("TODO, task gemm: the launch")
}
