//! The ladder: kernels for packed tensors, one idea each, and their launches.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaStream, CudaView, CudaViewMut, LaunchConfig, PushKernelArg,
};
use gpu::arguments::Checks;

use crate::{Attention, Call, Error, Gemm, KERNELS, Product, ScaleAndMask, Softmax, Steps};

/// Threads of a block that strides along a row: `THREADS` in `1_softmax_tree.cu` and
/// `scale_and_mask.cu`.
const THREADS: u32 = 128;

/// Rows of a block: `WARPS` in `2_softmax_warp.cu`.
const WARPS: u32 = 4;

/// A rung of the matrix product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GemmRung {
    /// One thread per element, which reads both operands from global memory.
    Plain,
    /// Tiles of both operands in shared memory.
    Tiled,
    /// A tile of the result in the registers of each thread, too.
    RegisterTiled,
}

/// A rung of softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SoftmaxRung {
    /// A block for each row, which reduces by a tree in shared memory.
    Tree,
    /// A warp for each row, which reduces by shuffles.
    Warp,
}

/// The steps of attention by some rungs of the ladder.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// All launches go to it.
    pub stream: Arc<CudaStream>,
    /// The rung of both matrix products.
    pub gemm: GemmRung,
    /// The rung of softmax.
    pub softmax: SoftmaxRung,
}

impl GemmRung {
    /// All rungs, from the bottom.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Tiled, Self::RegisterTiled];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tiled => "tiled",
            Self::RegisterTiled => "register_tiled",
        }
    }

    /// The kernel's file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Plain => "1_gemm_plain.cu",
            Self::Tiled => "2_gemm_tiled.cu",
            Self::RegisterTiled => "3_gemm_register_tiled.cu",
        }
    }

    /// Threads of a block, and columns and rows of `c` that it computes, as the kernel's constants
    /// say.
    const fn tile(self) -> ((u32, u32, u32), [usize; 2]) {
        match self {
            Self::Plain => ((32, 8, 1), [32, 8]),
            Self::Tiled => ((16, 16, 1), [16, 16]),
            Self::RegisterTiled => ((16, 16, 1), [64, 64]),
        }
    }
}

impl SoftmaxRung {
    /// All rungs, from the bottom.
    pub const ALL: [Self; 2] = [Self::Tree, Self::Warp];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Warp => "warp",
        }
    }

    /// The kernel's file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Tree => "1_softmax_tree.cu",
            Self::Warp => "2_softmax_warp.cu",
        }
    }
}

impl fmt::Display for GemmRung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for SoftmaxRung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Product {
    /// The constant of the kernels that says so.
    pub(crate) const fn transposed(self) -> &'static str {
        match self {
            Self::Nn => "0",
            Self::Nt => "1",
        }
    }

    /// The shape of `b`, of these sizes.
    pub const fn b(self, n: usize, k: usize) -> [usize; 2] {
        match self {
            Self::Nn => [k, n],
            Self::Nt => [n, k],
        }
    }
}

impl Steps for Ladder {
    type Error = Error;

    fn run(&self, call: Call<'_>) -> Result<(), Error> {
        match call {
            Call::Softmax { x, lse, shape } => self.softmax(x, lse, shape),
            Call::Gemm { a, b, c, shape } => self.gemm(a, b, c, shape),
            Call::ScaleAndMask { scores, shape } => self.scale_and_mask(scores, shape),
            Call::Attention {
                q,
                k,
                v,
                o,
                lse,
                shape,
            } => self.attention([q, k, v], o, lse, shape),
        }
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}

impl Ladder {
    /// A kernel, which is compiled and loaded once.
    fn kernel(
        &self,
        file: &str,
        name: &str,
        constants: &[(&str, &str)],
    ) -> Result<CudaFunction, Error> {
        let module = KERNELS.load(self.stream.context(), file, constants)?;
        Ok(module.load_function(name)?)
    }

    fn checks(&self, operation: &'static str) -> Checks {
        Checks::new(operation, self.stream.context())
    }

