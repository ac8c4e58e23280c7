//! Progress of a stream: operations that were submitted and have ended, and their first error.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::clock::{self, Moment};
use crate::{
    driver::ffi::{Error, Result, Status, keep_launch},
    profile::Record,
    sync::{lock, wait_while},
};

/// Progress of a stream. Its events share it.
#[derive(Default)]
pub(crate) struct Progress {
    /// Held while an operation is submitted, and while it runs if the stream is inline.
    order: Mutex<()>,
    state: Mutex<State>,
    /// Signalled when the worker has done an operation.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Operations sent to the worker.
    submitted: u64,
    /// Operations that the worker has done.
    completed: u64,
    /// The first error of the worker's operations that nobody has been told of.
    failure: Option<Error>,
    /// The worker's last kernel that no thread has taken over.
    launch: Option<Arc<Record>>,
    /// Modelled end of the last operation.
    clock: Moment,
}

impl Progress {
    /// Keeps other threads from submitting until the guard is dropped.
    pub(super) fn submitting(&self) -> MutexGuard<'_, ()> {
        lock(&self.order)
    }

    /// Counts an operation that has been sent to the worker.
    pub(super) fn count_submitted(&self) {
        lock(&self.state).submitted += 1;
    }

    /// The worker has done an operation, which ended at `now`.
    pub(super) fn complete(&self, now: Moment, outcome: Result<Option<Arc<Record>>>) {
        let mut state = lock(&self.state);
        state.completed += 1;
        state.clock = now;
        match outcome {
            Ok(record) => state.launch = record.or(state.launch.take()),
            Err(error) => {
                state.failure.get_or_insert(error);
            }
        }
        self.changed.notify_all();
    }

    /// Modelled end of the last operation.
    pub(crate) fn clock(&self) -> Moment {
        lock(&self.state).clock
    }

    /// An operation that ran inline ended at `now`.
    pub(super) fn set_clock(&self, now: Moment) {
        lock(&self.state).clock = now;
    }

    /// True if everything submitted so far is done.
    pub(crate) fn is_idle(&self) -> bool {
        let Ok(_order) = self.order.try_lock() else {
            return false;
        };
        let state = lock(&self.state);
        state.completed == state.submitted
    }

    /// Waits for everything submitted so far, and leaves a failure to whoever asks for it.
    pub(crate) fn settle(&self) {
        drop(self.settled());
    }

    fn settled(&self) -> MutexGuard<'_, State> {
        drop(lock(&self.order)); // Another thread may be running an operation inline.
        let state = lock(&self.state);
        let target = state.submitted;
        let state = wait_while(&self.changed, state, |state| state.completed < target);
        clock::host_sees(state.clock);
        state
    }

    /// Code of the failure that the worker keeps back; success if there is none.
    pub(crate) fn kept_failure(&self) -> Status {
        let state = lock(&self.state);
        state
            .failure
            .as_ref()
            .map_or(Status::Success, Error::status)
    }

    /// Waits for everything submitted so far. Returns the failure that the worker has kept back,
    /// once.
    pub(crate) fn drain(&self) -> Result {
        let mut state = self.settled();
        if let Some(record) = state.launch.take() {
            keep_launch(record);
        }
        state.failure.take().map_or(Ok(()), Err)
    }
}

/// The error that is an answer: not yet.
pub(crate) fn not_ready() -> Error {
    Status::NotReady.error("not all work that was submitted is done")
}
