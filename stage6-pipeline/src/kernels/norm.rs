//! Layer norm and RMS norm.

use cudarc::driver::{CudaView, CudaViewMut, LaunchConfig, PushKernelArg};
use gpu::arguments::OptionalArg;

use super::{Activation, Kernels, Variant};
use crate::weights::{Device, Norm};
use crate::{Error, NormKind};

impl Kernels {
    /// Normalises each row of `x` into `y`, both `[n, C]`, as `kind` says: with the weight `[C]`,
    /// and the bias `[C]` if there is one, which [`NormKind::RmsNorm`] takes too. Computes in f32,
    /// and rounds to the type of `y`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths do not fit each other or an array is on another device.
    pub fn norm<Y: Activation>(
        &self,
        norm: &Norm<Device>,
        kind: NormKind,
        epsilon: f32,
        x: CudaView<'_, f32>,
        mut y: CudaViewMut<'_, Y>,
    ) -> Result<(), Error> {
        let checks = self.checks("norm");
        let columns = norm.weight.len();
        checks.rows("weight", &norm.weight, columns)?;
        if let Some(bias) = &norm.bias {
            checks.length("bias", bias, columns)?;
        }
        let n = checks.rows("x", &x, columns)?;
        checks.length("y", &y, x.len())?;

        let aligned = columns.is_multiple_of(4) && self.is_aligned(&x) && self.is_aligned(&y);
        let vector = if aligned { 4 } else { 1 };
        // ANCHOR: launch_norm
        let function = self.function(Variant {
            element: Some(Y::DTYPE),
            ..Variant::of("normalise")
        })?;
        let threads = (columns / vector).next_multiple_of(32).clamp(32, 1024);
        let config = LaunchConfig {
            grid_dim: (checks.grid(n)?, 1, 1),
            block_dim: (threads as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let [columns, vector] = checks.sizes([("weight", columns), ("weight", vector)])?;
        let centred = i32::from(kind == NormKind::LayerNorm);
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut y).arg(&x).arg(&norm.weight);
        launch.optional(norm.bias.as_ref());
        launch
            .arg(&epsilon)
            .arg(&columns)
            .arg(&centred)
            .arg(&vector);
        // SAFETY: these are the parameters of normalise.cu, compiled for the type of y. It touches
        // n rows of x and y and `columns` elements of the weight and of the bias, if it is not
        // null: all checked above. It reads by vectors only aligned rows.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch_norm
        Ok(())
    }
}
