use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};

use crate::kernels::NULL;
use crate::{Error, Kernels, Strides};

/// Threads of a block: `THREADS` in `scale_and_mask.cu`.
const THREADS: u32 = 128;

/// A mask that is added to scaled scores: a `[B, H, nq, nk]` tensor of f32 in device memory, `−inf` where a key is hidden.
///
/// A stride of 0 repeats the mask over batches or heads.
#[derive(Debug)]
pub struct Additive<'a> {
    /// The values.
    pub values: CudaView<'a, f32>,
    /// Where they lie.
    pub strides: Strides,
}

/// The sizes of packed scores `[batch, heads, nq, nk]`, and what is done to them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleAndMask {
    /// Batches.
    pub batch: usize,
    /// Heads.
    pub heads: usize,
    /// Queries: rows of scores.
    pub nq: usize,
    /// Keys: columns of scores.
    pub nk: usize,
    /// What each score is multiplied by.
    pub scale: f32,
    /// Whether query `i` is kept from the keys `j > i + nk − nq`.
    pub causal: bool,
}

impl Kernels {
    /// `scores = scale · scores + mask`, in place on packed `[batch, heads, nq, nk]` f32 scores; causal keys become −inf.
    ///
    /// # Errors
    ///
    /// A view that is too short, a view on another device, sizes beyond 2³⁰: see [`Error`]. All are found before the
    /// launch. After it, only the driver can fail.
    pub fn scale_and_mask(
        &self,
        mut scores: CudaViewMut<'_, f32>,
        mask: Option<Additive<'_>>,
        shape: &ScaleAndMask,
    ) -> Result<(), Error> {
        let ScaleAndMask {
            batch,
            heads,
            nq,
            nk,
            scale,
            causal,
        } = *shape;
        let checks = self.checks("scale_and_mask");
        checks.sizes(&[("batch", batch), ("heads", heads), ("nq", nq), ("nk", nk)])?;
        checks.input(
            "scores",
            &scores,
            [batch, heads, nq, nk],
            Strides::packed(heads, nq, nk),
        )?;
        if let Some(mask) = &mask {
            checks.input("mask", &mask.values, [batch, heads, nq, nk], mask.strides)?;
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
        let strides = mask
            .as_ref()
            .map_or(Strides::default(), |mask| mask.strides);
        let (heads, nq, nk, causal) = (heads as i32, nq as i32, nk as i32, i32::from(causal));
        let mut launch = self.stream.launch_builder(&self.scale_and_mask);
        launch.arg(&mut scores);
        match &mask {
            Some(mask) => launch.arg(&mask.values),
            None => launch.arg(&NULL),
        };
        launch
            .arg(&strides)
            .arg(&heads)
            .arg(&nq)
            .arg(&nk)
            .arg(&scale)
            .arg(&causal);
        // SAFETY: these are the parameters of `scale_and_mask`, in order. It touches only the elements that the checks
        // above found inside the views, `mask` only if it is not null, and every block a row of `scores` of its own.
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
            include_str!("../kernels/scale_and_mask.cu")
                .contains(&format!("constexpr int THREADS = {THREADS};"))
        );
    }
}
