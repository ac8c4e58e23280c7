//! Host callbacks (`cuLaunchHostFunc`, `cuStreamAddCallback`, host nodes of graphs) and addresses
//! of the calling program's memory.

use std::{cell::Cell, ffi::c_void};

/// `CUhostFn`.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// An address of the calling program's memory.
#[derive(Clone, Copy)]
pub(crate) struct HostAddress(pub(crate) *mut c_void);

// SAFETY: only an address. Its memory is used by `Operation::run` alone, under the promise of the
// call that made the operation: valid, and not used otherwise, until the stream has run it.
unsafe impl Send for HostAddress {}

// SAFETY: as above; a shared address gives no access by itself.
unsafe impl Sync for HostAddress {}

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// True if the calling thread is running a host callback, which must not call the driver.
pub(crate) fn in_host_function() -> bool {
    IN_HOST_FUNCTION.try_with(Cell::get).unwrap_or(false)
}

/// Calls the program's own function, in the worker's thread.
pub(crate) fn run_host_function(function: HostFunction, data: HostAddress) {
    IN_HOST_FUNCTION.set(true);
    // SAFETY: the caller of the function that submitted the call or added it to a graph promised
    // that `function` may be called with `data` from another thread. A panic cannot come through:
    // unwinding out of an `extern "C"` function aborts.
    unsafe { function(data.0) };
    IN_HOST_FUNCTION.set(false);
}
