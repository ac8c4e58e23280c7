//! Traces of the lanes of a warp at chosen source lines, from the simulator.

pub use cuda_sim::trace::{
    Access, AccessKind, Array, Lane, LaunchTrace, Pass, Selection, Space, Step, TraceError, Word,
};

use crate::{Backend, Error, backend};

/// Runs `work`, and gives a trace of each kernel that it launched, in order, or the reason why a
/// launch has none. Wait for streams in `work`: launches that have not ended are left out.
///
/// # Errors
///
/// [`Error::NoProfile`] on a GPU, before `work` is run. Those of [`backend`].
pub fn record<T>(
    selection: Selection,
    work: impl FnOnce() -> T,
) -> Result<(T, Vec<Result<LaunchTrace, TraceError>>), Error> {
    match backend()? {
        Backend::Simulator => Ok(cuda_sim::trace::record(selection, work)),
        Backend::Cuda => Err(Error::NoProfile),
    }
}
