//! Keeps a record of what a piece of code asks the driver for: launches, allocations, copies.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use crate::profile::{LaunchProfile, Record};
use crate::sync::lock;

/// Requests of a piece of code to the driver, in one thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recording {
    /// The profiles of its launches, in the order of their ends.
    pub launches: Vec<LaunchProfile>,
    /// Its allocations, frees, copies and fills.
    pub memory: MemoryOperations,
    /// Calls that wait until the device is done: `cuCtxSynchronize`, `cuStreamSynchronize`,
    /// `cuEventSynchronize`. A copy to the host waits, too, and counts as a copy.
    pub waits: u64,
}

/// Counts of the calls that allocate, free, copy or fill memory, and of their bytes. Exact.
///
/// A call counts when it has succeeded; a copy, a fill or a free in stream order, when the stream
/// has run it. A copy in a CUDA graph counts at each launch of the graph, and its capture counts
/// nothing. An allocation counts once, also in a capture: the graph keeps it. Calls of 0 bytes and
/// frees of the null pointer do not count. Neither does memory that the driver takes or frees by
/// itself: variables of modules, parameters, and what a destroyed context or graph had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryOperations {
    /// Allocations of device, managed and pinned host memory.
    pub allocations: Total,
    /// Frees of such memory.
    pub frees: u64,
    /// Copies from host to device.
    pub to_device: Total,
    /// Copies from device to host.
    pub to_host: Total,
    /// Copies from device to device.
    pub on_device: Total,
    /// Fills (`cuMemset…`).
    pub fills: Total,
}

/// A number of operations, and the sum of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Operations.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Total {
    /// Counts an operation on `bytes` bytes.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes as u64;
    }
}

/// Receiver of records.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Records>>);

#[derive(Default)]
struct Records {
    launches: Vec<Arc<Record>>,
    memory: MemoryOperations,
    waits: u64,
}

impl Recorder {
    pub(crate) fn keep(&self, record: &Arc<Record>) {
        lock(&self.0).launches.push(Arc::clone(record));
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut MemoryOperations)) {
        add(&mut lock(&self.0).memory);
    }

    fn count_wait(&self) {
        lock(&self.0).waits += 1;
    }
}

thread_local! {
    static PRESENT: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// The recorder of what this thread asks for.
pub(crate) fn present() -> Option<Recorder> {
    PRESENT.try_with(|present| present.borrow().clone()).ok()?
}

/// Counts an operation on memory that this thread has asked for.
pub(crate) fn count(add: impl FnOnce(&mut MemoryOperations)) {
    if let Some(recorder) = present() {
        recorder.count(add);
    }
}

/// Counts a wait of this thread for the device.
pub(crate) fn count_wait() {
    if let Some(recorder) = present() {
        recorder.count_wait();
    }
}

/// Runs `f` and returns what it returns, with the profiles of its launches: [`Recording::launches`]
/// of [`record`].
pub fn profile<T>(f: impl FnOnce() -> T) -> (T, Vec<LaunchProfile>) {
    let (result, recording) = record(f);
    (result, recording.launches)
}

/// Runs `f` and returns what it returns, with a record of what it asked the driver for in this
/// thread. Launches and copies that ended in a fault, or have not ended, are left out: wait for
/// streams in `f`. A kernel in a CUDA graph is launched by each launch of the graph; its capture
/// launches nothing. Inside another `record`, only the inner one gets a record.
pub fn record<T>(f: impl FnOnce() -> T) -> (T, Recording) {
    let recorder = Recorder::default();
    let before = PRESENT.replace(Some(recorder.clone()));
    let _restore = Restore(before);
    let result = f();
    let Records {
        launches,
        memory,
        waits,
    } = std::mem::take(&mut *lock(&recorder.0));
    let recording = Recording {
        launches: launches.iter().map(|record| record.profile()).collect(),
        memory,
        waits,
    };
    (result, recording)
}

/// Puts the recorder back that was there before, also after a panic.
struct Restore(Option<Recorder>);

impl Drop for Restore {
    fn drop(&mut self) {
        PRESENT.set(self.0.take());
    }
}
