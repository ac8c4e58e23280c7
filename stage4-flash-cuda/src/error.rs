use cudarc::driver::DriverError;

use crate::Strategy;

/// Why attention did not run, or did not finish.
///
/// All but [`stage2_naive_cuda::Error::Driver`] is found before anything is launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument does not fit, a kernel could not be loaded, or the driver refused a call.
    #[error(transparent)]
    Refused(#[from] stage2_naive_cuda::Error),

    /// A tile of this head dimension needs more shared memory than a block may have.
    #[error(
        "{operation}: {strategy} needs {needed} bytes of shared memory at D = {head_dim}, but a block has at most {available}"
    )]
    SharedMemory {
        /// The operation that was called.
        operation: &'static str,
        /// The strategy asked for.
        strategy: Strategy,
        /// The head dimension, `D`.
        head_dim: usize,
        /// Bytes that a block would need.
        needed: usize,
        /// Bytes that a block can have, on this device and by this kernel.
        available: usize,
    },

    /// A tile does not fit the kernel that it is for.
    #[error("{operation}: {reason}")]
    Tile {
        /// The operation that was called.
        operation: &'static str,
        /// What is wrong with the tile.
        reason: String,
    },
}

impl From<stage1_reference::Error> for Error {
    fn from(error: stage1_reference::Error) -> Self {
        Self::Refused(error.into())
    }
}

impl From<gpu::Error> for Error {
    fn from(error: gpu::Error) -> Self {
        Self::Refused(error.into())
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Refused(error.into())
    }
}
