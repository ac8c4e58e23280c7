//! The warp that runs an instruction, as memory accesses see it.

use crate::exec::aligned_bytes::Bytes;
use crate::exec::registers::Registers;

/// Registers, local memory and active lanes of the warp.
pub(crate) struct ActiveWarp<'w> {
    pub registers: &'w mut Registers,
    /// Local memory, `local_bytes` per lane, one lane after the other.
    pub local: &'w mut Bytes,
    /// For each byte of local memory, 1 if it was written.
    pub local_written: &'w mut Bytes,
    pub local_bytes: u32,
    /// Number of the warp in its block.
    pub number: usize,
    pub mask: u32,
    pub pc: u32,
}
