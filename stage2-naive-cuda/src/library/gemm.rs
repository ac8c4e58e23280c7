use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};
use gpu::arguments::Strides;

use super::Kernels;
use crate::{Error, Product};

/// Threads along each side of a block, and rows and columns of `c` that it computes: `TILE` in the
/// kernel file.
const TILE: u32 = 16;

/// The sizes and strides of a batched matrix product `c = a · b` or `c = a · bᵀ`, in elements.
///
/// `a` is `[batch, heads, m, k]` and `c` is `[batch, heads, m, n]`. `b` is `[batch, b_heads, k,
/// n]`, or `[batch, b_heads, n, k]` for [`Product::Nt`]; head `h` uses `b`'s head `h / (heads /
/// b_heads)`, so that grouped-query attention copies nothing.
///
/// ```
/// use stage2_naive_cuda::{GemmShape, Strides};
/// // Scores of 4 heads, 1 query row each, against the first 20 keys of a cache with room for 256.
/// let capacity = 256 * 64;
/// let shape = GemmShape {
///     heads: 4,
///     b_heads: 4,
///     a: Strides::packed(4, 1, 64),
///     b: Strides { batch: 4 * capacity, head: capacity, row: 64 },
///     c: Strides::packed(4, 1, 20),
///     ..GemmShape::nt(1, 20, 64)
/// };
/// assert_eq!(shape.b.row, 64);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GemmShape {
    /// The place of `b`.
    pub product: Product,
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

impl GemmShape {
    /// One packed product `a[m, k] · b[k, n] = c[m, n]`.
    pub const fn nn(m: usize, n: usize, k: usize) -> Self {
        Self {
            product: Product::Nn,
            b: Strides::packed(1, k, n),
            ..Self::nt(m, n, k)
        }
    }

    /// One packed product `a[m, k] · b[n, k]ᵀ = c[m, n]`.
    pub const fn nt(m: usize, n: usize, k: usize) -> Self {
        Self {
            product: Product::Nt,
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

    /// Blocks of a launch: one per tile of `c`. Saturates at `usize::MAX`.
    pub(crate) fn blocks(&self) -> usize {
        let [rows, columns] = [self.m, self.n].map(|size| size.div_ceil(TILE as usize));
        let tiles = columns.saturating_mul(rows);
        tiles.saturating_mul(self.batch).saturating_mul(self.heads)
    }
}

impl Kernels {
    /// `c = a · b` or `c = a · bᵀ`, batched: `a` is `[B, H, m, k]`, `b` is `[B, H_b, k, n]` or `[B,
    /// H_b, n, k]`, `c` is `[B, H, m, n]`, all f32.
    ///
    /// # Errors
    ///
    /// A view too short for its strides, overlapping elements of `c`, heads that do not divide, a
    /// view on another device, sizes beyond 2³⁰: see [`Error`]. All are found before the launch.
    /// After it, only the driver can fail.
    pub fn gemm(
        &self,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        mut c: CudaViewMut<'_, f32>,
        shape: &GemmShape,
    ) -> Result<(), Error> {
        let GemmShape {
            product,
            batch,
            heads,
            b_heads,
            m,
            n,
            k,
            ..
        } = *shape;
        let function = match product {
            Product::Nn => &self.gemm_nn,
            Product::Nt => &self.gemm_nt,
        };
        let checks = self.checks("gemm");
        let sizes = [
            ("batch", batch),
            ("heads", heads),
            ("m", m),
            ("n", n),
            ("k", k),
        ];
        let [_, heads_arg, m_arg, n_arg, k_arg] = checks.sizes(sizes)?;
        let [b_rows, b_columns] = product.b(n, k);
        checks.groups(heads, b_heads)?;
        checks.input("a", &a, [batch, heads, m, k], shape.a)?;
        checks.input("b", &b, [batch, b_heads, b_rows, b_columns], shape.b)?;
        checks.output("c", &c, [batch, heads, m, n], shape.c)?;
        let blocks = checks.grid(shape.blocks())?;
        if blocks == 0 {
            return Ok(());
        }

        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (TILE, TILE, 1),
            shared_mem_bytes: 0, // it is static
        };
        let group = (heads / b_heads) as i32;
        let mut launch = self.stream.launch_builder(function);
        launch.arg(&a).arg(&b).arg(&mut c);
        launch.arg(&shape.a).arg(&shape.b).arg(&shape.c);
        launch.arg(&heads_arg).arg(&group);
        launch.arg(&m_arg).arg(&n_arg).arg(&k_arg);
        // SAFETY: these are the parameters of `gemm`, in order. It touches only the elements that
        // the checks above found inside the views, and every thread writes elements of `c` of its
        // own.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_covers_the_tile_of_its_kernel() {
        assert!(
            include_str!("../../kernels/library/gemm.cu")
                .contains(&format!("constexpr int TILE = {TILE};"))
        );
    }
}
