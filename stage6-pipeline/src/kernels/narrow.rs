//! Activations in half precision.

use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};

use super::{Activation, Kernels, Variant};
use crate::Error;

/// Threads of a block of `narrow.cu`, and elements of a thread.
const THREADS: usize = 256;
const ELEMENTS: usize = 4;

impl Kernels {
    /// Rounds each element of `x` into `y`, which has as many: to nearest, ties to even.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths differ, an array is on another device, or it does not
    /// begin at a multiple of 16 bytes.
    pub fn narrow<Y: Activation>(
        &self,
        x: CudaView<'_, f32>,
        mut y: CudaViewMut<'_, Y>,
    ) -> Result<(), Error> {
        let checks = self.checks("narrow");
        let count = checks.rows("x", &x, 1)?;
        checks.length("y", &y, count)?;
        for (argument, aligned) in [("x", self.is_aligned(&x)), ("y", self.is_aligned(&y))] {
            if !aligned {
                let expected = "a multiple of 16 bytes";
                return Err(checks.error(argument, expected, "another address").into());
            }
        }
        let function = self.function(Variant {
            element: Some(Y::DTYPE),
            ..Variant::of("narrow")
        })?;
        let config = LaunchConfig {
            grid_dim: (checks.grid(count.div_ceil(THREADS * ELEMENTS))?, 1, 1),
            block_dim: (THREADS as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let count = count as i64;
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut y).arg(&x).arg(&count);
        // SAFETY: these are the parameters of narrow.cu, compiled for the type of y. It touches
        // `count` elements of x and y: checked above, as the alignment of its vectors is.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}
