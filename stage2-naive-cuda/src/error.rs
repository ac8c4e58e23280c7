use cudarc::driver::DriverError;

/// Why an operation of this stage did not run, or did not finish.
///
/// Every variant but [`Error::Driver`] is found before anything is launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A view is shorter than its sizes and strides say.
    #[error(
        "{operation}: `{argument}` has {actual} elements, but its sizes and strides reach over {needed}"
    )]
    TooShort {
        /// The operation that was called.
        operation: &'static str,
        /// The view that is too short.
        argument: &'static str,
        /// Elements in the view.
        actual: usize,
        /// Elements that the operation would touch, from the start of the view.
        needed: usize,
    },

    /// Two elements of an output have the same address, so the result would depend on the order of the threads.
    #[error("{operation}: the strides of the output `{argument}` let its elements overlap")]
    Overlap {
        /// The operation that was called.
        operation: &'static str,
        /// The output.
        argument: &'static str,
    },

    /// A size is beyond what the kernels can index.
    #[error("{operation}: `{argument}` is {actual}, above the limit of {limit}")]
    TooLarge {
        /// The operation that was called.
        operation: &'static str,
        /// The size, or the product of sizes.
        argument: &'static str,
        /// Its value; `usize::MAX` if it overflowed.
        actual: usize,
        /// The largest value allowed.
        limit: usize,
    },

    /// The heads of `a` cannot be shared out evenly among those of `b`.
    #[error("{operation}: {heads} heads are not a multiple of the {b_heads} heads of `b`")]
    HeadGroups {
        /// The operation that was called.
        operation: &'static str,
        /// Heads of `a`.
        heads: usize,
        /// Heads of `b`.
        b_heads: usize,
    },

    /// A view lies on another device than the kernels.
    #[error(
        "{operation}: `{argument}` is on device {actual}, but the kernels were loaded on device {expected}"
    )]
    WrongDevice {
        /// The operation that was called.
        operation: &'static str,
        /// The view on the wrong device.
        argument: &'static str,
        /// The ordinal of the view's device.
        actual: usize,
        /// The ordinal of the kernels' device.
        expected: usize,
    },

    /// The shapes of an attention problem do not fit each other.
    #[error(transparent)]
    Attention(#[from] stage1_reference::Error),

    /// A kernel could not be loaded.
    #[error(transparent)]
    Load(#[from] gpu::Error),

    /// The driver refused a call, or a kernel failed.
    #[error("{:?}: {}", .0.0, gpu::explanation(.0))]
    Driver(DriverError),
}

// Not `#[from]`, which would make it the source as well and print it twice, once on one line.
impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}
