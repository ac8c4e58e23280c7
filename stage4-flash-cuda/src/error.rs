use cudarc::driver::DriverError;
use gpu::arguments::ArgumentError;

/// Why attention did not run, or did not finish.
///
/// Every variant but [`Error::Driver`] is found before anything is launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A view, a size, a stride or a tile does not fit.
    #[error(transparent)]
    Argument(#[from] ArgumentError),

    /// The shapes of the problem do not fit each other, or it needs an option that the mode lacks.
    #[error(transparent)]
    Attention(#[from] stage1_reference::Error),

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
            Self::Attention(error) => Some(error.argument()),
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

impl From<stage2_naive_cuda::Error> for Error {
    fn from(error: stage2_naive_cuda::Error) -> Self {
        use stage2_naive_cuda::Error;
        match error {
            Error::Argument(error) => error.into(),
            Error::Attention(error) => error.into(),
            Error::Load(error) => error.into(),
            Error::Driver(error) => error.into(),
        }
    }
}
