use cudarc::driver::{CudaViewMut, LaunchConfig, PushKernelArg};
use gpu::arguments::{OptionalArg, Strided, Strides};

use super::Kernels;
use crate::Error;

/// Threads of a block: `THREADS` in `library/scale_and_mask.cu`.
const THREADS: u32 = 128;

/// A mask that is added to scaled scores: `[B, H, nq, nk]` f32 in device memory, `−inf` where a key
/// is hidden.
pub type Additive<'a> = Strided<'a, f32>;

/// The sizes of packed scores `[batch, heads, nq, nk]`, and what is done to them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleAndMaskShape {
    /// Batches.
    pub batch: usize,
    /// Heads.
    pub heads: usize,
    /// Queries: rows of scores.
    pub nq: usize,
    /// Keys: columns of scores.
    pub nk: usize,
    /// The factor of each score.
    pub scale: f32,
    /// Hides the keys `j > i + nk − nq` from query `i`.
    pub causal: bool,
}

impl Kernels {
    /// `scores = scale · scores + mask`, in place on packed `[batch, heads, nq, nk]` f32 scores;
    /// keys that the causal mask hides become −inf.
    ///
    /// # Errors
    ///
    /// A view that is too short, a view on another device, sizes beyond 2³⁰: see [`Error`]. All are
    /// found before the launch. After it, only the driver can fail.
    pub fn scale_and_mask(
        &self,
        mut scores: CudaViewMut<'_, f32>,
        mask: Option<Additive<'_>>,
        shape: &ScaleAndMaskShape,
    ) -> Result<(), Error> {
        let ScaleAndMaskShape {
            batch,
            heads,
            nq,
            nk,
            scale,
            causal,
        } = *shape;
        let checks = self.checks("scale_and_mask");
        let sizes = [("batch", batch), ("heads", heads), ("nq", nq), ("nk", nk)];
        let [_, heads_arg, nq_arg, nk_arg] = checks.sizes(sizes)?;
        let all = [batch, heads, nq, nk];
        checks.input("scores", &scores, all, Strides::packed(heads, nq, nk))?;
        if let Some(mask) = &mask {
            checks.input("mask", &mask.values, all, mask.strides)?;
        }
        let blocks = checks.grid(batch.saturating_mul(heads).saturating_mul(nq))?;
        if blocks == 0 || nk == 0 {
            return Ok(());
        }

        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let strides = (mask.as_ref()).map_or(Strides::default(), |mask| mask.strides);
        let causal = i32::from(causal);
        let mut launch = self.stream.launch_builder(&self.scale_and_mask);
        launch.arg(&mut scores);
        launch.optional(mask.as_ref().map(|mask| &mask.values));
        launch.arg(&strides).arg(&heads_arg);
        launch.arg(&nq_arg).arg(&nk_arg).arg(&scale).arg(&causal);
        // SAFETY: these are the parameters of `scale_and_mask`, in order. It touches only the
        // elements that the checks above found inside the views, `mask` only if it is not null, and
        // every block a row of `scores` of its own.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_threads_of_its_kernel() {
        assert!(
            include_str!("../../kernels/library/scale_and_mask.cu")
                .contains(&format!("constexpr int THREADS = {THREADS};"))
        );
    }
}
