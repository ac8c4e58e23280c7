use cudarc::driver::DriverError;
use gpu::arguments::ArgumentError;

/// Why an operation of this stage did not run, or did not finish.
///
/// Every variant but [`Error::Driver`] is found before anything is launched.
// Not `non_exhaustive`: the error of stage 4 has a variant for each of these, and
// its conversion is complete.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A view, a size or a stride does not fit.
    #[error(transparent)]
    Argument(#[from] ArgumentError),

    /// The shapes of an attention problem do not fit each other, or it needs an option that this
    /// stage lacks.
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
    /// The argument that does not fit, such as `k`; `heads` if those of two arguments do not
    /// divide.
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
