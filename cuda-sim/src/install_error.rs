//! Errors of installing the simulated driver.

/// Why the simulated driver could not be installed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstallError {
    /// An environment variable has a value that it does not take.
    #[error("{name} is `{value}`: it must be {takes}")]
    Setting {
        /// The variable: `CUDA_SIM_…`.
        name: &'static str,
        /// Its value.
        value: String,
        /// Values that it takes.
        takes: String,
    },
    /// Simulated device memory could not be set up.
    #[error("{reason}")]
    Memory {
        /// Text of the operating system.
        reason: String,
    },
    /// The driver library could not be put into memory or loaded from there.
    #[error("cannot {step}: {reason}")]
    Load {
        /// Step that failed.
        step: &'static str,
        /// Text of the operating system or of the dynamic loader.
        reason: String,
    },
    /// Another `libcuda.so` was loaded into this process before.
    #[error(
        "another libcuda.so is loaded in this process: install the simulated driver before the first CUDA call"
    )]
    AnotherDriver,
}
