//! Memory pools.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::{driver::ffi::Handle, memory::arena::Arena};

/// A memory pool. All pools allocate from the same arena; a pool is an owner and a set of
/// remembered attributes.
pub(crate) struct Pool {
    pub(crate) handle: Handle,
    pub(crate) switches: Mutex<[i32; 3]>,
    pub(crate) release_threshold: AtomicU64,
    pub(crate) used_high: AtomicU64,
}

impl Pool {
    pub(crate) fn new(handle: Handle) -> Self {
        Self {
            handle,
            switches: Mutex::new([1; 3]),
            release_threshold: AtomicU64::new(0),
            used_high: AtomicU64::new(0),
        }
    }

    /// Bytes in use now, which also updates the highest value seen.
    pub(crate) fn used(&self, arena: &Arena) -> u64 {
        let used = arena.used_by_pool(self.handle);
        self.used_high.fetch_max(used, Ordering::Relaxed);
        used
    }
}