    fn gemm(
        &self,
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
        let checks = self.checks("gemm");
        let sizes = checks.sizes([("batch", batch), ("m", m), ("n", n), ("k", k)])?;
        let [_, m_arg, n_arg, k_arg] = sizes;
        let [b_rows, b_columns] = product.b(n, k);
        checks.packed("a", &a, [batch, m, k])?;
        checks.packed("b", &b, [batch, b_rows, b_columns])?;
        checks.packed("c", &c, [batch, m, n])?;
        let (block_dim, [columns, rows]) = self.gemm.tile();
        let grid_dim = checks.grid_3d([batch, n.div_ceil(columns), m.div_ceil(rows)])?;
        if batch * m * n == 0 {
            return Ok(());
        }

        let constants = [("TRANSPOSED", product.transposed())];
        let kernel = self.kernel(self.gemm.file(), "gemm", &constants)?;
        // ANCHOR: launch
        let config = LaunchConfig {
            grid_dim,
            block_dim,
            shared_mem_bytes: 0, // it is static
        };
        let mut launch = self.stream.launch_builder(&kernel);
        launch.arg(&a).arg(&b).arg(&mut c);
        launch.arg(&m_arg).arg(&n_arg).arg(&k_arg);
        // SAFETY: these are the parameters of all `gemm` kernels, in order. They touch only the
        // elements that the checks above found inside the views, and every thread writes elements
        // of `c` of its own.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch
        Ok(())
    }

    fn softmax(
        &self,
        mut x: CudaViewMut<'_, f32>,
        mut lse: CudaViewMut<'_, f32>,
        Softmax { rows, columns }: Softmax,
    ) -> Result<(), Error> {
        let checks = self.checks("softmax");
        let [rows_arg, columns_arg] = checks.sizes([("rows", rows), ("columns", columns)])?;
        checks.packed("x", &x, [1, rows, columns])?;
        checks.packed("lse", &lse, [1, 1, rows])?;
        if rows == 0 {
            return Ok(());
        }

        let kernel = self.kernel(self.softmax.file(), "softmax", &[])?;
        let mut launch = self.stream.launch_builder(&kernel);
        launch.arg(&mut x).arg(&mut lse);
        let (blocks, block_dim) = match self.softmax {
            SoftmaxRung::Tree => (rows as u32, (THREADS, 1, 1)),
            SoftmaxRung::Warp => {
                launch.arg(&rows_arg);
                ((rows as u32).div_ceil(WARPS), (32, WARPS, 1))
            }
        };
        launch.arg(&columns_arg);
        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim,
            shared_mem_bytes: 0, // it is static
        };
        // SAFETY: these are the parameters of either `softmax`, in order. It touches only the
        // elements that the checks above found inside the views, and every block or warp those of a
        // row of its own.
        unsafe { launch.launch(config) }?;
        Ok(())
    }

    fn scale_and_mask(
        &self,
        mut scores: CudaViewMut<'_, f32>,
        shape: ScaleAndMask,
    ) -> Result<(), Error> {
        let ScaleAndMask {
            batch,
            nq,
            nk,
            scale,
            causal,
        } = shape;
        let checks = self.checks("scale_and_mask");
        let sizes = checks.sizes([("batch", batch), ("nq", nq), ("nk", nk)])?;
        let [_, nq_arg, nk_arg] = sizes;
        checks.packed("scores", &scores, [batch, nq, nk])?;
        let blocks = checks.grid(batch.saturating_mul(nq))?;
        if blocks == 0 || nk == 0 {
            return Ok(());
        }

        let kernel = self.kernel("scale_and_mask.cu", "scale_and_mask", &[])?;
        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let causal = i32::from(causal);
        let mut launch = self.stream.launch_builder(&kernel);
        launch.arg(&mut scores).arg(&nq_arg).arg(&nk_arg);
        launch.arg(&scale).arg(&causal);
        // SAFETY: these are the parameters of `scale_and_mask`, in order. It touches only the
        // elements that the checks above found inside the view, and every block a row of `scores`
        // of its own.
        unsafe { launch.launch(config) }?;
        Ok(())
    }

