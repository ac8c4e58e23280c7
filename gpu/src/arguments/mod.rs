//! Arguments of operations on a device: strides, checks before a launch, and copies from and to
//! host memory.
//!
//! Every stage checks its arguments with [`Checks`] before it launches anything, so that no kernel
//! reads or writes outside the views it was given. What does not fit is an [`ArgumentError`].

mod checks;
mod host;
mod strides;

use cudarc::driver::{LaunchArgs, PushKernelArg};

pub use checks::{ArgumentError, Checks, MAX_SIZE};
pub use host::{download, pack_bits, upload};
pub use strides::{Strided, Strides};

/// A kernel argument that may be left out: the kernel gets a null pointer instead.
pub trait OptionalArg {
    /// Pushes `argument`, or a null pointer if it is `None`.
    fn optional<T>(&mut self, argument: Option<T>) -> &mut Self
    where
        Self: PushKernelArg<T>;
}

impl OptionalArg for LaunchArgs<'_> {
    fn optional<T>(&mut self, argument: Option<T>) -> &mut Self
    where
        Self: PushKernelArg<T>,
    {
        match argument {
            Some(argument) => self.arg(argument),
            None => PushKernelArg::<&'static u64>::arg(self, &0),
        }
    }
}
