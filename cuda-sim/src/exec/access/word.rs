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

/// `bytes` bytes at a host address, as words that are zero behind them.
///
/// # Safety
/// The bytes are there, and the address is aligned to words.
pub(crate) unsafe fn words_at(from: u64, bytes: u32) -> [u32; 4] {
    std::array::from_fn(|i| {
        let at = 4 * i as u32;
        let byte = |k: u32| {
            // SAFETY: promised by the caller.
            u32::from(unsafe { u8::load(from + u64::from(at + k)) }) << (8 * k)
        };
        match bytes.saturating_sub(at) {
            // SAFETY: promised by the caller.
            4.. => unsafe { u32::load(from + u64::from(at)) },
            rest => (0..rest).fold(0, |word, k| word | byte(k)),
        }
    })
}
