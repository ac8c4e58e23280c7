//! Counters of launches, and counts of allocations and copies, from the simulator.
//!
//! ```no_run
//! # fn launches() {}
//! let ((), profiles) = gpu::profile::profile(launches)?;
//! println!("{} sectors", profiles[0].total.global().sectors);
//! # Ok::<(), gpu::Error>(())
//! ```

pub use cuda_sim::{
    Class, Counters, LaunchProfile, LineProfile, MemoryOperations, ModelledTime, Phase, Recording,
    Resource, Resources, Sectors, Total, Wavefronts,
};

use crate::{Backend, Error, backend};

/// Runs `work`, and gives a profile of each kernel that it launched, in order.
///
/// # Errors
///
/// [`Error::NoProfile`] on a GPU, before `work` is run: use Nsight Compute there. Those of
/// [`backend`].
pub fn profile<T>(work: impl FnOnce() -> T) -> Result<(T, Vec<LaunchProfile>), Error> {
    let (result, recording) = record(work)?;
    Ok((result, recording.launches))
}

/// Runs `work`, and gives a profile of each kernel that it launched and counts of its allocations,
/// frees, copies and fills: those that this thread asked for and that have ended, so wait for
/// streams in `work`. See [`MemoryOperations`].
///
/// # Errors
///
/// Those of [`profile`].
pub fn record<T>(work: impl FnOnce() -> T) -> Result<(T, Recording), Error> {
    match backend()? {
        Backend::Simulator => Ok(cuda_sim::record(work)),
        Backend::Cuda => Err(Error::NoProfile),
    }
}
