//! Streams: inline until something has to wait, then a queue with a worker thread.
//!
//! An operation on an **inline** stream runs inside the call that submits it, and that call returns
//! its error, also a kernel fault. The first host callback, or the first wait for an event that is
//! not reached yet, makes the stream a **queue** for the rest of its life: operations run in order
//! in a thread of the stream, and the next call that waits for the stream returns the first error
//! among them, once.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use super::{capture::Capture, clock::Moment, operation::Operation, progress::Progress};

use crate::{
    driver::ffi::{Handle, Result, Status, catch, keep_launch},
    launch::Submission,
    memory::arena::Arena,
    sync::lock,
};

/// Relation of a stream to the default stream of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The default stream: waits for every blocking stream, and they for it.
    Legacy,
    /// Created with `CU_STREAM_DEFAULT`.
    Blocking,
    /// Created with `CU_STREAM_NON_BLOCKING`: not ordered with the default stream.
    NonBlocking,
}

/// A stream of a context.
pub(crate) struct Stream {
    pub(crate) handle: Handle,
    /// No other stream of the process has this number, also where default streams share a handle.
    pub(crate) id: u64,
    pub(crate) context: Handle,
    pub(crate) kind: StreamKind,
    pub(crate) priority: i32,
    pub(crate) progress: Arc<Progress>,
    /// The worker's queue, if the stream has one.
    worker: Mutex<Option<Sender<Queued>>>,
    capture: Mutex<Option<Arc<Capture>>>,
}

/// An operation for the worker, its submission, and the modelled time at which it starts at the
/// earliest.
type Queued = (Operation, Submission, Moment, Pending);

/// An operation that was submitted, until it has ended.
struct Pending {
    arena: &'static Arena,
    number: u64,
}

impl Pending {
    fn new(operation: &Operation, arena: &'static Arena) -> Result<Pending> {
        let number = arena.begin_operation();
        let pending = Pending { arena, number };
        operation.submitted(arena, number)?;
        Ok(pending)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.arena.end_operation(self.number);
    }
}

impl Stream {
    pub(crate) fn new(handle: Handle, context: Handle, kind: StreamKind, priority: i32) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            handle,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            context,
            kind,
            priority,
            progress: Arc::default(),
            worker: Mutex::default(),
            capture: Mutex::default(),
        }
    }

    /// Runs `operation`, or queues it; it starts at the modelled time `earliest` or later.
    pub(crate) fn perform(
        &self,
        arena: &'static Arena,
        operation: Operation,
        earliest: Moment,
    ) -> Result {
        let _order = self.progress.submitting();
        let mut worker = lock(&self.worker);
        if worker.is_none() && operation.needs_worker() {
            *worker = Some(start_worker(arena, Arc::clone(&self.progress))?);
        }
        let pending = Pending::new(&operation, arena)?;
        let submission = Submission::by_this_thread(pending.number);
        if let Some(worker) = &*worker {
            let sent = worker.send((operation, submission, earliest, pending));
            sent.map_err(|_| Status::Unknown.error("the stream's worker thread has ended"))?;
            self.progress.count_submitted();
            return Ok(());
        }
        drop(worker);
        let clock = self.progress.clock();
        let mut now = clock.max(earliest);
        let outcome = operation.run(&submission, arena, &mut now, clock > earliest);
        drop(pending);
        self.progress.set_clock(now);
        if let Some(record) = outcome? {
            keep_launch(record);
        }
        Ok(())
    }

    /// True if operations are queued for a worker.
    pub(crate) fn is_queued(&self) -> bool {
        lock(&self.worker).is_some()
    }

    /// Lets the worker end when its queue is empty.
    pub(crate) fn close(&self) {
        *lock(&self.worker) = None;
    }

    /// The capture that this stream takes part in.
    pub(crate) fn capture(&self) -> Option<Arc<Capture>> {
        lock(&self.capture).clone()
    }

    /// Begins to take part in a capture.
    pub(crate) fn join(&self, capture: Arc<Capture>) {
        *lock(&self.capture) = Some(capture);
    }

    /// Stops taking part in `capture`, if the stream does.
    pub(crate) fn leave(&self, capture: &Arc<Capture>) {
        lock(&self.capture).take_if(|own| Arc::ptr_eq(own, capture));
    }

    /// An error, and the end of the capture, if one is going on: for calls that wait.
    pub(crate) fn check_not_capturing(&self, what: &str) -> Result {
        match self.capture() {
            None => Ok(()),
            Some(capture) => {
                capture.invalidate();
                Err(Status::StreamCaptureUnsupported.error(format!(
                    "{what} while the stream is being captured: a graph cannot hold it"
                )))
            }
        }
    }

    /// The stream waits for an event whose last record went into `capture`: it takes part in that
    /// capture.
    pub(crate) fn wait_captured(&self, capture: &Arc<Capture>) -> Result {
        capture.check_valid()?;
        match self.capture() {
            Some(own) if Arc::ptr_eq(&own, capture) => Ok(()),
            Some(own) => {
                capture.invalidate();
                own.invalidate();
                Err(Status::StreamCaptureMerge
                    .error("the stream and the event belong to two captures"))
            }
            None if self.kind == StreamKind::Legacy => {
                capture.invalidate();
                Err(Status::StreamCaptureUnsupported.error("the default stream cannot be captured"))
            }
            None => {
                self.join(Arc::clone(capture));
                Ok(())
            }
        }
    }
}

fn start_worker(arena: &'static Arena, progress: Arc<Progress>) -> Result<Sender<Queued>> {
    let (sender, receiver) = channel();
    let spawned = thread::Builder::new()
        .name("cuda-sim stream".to_owned())
        .spawn(move || work(arena, &progress, receiver));
    spawned.map_err(|error| {
        Status::OperatingSystem.error(format!("no thread for the stream: {error}"))
    })?;
    Ok(sender)
}

fn work(arena: &Arena, progress: &Progress, operations: Receiver<Queued>) {
    for (operation, submission, earliest, pending) in operations {
        let clock = progress.clock();
        let mut now = clock.max(earliest);
        let outcome = catch(|| operation.run(&submission, arena, &mut now, clock > earliest));
        drop((operation, submission, pending));
        progress.complete(now, outcome);
    }
}