    fn attention(
        &self,
        [q, k, v]: [CudaView<'_, f32>; 3],
        o: CudaViewMut<'_, f32>,
        lse: CudaViewMut<'_, f32>,
        shape: Attention,
    ) -> Result<(), Error> {
        // Every check of the four steps, so that none of them fails after another was launched.
        shape.check(self.checks("attention"), [&q, &k, &v], &o, &lse)?;
        let Attention {
            batch,
            nq,
            nk,
            head_dim,
            scale,
            causal,
        } = shape;
        let q_by_k = Gemm {
            product: Product::Nt,
            batch,
            m: nq,
            n: nk,
            k: head_dim,
        };
        let p_by_v = Gemm {
            product: Product::Nn,
            n: head_dim,
            k: nk,
            ..q_by_k
        };
        for Gemm { m, n, .. } in [q_by_k, p_by_v] {
            let (_, [columns, rows]) = self.gemm.tile();
            let grid = [batch, n.div_ceil(columns), m.div_ceil(rows)];
            self.checks("attention").grid_3d(grid)?;
        }

        // A driver allocates no 0 bytes, and without keys there are no scores.
        // SAFETY: the first product writes every score before the next step reads it.
        let mut scores = unsafe { self.stream.alloc::<f32>((batch * nq * nk).max(1)) }?;
        // ANCHOR: attention
        self.gemm(q, k, scores.as_view_mut(), q_by_k)?;
        let masking = ScaleAndMask {
            batch,
            nq,
            nk,
            scale,
            causal,
        };
        self.scale_and_mask(scores.as_view_mut(), masking)?;
        let rows = Softmax {
            rows: batch * nq,
            columns: nk,
        };
        self.softmax(scores.as_view_mut(), lse, rows)?;
        self.gemm(scores.as_view(), v, o, p_by_v)
        // ANCHOR_END: attention
    }
}

impl Attention {
    /// Refuses tensors that do not fit, by name, sizes beyond those of a launch, and a scale that
    /// is no number.
    ///
    /// # Errors
    ///
    /// The first argument that does not fit.
    pub fn check(
        &self,
        checks: Checks,
        [q, k, v]: [&CudaView<'_, f32>; 3],
        o: &CudaViewMut<'_, f32>,
        lse: &CudaViewMut<'_, f32>,
    ) -> Result<(), Error> {
        let Self {
            batch,
            nq,
            nk,
            head_dim,
            scale,
            ..
        } = *self;
        checks.scale(scale)?;
        checks.sizes([
            ("batch", batch),
            ("nq", nq),
            ("nk", nk),
            ("head_dim", head_dim),
        ])?;
        checks.packed("q", q, [batch, nq, head_dim])?;
        checks.packed("k", k, [batch, nk, head_dim])?;
        checks.packed("v", v, [batch, nk, head_dim])?;
        checks.packed("o", o, [batch, nq, head_dim])?;
        checks.packed("lse", lse, [1, batch, nq])?;
        checks.sizes([("batch", batch.saturating_mul(nq))])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn says(source: &str, constants: &[(&str, usize)]) {
        for (name, value) in constants {
            let line = format!("constexpr int {name} = {value};");
            assert!(source.contains(&line), "{line}");
        }
    }

    #[test]
    fn launches_are_as_the_kernels_say() {
        let plain = include_str!("../kernels/1_gemm_plain.cu");
        says(plain, &[("TILE_M", 8), ("TILE_N", 32)]);
        says(include_str!("../kernels/2_gemm_tiled.cu"), &[("TILE", 16)]);
        let registers = include_str!("../kernels/3_gemm_register_tiled.cu");
        says(registers, &[("SIDE", 16), ("OWN", 4)]);
        let threads = ("THREADS", THREADS as usize);
        says(include_str!("../kernels/1_softmax_tree.cu"), &[threads]);
        says(include_str!("../kernels/scale_and_mask.cu"), &[threads]);
        let warps = ("WARPS", WARPS as usize);
        says(include_str!("../kernels/2_softmax_warp.cu"), &[warps]);
    }
}
