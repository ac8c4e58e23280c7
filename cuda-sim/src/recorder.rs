//! Keeps the profiles of all launches that a piece of code asks for.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use crate::profile::{LaunchProfile, Record};
use crate::sync::lock;

/// Where records go.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<Arc<Record>>>>);

impl Recorder {
    pub(crate) fn keep(&self, record: &Arc<Record>) {
        lock(&self.0).push(Arc::clone(record));
    }
}

thread_local! {
    static PRESENT: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Where launches that this thread asks for are recorded.
pub(crate) fn present() -> Option<Recorder> {
    PRESENT.try_with(|present| present.borrow().clone()).ok()?
}

/// Runs `f` and returns what it returns, with the profiles of all launches that it asked for in this thread, in the
/// order of their ends. Launches that ended in a fault, or have not ended, are left out: wait for streams in `f`.
/// A kernel in a CUDA graph is launched by each launch of the graph; its capture launches nothing.
pub fn profile<T>(f: impl FnOnce() -> T) -> (T, Vec<LaunchProfile>) {
    let recorder = Recorder::default();
    let before = PRESENT.replace(Some(recorder.clone()));
    let _restore = Restore(before);
    let result = f();
    let records = std::mem::take(&mut *lock(&recorder.0));
    (
        result,
        records.iter().map(|record| record.profile()).collect(),
    )
}

/// Puts the recorder back that was there before, also after a panic.
struct Restore(Option<Recorder>);

impl Drop for Restore {
    fn drop(&mut self) {
        PRESENT.set(self.0.take());
    }
}
