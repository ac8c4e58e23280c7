//! Locks that survive a panic: the driver reports a panic as an error and goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also after a panic in another holder: each critical section of this crate leaves its data valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
