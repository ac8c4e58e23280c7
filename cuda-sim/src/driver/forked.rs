//! Children of `fork`: the driver's threads do not exist there, and a call would wait for them for
//! ever. As with NVIDIA's driver, a child that is forked after the driver has started cannot use
//! it; one that runs another program can.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::driver::ffi::{Result, Status};

static FORKED: AtomicBool = AtomicBool::new(false);

/// Notes forks from now on.
pub(super) fn watch() {
    unsafe extern "C" fn note() {
        FORKED.store(true, Relaxed);
    }
    // SAFETY: the handler may run in any child: it writes an atomic and nothing else. Without
    // memory for it, which is the only failure, a child hangs.
    unsafe { libc::pthread_atfork(None, None, Some(note)) };
}

/// An error in a child of `fork`.
pub(super) fn check() -> Result {
    if FORKED.load(Relaxed) {
        let text = "this process was forked after cuda-sim had started: fork before the first CUDA call, or exec a \
                    program";
        return Err(Status::NotInitialized.error(text));
    }
    Ok(())
}
