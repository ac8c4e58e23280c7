//! The end of a step: the choice of each sequence's next token, and its position.

use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};

use super::{Kernels, Variant};
use crate::Error;

/// Threads of a block of `increment.cu`.
const THREADS: usize = 128;

impl Kernels {
    /// The index of the largest logit of each row, the smallest index of equal ones.
    /// `logits` is `[n, V]`, `tokens` is `[n]`. −1 for a row that holds a NaN or whose
    /// largest logit is infinite, which [`Kernels::embed`] turns into NaN: once wrong, a
    /// sequence stays so until the host looks.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths do not fit each other or an array is on another device.
    pub fn argmax(
        &self,
        mut tokens: CudaViewMut<'_, i32>,
        logits: CudaView<'_, f32>,
    ) -> Result<(), Error> {
        let checks = self.checks("argmax");
        let n = checks.rows("tokens", &tokens, 1)?;
        let vocab = logits.len() / n;
        checks.rows("logits", &logits, vocab)?;
        checks.length("logits", &logits, n * vocab)?;

        let function = self.function(Variant::of("argmax"))?;
        let threads = (vocab / 8).next_multiple_of(32).clamp(32, 1024); // 8 logits each, of a small vocabulary
        let config = LaunchConfig {
            grid_dim: (checks.grid(n)?, 1, 1),
            block_dim: (threads as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let [vocab] = checks.sizes([("logits", vocab)])?;
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut tokens).arg(&logits).arg(&vocab);
        // SAFETY: these are the parameters of argmax.cu. It reads n rows of the logits and writes
        // n tokens: checked above.
        unsafe { launch.launch(config) }?;
        Ok(())
    }

    /// Adds 1 to each count: the positions, after a step. Any number of counts from 1 on.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if there is none, or the array is on another device.
    pub fn increment(&self, mut counts: CudaViewMut<'_, i32>) -> Result<(), Error> {
        let checks = self.checks("increment");
        let n = checks.rows("counts", &counts, 1)?;
        let function = self.function(Variant::of("increment"))?;
        let config = LaunchConfig {
            grid_dim: (checks.grid(n.div_ceil(THREADS))?, 1, 1),
            block_dim: (THREADS as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let [n] = checks.sizes([("counts", n)])?;
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut counts).arg(&n);
        // SAFETY: these are the parameters of increment.cu, which changes n counts.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}
