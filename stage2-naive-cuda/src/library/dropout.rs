use cudarc::driver::{CudaViewMut, DeviceRepr, LaunchConfig, PushKernelArg};
use stage1_reference::Dropout;

use super::Kernels;
use crate::Error;

/// Threads of a block: `THREADS` in `library/dropout.cu`.
const THREADS: u32 = 128;

/// `struct Dropout` of `kernels/philox.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub struct DropoutArgument {
    seed: u64,
    offset: u64,
    threshold: u32,
    scale: f32,
}

// SAFETY: integers of 64 and 32 bits and a float in C layout, the same as `struct Dropout` in the
// kernels.
unsafe impl DeviceRepr for DropoutArgument {}

impl From<Dropout> for DropoutArgument {
    fn from(dropout: Dropout) -> Self {
        Self {
            seed: dropout.seed,
            offset: dropout.offset,
            threshold: dropout.threshold(),
            scale: dropout.scale(),
        }
    }
}

/// The sizes of packed weights, and which are dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DropoutShape {
    /// Heads of all sequences, `B · H`.
    pub matrices: usize,
    /// Queries.
    pub nq: usize,
    /// Keys.
    pub nk: usize,
    /// False for `[B · H, nq, nk]`, true for `[B · H, nk, nq]`.
    pub transposed: bool,
    /// The dropout.
    pub dropout: Dropout,
}

impl Kernels {
    /// `weights = weights ∘ Z`, in place: see [`Dropout`].
    ///
    /// # Errors
    ///
    /// A probability that is not in `[0, 1)`, a view that is too short, a view on another device,
    /// sizes beyond 2³⁰: see [`Error`]. All are found before the launch. After it, only the driver
    /// can fail.
    pub fn dropout(
        &self,
        mut weights: CudaViewMut<'_, f32>,
        shape: &DropoutShape,
    ) -> Result<(), Error> {
        let DropoutShape {
            matrices,
            nq,
            nk,
            transposed,
            dropout,
        } = *shape;
        let checks = self.checks("dropout");
        dropout.check("dropout")?;
        let [_, nq_arg, nk_arg] = checks.sizes([("matrices", matrices), ("nq", nq), ("nk", nk)])?;
        checks.packed("weights", &weights, [matrices, nq, nk])?;
        let blocks = checks.grid(matrices.saturating_mul(nq))?;
        if blocks == 0 || nk == 0 {
            return Ok(());
        }

        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let (transposed, dropout) = (i32::from(transposed), DropoutArgument::from(dropout));
        let mut launch = self.stream.launch_builder(&self.dropout);
        launch.arg(&mut weights).arg(&nq_arg).arg(&nk_arg);
        launch.arg(&transposed).arg(&dropout);
        // SAFETY: these are the parameters of `dropout`, in order. It touches only the elements
        // that the checks above found inside the view, and every block those of a query of its own.
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
            include_str!("../../kernels/library/dropout.cu")
                .contains(&format!("constexpr int THREADS = {THREADS};"))
        );
    }
}
