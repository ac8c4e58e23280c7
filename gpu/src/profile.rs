//! Counters of launches, from the simulator.
//!
//! ```no_run
//! # fn launches() {}
//! let ((), profiles) = gpu::profile::profile(launches)?;
//! println!("{} sectors", profiles[0].total.global().sectors);
//! # Ok::<(), gpu::Error>(())
//! ```

pub use cuda_sim::{
    Class, Counters, LaunchProfile, LineProfile, ModelledTime, Resource, Resources, Sectors,
    Wavefronts,
};

use crate::{Backend, Error, backend};

/// Runs `work`, and gives a profile of each kernel that it launched, in order.
///
/// # Errors
///
/// [`Error::NoProfile`] on a GPU, before `work` is run: use Nsight Compute there. Those of [`backend`].
pub fn profile<T>(work: impl FnOnce() -> T) -> Result<(T, Vec<LaunchProfile>), Error> {
    match backend()? {
        Backend::Simulator => Ok(cuda_sim::profile(work)),
        Backend::Cuda => Err(Error::NoProfile),
    }
}
