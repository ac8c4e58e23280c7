use cudarc::driver::{CudaViewMut, LaunchConfig, PushKernelArg};
use gpu::arguments::{OptionalArg, Strides};

use super::Kernels;
use crate::Error;

/// Threads of a block: `THREADS` in `library/softmax.cu`.
const THREADS: u32 = 128;

/// The dimension of a `[batch, rows, columns]` tensor that softmax runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Over the columns: every row sums to 1.
    Last,
    /// Over the rows: every column sums to 1.
    NextToLast,
}

/// The sizes of a softmax over a packed `[batch, rows, columns]` tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SoftmaxShape {
    /// Matrices, one after the other.
    pub batch: usize,
    /// Rows of a matrix.
    pub rows: usize,
    /// Columns of a matrix.
    pub columns: usize,
    /// The dimension that is normalised.
    pub axis: Axis,
}

impl Kernels {
    /// Softmax in place over one dimension of a packed `[batch, rows, columns]` f32 tensor.
    ///
    /// `lse`, where given, receives the natural log of the sum of exponentials of each normalised
    /// vector: `[batch, rows]` over the columns, `[batch, columns]` over the rows. A vector that is
    /// empty or all −inf becomes 0 and has −inf there.
    ///
    /// # Errors
    ///
    /// A view that is too short, a view on another device, sizes beyond 2³⁰: see [`Error`]. All are
    /// found before the launch. After it, only the driver can fail.
    pub fn softmax(
        &self,
        mut x: CudaViewMut<'_, f32>,
        mut lse: Option<CudaViewMut<'_, f32>>,
        shape: &SoftmaxShape,
    ) -> Result<(), Error> {
        let SoftmaxShape {
            batch,
            rows,
            columns,
            axis,
        } = *shape;
        let (outer, length, inner) = match axis {
            Axis::Last => (batch.saturating_mul(rows), columns, 1),
            Axis::NextToLast => (batch, rows, columns),
        };
        let vectors = outer.saturating_mul(inner);
        let checks = self.checks("softmax");
        checks.sizes([("batch", batch), ("rows", rows), ("columns", columns)])?;
        let packed = Strides::packed(batch, rows, columns);
        checks.input("x", &x, [1, batch, rows, columns], packed)?;
        if let Some(lse) = &lse {
            checks.input("lse", lse, [1, 1, 1, vectors], Strides::default())?;
        }
        let blocks = checks.grid(vectors)?;
        if blocks == 0 {
            return Ok(());
        }

        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let (length, inner) = (length as i32, inner as i32);
        let mut launch = self.stream.launch_builder(&self.softmax);
        launch.arg(&mut x).optional(lse.as_mut());
        launch.arg(&length).arg(&inner);
        // SAFETY: these are the parameters of `softmax`, in order. It touches only the elements
        // that the checks above found inside the views, `lse` only if it is not null, and every
        // block those of a vector of its own.
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
            include_str!("../../kernels/library/softmax.cu")
                .contains(&format!("constexpr int THREADS = {THREADS};"))
        );
    }
}
