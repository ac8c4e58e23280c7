//! Task `gemm` (1 point): `kernels/gemm_nt_tiled.cu`, `kernels/gemm_nn_tiled.cu` and their launch.

#![allow(unused)] // remove this line when nothing is left to do

use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};
use stage2_naive_cuda::{Error, Gemm};

use crate::Own;

/// Rows and columns of the tile of `c` that a block computes, and threads along each: `TILE` in the kernel files.
const TILE: u32 = 16;

/// The two products, which differ in how `b` lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// `a · bᵀ`: `b` is `[batch, b_heads, n, k]`.
    Nt,
    /// `a · b`: `b` is `[batch, b_heads, k, n]`.
    Nn,
}

/// `c = a · bᵀ` or `c = a · b`, batched, all f32: `a` is `[batch, heads, m, k]`, `c` is `[batch, heads, m, n]`. Head `h` of
/// `a` uses head `h / (heads / b_heads)` of `b`. Rows lie where the strides say; columns are contiguous.
pub fn gemm(
    own: &Own,
    product: Product,
    a: CudaView<'_, f32>,
    b: CudaView<'_, f32>,
    mut c: CudaViewMut<'_, f32>,
    shape: &Gemm,
) -> Result<(), Error> {
    let Gemm {
        batch,
        heads,
        b_heads,
        m,
        n,
        k,
        ..
    } = *shape;
    let (name, b_rows, b_columns) = match product {
        Product::Nt => ("gemm_nt_tiled", n, k),
        Product::Nn => ("gemm_nn_tiled", k, n),
    };

    // What does not fit is refused by name, before anything is launched.
    let checks = own.checks(name);
    let sizes = [
        ("batch", batch),
        ("heads", heads),
        ("m", m),
        ("n", n),
        ("k", k),
    ];
    let [_, heads_arg, m_arg, n_arg, k_arg] = checks.sizes(sizes)?;
    checks.groups(heads, b_heads)?;
    checks.input("a", &a, [batch, heads, m, k], shape.a)?;
    checks.input("b", &b, [batch, b_heads, b_rows, b_columns], shape.b)?;
    checks.output("c", &c, [batch, heads, m, n], shape.c)?;

    // TODO: how many tiles of TILE × TILE cover c? `checks.grid(blocks)?` makes a u32 of their number. Launch nothing if it
    // is 0. The arguments are those of the kernels, in order: a, b, c, their strides (`&shape.a` …), heads, group = heads /
    // b_heads, m, n, k, the numbers as i32.
    todo!("TODO, task gemm: the launch")
}
