//! Memory for the outputs of the parts of sequences.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DriverError};
use gpu::arguments::{ArgumentError, Checks};

/// Number of splits of a sequence, and device memory for the outputs of the parts. Steps that
/// share a workspace must be in the order of one stream; cudarc sees to it unless its
/// tracking of events is disabled.
#[derive(Debug)]
pub struct Workspace {
    splits: usize,
    /// `[B, H, nq, splits, D]`.
    pub(crate) parts: CudaSlice<f32>,
    /// `[B, H, nq, splits]`.
    pub(crate) lse: CudaSlice<f32>,
}

impl Workspace {
    /// Room for `queries = B · H · nq` rows of `head_dim` columns in `splits` parts:
    /// `queries · splits · (head_dim + 1)` floats. Of one part, which needs none of
    /// it, nothing is allocated.
    ///
    /// # Errors
    ///
    /// The driver's, if the device has not enough memory.
    pub fn new(
        stream: &Arc<CudaStream>,
        splits: usize,
        queries: usize,
        head_dim: usize,
    ) -> Result<Self, DriverError> {
        let parts = if splits == 1 {
            0
        } else {
            queries.saturating_mul(splits)
        };
        // The driver allocates no 0 bytes. It has too little memory for as many as a
        // number of bytes can tell.
        let room = |floats: usize| floats.clamp(1, usize::MAX / 8);
        let [parts, lse] = [parts.saturating_mul(head_dim), parts].map(room);
        // SAFETY: floats have no invalid values, and the kernels write every element that is read.
        let [parts, lse] = unsafe { [stream.alloc(parts)?, stream.alloc(lse)?] };
        Ok(Self { splits, parts, lse })
    }

    /// Number of splits of a sequence.
    pub fn splits(&self) -> usize {
        self.splits
    }

    pub(crate) fn check(
        &self,
        checks: &Checks,
        queries: usize,
        head_dim: usize,
    ) -> Result<(), ArgumentError> {
        checks.device("workspace", self.parts.context())?;
        let rows = queries.saturating_mul(self.splits);
        let room = self.parts.len() / head_dim.max(1);
        if self.splits > 1 && rows > room.min(self.lse.len()) {
            let expected = format_args!("room for {rows} parts of rows");
            return Err(checks.error("workspace", expected, room));
        }
        Ok(())
    }
}
