use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};
use gpu::arguments::Strides;
use serde::{Deserialize, Serialize};

use crate::{Error, Kernels};

/// Which of the two matrix products is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// One thread per output element, reading both operands from global memory. Has no minimum size, so it is the
    /// better one where `m` is 1.
    Naive,
    /// The same, with tiles of both operands in shared memory, so that each element is loaded once per tile.
    Tiled,
}

/// The sizes and strides of a batched matrix product `c = a · b` or `c = a · bᵀ`, in elements.
///
/// `a` is `[batch, heads, m, k]` and `c` is `[batch, heads, m, n]`. `b` is `[batch, b_heads, k, n]` for
/// [`Kernels::gemm_nn`] and `[batch, b_heads, n, k]` for [`Kernels::gemm_nt`]; head `h` uses `b`'s head
/// `h / (heads / b_heads)`, so that grouped-query attention copies nothing.
///
/// ```
/// use stage2_naive_cuda::{Gemm, Strides};
/// // Scores of 4 heads, 1 query row each, against the first 20 keys of a cache with room for 256.
/// let capacity = 256 * 64;
/// let shape = Gemm {
///     heads: 4,
///     b_heads: 4,
///     a: Strides::packed(4, 1, 64),
///     b: Strides { batch: 4 * capacity, head: capacity, row: 64 },
///     c: Strides::packed(4, 1, 20),
///     ..Gemm::nt(1, 20, 64)
/// };
/// assert_eq!(shape.b.row, 64);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gemm {
    /// Batches of `a`, `b` and `c`.
    pub batch: usize,
    /// Heads of `a` and `c`.
    pub heads: usize,
    /// Heads of `b`; divides `heads`.
    pub b_heads: usize,
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `c`.
    pub n: usize,
    /// The reduced dimension.
    pub k: usize,
    /// Strides of `a`.
    pub a: Strides,
    /// Strides of `b`.
    pub b: Strides,
    /// Strides of `c`.
    pub c: Strides,
}

impl Gemm {
    /// One packed product `a[m, k] · b[k, n] = c[m, n]`, for [`Kernels::gemm_nn`].
    pub const fn nn(m: usize, n: usize, k: usize) -> Self {
        Self {
            b: Strides::packed(1, k, n),
            ..Self::nt(m, n, k)
        }
    }

    /// One packed product `a[m, k] · b[n, k]ᵀ = c[m, n]`, for [`Kernels::gemm_nt`].
    pub const fn nt(m: usize, n: usize, k: usize) -> Self {
        Self {
            batch: 1,
            heads: 1,
            b_heads: 1,
            m,
            n,
            k,
            a: Strides::packed(1, m, k),
            b: Strides::packed(1, n, k),
            c: Strides::packed(1, m, n),
        }
    }

    /// Blocks that `variant` needs: one per tile of `c`. Saturates at `usize::MAX`.
    pub(crate) fn blocks(&self, variant: Variant) -> usize {
        let (columns, rows) = variant.tile();
        let tiles = self
            .n
            .div_ceil(columns as usize)
            .saturating_mul(self.m.div_ceil(rows as usize));
        tiles.saturating_mul(self.batch).saturating_mul(self.heads)
    }
}

/// The two products, which differ in how `b` lies.
#[derive(Clone, Copy)]
enum Product {
    /// `a · bᵀ`.
    Nt,
    /// `a · b`.
    Nn,
}

impl Variant {
    /// Threads of a block, which are also the columns and rows of `c` that it computes: `TILE_N` and `TILE_M`, or
    /// `TILE`, in the kernel files.
    const fn tile(self) -> (u32, u32) {
        match self {
            Self::Naive => (32, 8),
            Self::Tiled => (16, 16),
        }
    }
}

impl Kernels {
    /// `c = a · bᵀ`, batched: `a` is `[B, H, m, k]`, `b` is `[B, H_b, n, k]`, `c` is `[B, H, m, n]`, all f32.
    ///
    /// # Errors
    ///
    /// A view too short for its strides, overlapping elements of `c`, heads that do not divide, a view on another
    /// device, sizes beyond 2³⁰: see [`Error`]. All are found before the launch. After it, only the driver can fail.
    pub fn gemm_nt(
        &self,
        variant: Variant,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Error> {
        self.gemm(Product::Nt, variant, a, b, c, shape)
    }

    /// `c = a · b`, batched: `a` is `[B, H, m, k]`, `b` is `[B, H_b, k, n]`, `c` is `[B, H, m, n]`, all f32.
    ///
    /// # Errors
    ///
    /// As [`Kernels::gemm_nt`].
    pub fn gemm_nn(
        &self,
        variant: Variant,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Error> {
        self.gemm(Product::Nn, variant, a, b, c, shape)
    }

    fn gemm(
        &self,
        product: Product,
        variant: Variant,
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
        let (operation, function, b_rows, b_columns) = match (product, variant) {
            (Product::Nt, Variant::Naive) => ("gemm_nt", &self.gemm_nt_naive, n, k),
            (Product::Nt, Variant::Tiled) => ("gemm_nt", &self.gemm_nt_tiled, n, k),
            (Product::Nn, Variant::Naive) => ("gemm_nn", &self.gemm_nn_naive, k, n),
            (Product::Nn, Variant::Tiled) => ("gemm_nn", &self.gemm_nn_tiled, k, n),
        };
        let checks = self.checks(operation);
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
        let blocks = checks.grid(shape.blocks(variant))?;
        if blocks == 0 {
            return Ok(());
        }

        let (columns, rows) = variant.tile();
        // ANCHOR: launch
        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (columns, rows, 1),
            shared_mem_bytes: 0, // what the tiled kernels use is static
        };
        let group = (heads / b_heads) as i32;
        let mut launch = self.stream.launch_builder(function);
        launch.arg(&a).arg(&b).arg(&mut c);
        launch.arg(&shape.a).arg(&shape.b).arg(&shape.c);
        launch.arg(&heads_arg).arg(&group);
        launch.arg(&m_arg).arg(&n_arg).arg(&k_arg);
        // SAFETY: these are the parameters of all four GEMM kernels, in order. They touch only the elements that the
        // checks above found inside the views, and every thread writes elements of `c` of its own.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_covers_the_tile_of_its_kernel() {
        let (columns, rows) = Variant::Naive.tile();
        for source in [
            include_str!("../kernels/gemm_nn_naive.cu"),
            include_str!("../kernels/gemm_nt_naive.cu"),
        ] {
            assert!(source.contains(&format!("constexpr int TILE_M = {rows};")));
            assert!(source.contains(&format!("constexpr int TILE_N = {columns};")));
        }
        let (columns, rows) = Variant::Tiled.tile();
        assert_eq!(columns, rows);
        for source in [
            include_str!("../kernels/gemm_nn_tiled.cu"),
            include_str!("../kernels/gemm_nt_tiled.cu"),
        ] {
            assert!(source.contains(&format!("constexpr int TILE = {rows};")));
        }
    }
}
