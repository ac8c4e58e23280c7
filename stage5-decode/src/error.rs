use cudarc::driver::DriverError;
use gpu::arguments::ArgumentError;

use crate::paged::PageError;

/// Why an operation of this stage did not run, or did not finish.
///
/// Every variant but [`Error::Driver`] is found before anything is launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A view, a size or a stride does not fit.
    #[error(transparent)]
    Argument(#[from] ArgumentError),

    /// A sequence has no room for new tokens. No sequence has changed.
    #[error(
        "{operation}: sequence {sequence} has {length} of {max_seq} tokens: no room for {new} more"
    )]
    CacheFull {
        /// The operation that was called.
        operation: &'static str,
        /// The first sequence that has no room.
        sequence: usize,
        /// Tokens that it has.
        length: usize,
        /// Tokens to be added.
        new: usize,
        /// Tokens that a sequence can have.
        max_seq: usize,
    },

    /// A paged cache refused an operation. No sequence has changed.
    #[error(transparent)]
    Pages(#[from] PageError),

    /// A kernel could not be loaded.
    #[error(transparent)]
    Load(#[from] gpu::Error),

    /// The driver refused a call, or a kernel failed.
    #[error("{:?}: {}", .0.0, gpu::explanation(.0))]
    Driver(DriverError),
}

impl Error {
    /// The argument that was refused, such as `k`; `heads` if those of two arguments do not divide.
    pub fn argument(&self) -> Option<&str> {
        match self {
            Self::Argument(error) => Some(error.argument),
            Self::CacheFull { .. } => Some("new"),
            Self::Pages(error) => Some(error.argument()),
            Self::Load(_) | Self::Driver(_) => None,
        }
    }
}

// Not `#[from]`, which would make it the source as well and print it twice, once on one line.
impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}
