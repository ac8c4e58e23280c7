//! An allocator that counts the bytes of host memory in use.
//!
//! A program installs it to have its peak of memory measured:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: conformance::memory::Counting = conformance::memory::Counting;
//!
//! use std::hint::black_box;
//!
//! let (bytes, _) = conformance::memory::extra(0, || black_box(vec![0u8; 1 << 20]));
//! assert!(bytes >= 1 << 20);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, which also counts.
#[derive(Debug)]
pub struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(in_use, Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(in_use, Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The peak of memory during `work`, less what was there before and `expected` bytes of results.
/// The counters are those of all threads.
pub fn extra<T>(expected: usize, work: impl FnOnce() -> T) -> (usize, T) {
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    (PEAK.load(Relaxed).saturating_sub(before + expected), result)
}
