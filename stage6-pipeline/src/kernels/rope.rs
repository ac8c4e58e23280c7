//! Rotary position embedding.

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, LaunchConfig, PushKernelArg};

use super::{Activation, Kernels, Variant};
use crate::Error;

/// Threads of a block of `rope.cu`.
const THREADS: u32 = 128;

/// The largest head dimension that `rope.cu` takes.
const MAX_HEAD_DIM: usize = 256;

/// Heads in a row of queries, keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// Query heads, `H`.
    pub queries: usize,
    /// Heads of keys, and as many of values, `H_kv`.
    pub keys: usize,
}

impl Kernels {
    /// Rotates the queries and keys of `qkv` in place, half-split: see [`Rope`](crate::Rope). `qkv`
    /// is `[n, (H + 2 H_kv) D]`, `positions` is `[n]`, and `inverse_frequencies` is `[D / 2]`. Sine
    /// and cosine are multiplied by `attention_factor`. Computes in f32.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths do not fit each other, `D` is above 256 or an
    /// array is on another device.
    pub fn rope<T: Activation>(
        &self,
        mut qkv: CudaViewMut<'_, T>,
        positions: CudaView<'_, i32>,
        inverse_frequencies: &CudaSlice<f32>,
        attention_factor: f32,
        heads: Heads,
    ) -> Result<(), Error> {
        let checks = self.checks("rope");
        let half = inverse_frequencies.len();
        checks.rows("inverse_frequencies", inverse_frequencies, half)?;
        if 2 * half > MAX_HEAD_DIM {
            let expected = format_args!("at most {} elements", MAX_HEAD_DIM / 2);
            return Err(checks.error("inverse_frequencies", expected, half).into());
        }
        let rotated = heads.queries.saturating_add(heads.keys);
        let row = rotated.saturating_add(heads.keys).saturating_mul(2 * half);
        let n = checks.rows("qkv", &qkv, row)?;
        checks.length("positions", &positions, n)?;

        // ANCHOR: launch_rope
        let function = self.function(Variant {
            element: Some(T::DTYPE),
            ..Variant::of("rope")
        })?;
        let config = LaunchConfig {
            grid_dim: (checks.grid(n)?, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let sizes = [("heads", rotated), ("heads", 2 * half), ("qkv", row)];
        let [rotated, head_dim, row] = checks.sizes(sizes)?;
        let mut launch = self.stream.launch_builder(&function);
        launch
            .arg(&mut qkv)
            .arg(inverse_frequencies)
            .arg(&positions);
        launch
            .arg(&attention_factor)
            .arg(&rotated)
            .arg(&head_dim)
            .arg(&row);
        // SAFETY: these are the parameters of rope.cu, compiled for the type of qkv. It touches the
        // first heads of n rows of qkv, n positions and D / 2 frequencies, which its shared memory
        // has room for: all checked above.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch_rope
        Ok(())
    }
}
