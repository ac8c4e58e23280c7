//! Pages of zeros: from the operating system, or from the memory of a WebAssembly module.

#[cfg(not(target_arch = "wasm32"))]
mod system;
#[cfg(target_arch = "wasm32")]
mod web;

#[cfg(all(test, not(target_arch = "wasm32")))]
pub(super) use system::in_use;
#[cfg(not(target_arch = "wasm32"))]
pub(super) use system::{clear, free_addresses, map, map_at, prefer_large, unmap};
#[cfg(target_arch = "wasm32")]
pub(super) use web::{clear, free_addresses, map, map_at, prefer_large, unmap};

/// Bytes of a page of the operating system.
pub(super) const PAGE: u64 = 4096;
