//! Locks that survive a panic: the driver reports a panic as an error and goes on.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also after a panic in another holder: each critical section of this crate leaves
/// its data valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the condition no longer holds.
pub(crate) fn wait_while<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    condition: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    let guard = changed.wait_while(guard, condition);
    guard.unwrap_or_else(PoisonError::into_inner)
}
