//! Stream capture: operations are kept in the order in which they were submitted, instead of run.
//!
//! The order respects every dependency, so a graph is replayed in it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
};

use super::{graph::Graph, operation::Operation};
use crate::{
    driver::ffi::{Handle, Result, Status},
    sync::lock,
};

/// A capture in progress.
pub(crate) struct Capture {
    /// The stream in which the capture began.
    pub(crate) origin: Handle,
    /// The graph that is captured. It has no nodes yet, and owns the allocations made while
    /// capturing.
    pub(crate) graph: Arc<Graph>,
    mode: u32,
    thread: ThreadId,
    operations: Mutex<Vec<Operation>>,
    invalid: AtomicBool,
}

/// `CUstreamCaptureMode`: any thread may end a relaxed capture.
pub(crate) const RELAXED: u32 = 2;

impl Capture {
    /// A capture of mode `mode` into an empty graph that begins in stream `origin`, in this thread.
    pub(crate) fn new(origin: Handle, graph: Arc<Graph>, mode: u32) -> Self {
        Self {
            origin,
            graph,
            mode,
            thread: thread::current().id(),
            operations: Mutex::default(),
            invalid: AtomicBool::new(false),
        }
    }

    /// True if the calling thread may end the capture.
    pub(crate) fn may_end_here(&self) -> bool {
        self.mode == RELAXED || self.thread == thread::current().id()
    }

    /// Takes out the operations, in order.
    pub(crate) fn take(&self) -> Vec<Operation> {
        std::mem::take(&mut *lock(&self.operations))
    }

    /// Adds an operation.
    pub(crate) fn add(&self, operation: Operation) -> Result {
        self.check_valid()?;
        lock(&self.operations).push(operation);
        Ok(())
    }

    /// Makes the graph the owner of an allocation. It lives as long as the graph.
    pub(crate) fn own(&self, addr: u64) {
        self.graph.allocations.own(addr);
    }

    /// True if the graph will own the allocation at `addr`.
    pub(crate) fn owns(&self, addr: u64) -> bool {
        self.graph.allocations.owns(addr)
    }

    /// Marks the capture as invalid: it can only be ended, and gives no graph.
    pub(crate) fn invalidate(&self) {
        self.invalid.store(true, Ordering::Release);
    }

    /// True if the capture can only be ended.
    pub(crate) fn is_invalid(&self) -> bool {
        self.invalid.load(Ordering::Acquire)
    }

    /// An error if the capture can only be ended.
    pub(crate) fn check_valid(&self) -> Result {
        if self.is_invalid() {
            return Err(Status::StreamCaptureInvalidated
                .error("an earlier call has invalidated this stream's capture; end it"));
        }
        Ok(())
    }

    /// A stream of this capture waits for an event that was recorded outside.
    pub(crate) fn wait_outside(&self) -> Result {
        self.check_valid()?;
        self.invalidate();
        Err(Status::StreamCaptureIsolation.error(
            "a stream that is being captured waits for an event recorded outside the capture",
        ))
    }
}
