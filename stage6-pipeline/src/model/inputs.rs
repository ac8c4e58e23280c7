//! Tokens and positions of a pass, in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, DriverError};

/// A token and a position for each row of a pass. A decode step replaces the tokens by
/// the likeliest next ones and advances the positions, so that a step that follows it
/// needs nothing from the host.
#[derive(Debug)]
pub(super) struct Inputs {
    pub tokens: CudaSlice<i32>,
    pub positions: CudaSlice<i32>,
    /// The first tokens on the device, as far as the host knows them.
    known_tokens: Vec<i32>,
    known_positions: Vec<i32>,
}

impl Inputs {
    pub fn new(stream: &Arc<CudaStream>, rows: usize) -> Result<Self, DriverError> {
        Ok(Self {
            tokens: stream.alloc_zeros(rows.max(1))?,
            positions: stream.alloc_zeros(rows.max(1))?,
            known_tokens: Vec::new(),
            known_positions: Vec::new(),
        })
    }

    /// Copies the first rows to the device, as far as it has others.
    pub fn set(
        &mut self,
        stream: &Arc<CudaStream>,
        tokens: Vec<i32>,
        positions: Vec<i32>,
    ) -> Result<(), DriverError> {
        if !self.known_tokens.starts_with(&tokens) {
            stream.memcpy_htod(&tokens, &mut self.tokens)?;
            self.known_tokens = tokens;
        }
        if !self.known_positions.starts_with(&positions) {
            stream.memcpy_htod(&positions, &mut self.positions)?;
            self.known_positions = positions;
        }
        Ok(())
    }

    /// Kernels have been launched that advance the first `rows` positions.
    pub fn advance(&mut self, rows: usize) {
        for position in self.known_positions.iter_mut().take(rows) {
            *position += 1;
        }
    }

    /// Kernels have been launched that write tokens.
    pub fn forget_tokens(&mut self) {
        self.known_tokens.clear();
    }

    /// Kernels that write tokens and positions have failed: any of them may have run.
    pub fn forget(&mut self) {
        self.known_tokens.clear();
        self.known_positions.clear();
    }

    /// The first `rows` tokens on the device.
    pub fn read_tokens(
        &mut self,
        stream: &Arc<CudaStream>,
        rows: usize,
    ) -> Result<&[i32], DriverError> {
        if self.known_tokens.len() < rows {
            self.known_tokens = stream.clone_dtoh(&self.tokens.slice(..rows))?;
        }
        Ok(&self.known_tokens)
    }

    pub fn tokens(&self, rows: usize) -> CudaView<'_, i32> {
        self.tokens.slice(..rows)
    }

    pub fn positions(&self, rows: usize) -> CudaView<'_, i32> {
        self.positions.slice(..rows)
    }
}
