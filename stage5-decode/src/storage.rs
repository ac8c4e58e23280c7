//! Device memory of the caches: keys and values of a layer, and the counts of each sequence.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError};
use gpu::arguments::upload;

use crate::PerSequence;

/// Keys and values of one layer.
#[derive(Debug)]
pub(crate) struct KeysAndValues {
    pub(crate) k: CudaSlice<u8>,
    pub(crate) v: CudaSlice<u8>,
}

impl KeysAndValues {
    /// `layers` layers of `bytes` bytes of keys and as many of values, not initialised.
    pub(crate) fn layers(
        stream: &Arc<CudaStream>,
        layers: usize,
        bytes: usize,
    ) -> Result<Vec<Self>, DriverError> {
        let bytes = bytes.max(1); // the driver allocates no 0 bytes
        let layer = |_| {
            // SAFETY: bytes have no invalid values, and no row is read before it is written.
            let [k, v] = unsafe { [stream.alloc(bytes)?, stream.alloc(bytes)?] };
            Ok(Self { k, v })
        };
        (0..layers).map(layer).collect()
    }
}

/// Tokens of each sequence, and how many of them are new: `[B]` both, on the host and in device memory.
#[derive(Debug)]
pub(crate) struct Counts {
    lengths: Vec<usize>,
    new: Vec<usize>,
    /// `lengths`, then `new`: `[2, B]`.
    device: CudaSlice<i32>,
}

impl Counts {
    /// `batch` sequences of no tokens.
    pub(crate) fn new(stream: &Arc<CudaStream>, batch: usize) -> Result<Self, DriverError> {
        let zeros = vec![0; batch];
        Ok(Self {
            device: upload(stream, &vec![0; 2 * batch])?,
            lengths: zeros.clone(),
            new: zeros,
        })
    }

    /// Replaces the counts by those of as many sequences, or of others. Each is at most `i32::MAX`.
    pub(crate) fn set(
        &mut self,
        stream: &Arc<CudaStream>,
        lengths: Vec<usize>,
        new: Vec<usize>,
    ) -> Result<(), DriverError> {
        let numbers = Vec::from_iter(lengths.iter().chain(&new).map(|&x| x as i32));
        if lengths.len() == self.lengths.len() {
            stream.memcpy_htod(&numbers, &mut self.device)?;
        } else {
            self.device = upload(stream, &numbers)?;
        }
        (self.lengths, self.new) = (lengths, new);
        Ok(())
    }

    /// The context of the device memory.
    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        self.device.context()
    }

    /// Tokens of each sequence.
    pub(crate) fn lengths(&self) -> PerSequence<'_> {
        PerSequence {
            host: &self.lengths,
            device: self.device.slice(..self.lengths.len()),
        }
    }

    /// New tokens of each sequence, which are among its last.
    pub(crate) fn new_tokens(&self) -> PerSequence<'_> {
        PerSequence {
            host: &self.new,
            device: self.device.slice(self.lengths.len()..),
        }
    }
}
