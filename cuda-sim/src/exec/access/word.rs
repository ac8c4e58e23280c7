//! Words of host memory, read and written by relaxed atomics.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A word of memory, accessed atomically: other blocks may access device memory at the same time.
pub(crate) trait Word: Copy {
    /// # Safety
    /// The host address is valid for reads, and aligned.
    unsafe fn load(address: u64) -> Self;
    /// # Safety
    /// The host address is valid for writes, and aligned.
    unsafe fn store(self, address: u64);
}

macro_rules! word {
    ($($ty:ident, $atomic:ident;)*) => {$(
        impl Word for $ty {
            #[inline(always)]
            unsafe fn load(address: u64) -> Self {
                // SAFETY: promised by the caller.
                unsafe { $atomic::from_ptr(address as *mut $ty).load(Relaxed) }
            }
            #[inline(always)]
            unsafe fn store(self, address: u64) {
                // SAFETY: promised by the caller.
                unsafe { $atomic::from_ptr(address as *mut $ty).store(self, Relaxed) }
            }
        }
    )*};
}

word! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}
