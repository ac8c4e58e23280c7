//! Stream capture, and the graphs it makes.
//!
//! A capture keeps operations in the order in which they were submitted. That order respects every dependency, so a
//! graph is replayed in it, and needs no edges.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
};

use crate::{
    driver::{
        context::current,
        event::Event,
        ffi::Out,
        handle::Handle,
        operation::Operation,
        state::{driver, started},
        status::{Code, Error, Result, Status, guard},
        stream::{Stream, StreamKind, find},
    },
    memory::arena::Kind,
    sync::lock,
};

/// `CUstreamCaptureMode`: any thread may end a relaxed capture.
const RELAXED: u32 = 2;
/// `CUgraphInstantiate_flags` that this driver accepts: free on launch, upload, node priorities. None changes anything.
const INSTANTIATE_FLAGS: u64 = 1 | 2 | 8;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`.
const DEVICE_LAUNCH: u64 = 4;

/// A capture that is going on.
pub(crate) struct Capture {
    origin: Handle,
    context: Handle,
    mode: u32,
    thread: ThreadId,
    operations: Mutex<Vec<Operation>>,
    /// Streams that take part: the origin, and those that waited for an event of the capture.
    members: Mutex<Vec<Arc<Stream>>>,
    /// Allocations made while capturing. The graph owns them.
    allocations: Mutex<Vec<u64>>,
    invalid: AtomicBool,
}

impl Capture {
    /// Adds an operation.
    pub(crate) fn add(&self, operation: Operation) -> Result {
        self.check_valid()?;
        lock(&self.operations).push(operation);
        Ok(())
    }

    /// Makes the graph the owner of an allocation. It lives as long as the graph.
    pub(crate) fn own(&self, addr: u64) {
        lock(&self.allocations).push(addr);
    }

    /// Whether the graph will own the allocation at `addr`.
    pub(crate) fn owns(&self, addr: u64) -> bool {
        lock(&self.allocations).contains(&addr)
    }

    /// The capture can only be ended, and gives no graph.
    pub(crate) fn invalidate(&self) {
        self.invalid.store(true, Ordering::Release);
    }

    fn check_valid(&self) -> Result {
        if self.invalid.load(Ordering::Acquire) {
            return Err(Error::new(
                Status::StreamCaptureInvalidated,
                "an earlier call has invalidated this stream's capture; end it",
            ));
        }
        Ok(())
    }

    /// `stream`, which may take part in the capture `own`, waits for an event of this one: it takes part in it.
    pub(crate) fn join(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        own: Option<Arc<Capture>>,
    ) -> Result {
        self.check_valid()?;
        match own {
            Some(own) if Arc::ptr_eq(&own, self) => Ok(()),
            Some(own) => {
                self.invalidate();
                own.invalidate();
                Err(Error::new(
                    Status::StreamCaptureMerge,
                    "the stream and the event belong to two captures",
                ))
            }
            None if stream.kind == StreamKind::Legacy => {
                self.invalidate();
                Err(Error::new(
                    Status::StreamCaptureUnsupported,
                    "the default stream cannot be captured",
                ))
            }
            None => {
                stream.set_capture(Some(Arc::clone(self)));
                lock(&self.members).push(Arc::clone(stream));
                Ok(())
            }
        }
    }

    /// A stream of this capture waits for an event that was recorded outside.
    pub(crate) fn wait_outside(&self, event: &Event) -> Result {
        self.check_valid()?;
        if !event.recorded() {
            return Ok(());
        }
        self.invalidate();
        Err(Error::new(
            Status::StreamCaptureIsolation,
            "a stream that is being captured waits for an event recorded outside the capture",
        ))
    }
}

/// A graph, or an instantiated one: the two differ in their tables only.
pub(crate) struct Graph {
    handle: Handle,
    pub(crate) context: Handle,
    operations: Arc<[Operation]>,
    allocations: Arc<Owned>,
}

/// Allocations made while capturing: freed with the last graph that was made of the capture.
struct Owned(Vec<u64>);

impl Drop for Owned {
    fn drop(&mut self) {
        let Ok(driver) = started() else { return };
        for &addr in &self.0 {
            // Fails if the program has freed it, which it may.
            let _ = driver.arena.free(addr, &[Kind::Device]);
        }
    }
}

/// Begins to capture a stream's operations instead of running them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) -> Code {
    guard(|| {
        let stream = find(driver()?, stream)?;
        if mode > RELAXED {
            return Err(Error::value(format!("{mode} is no CUstreamCaptureMode")));
        }
        if stream.kind == StreamKind::Legacy {
            return Err(Error::new(
                Status::StreamCaptureUnsupported,
                "the default stream cannot be captured: create a stream",
            ));
        }
        if stream.capture().is_some() {
            return Err(Error::new(
                Status::IllegalState,
                "the stream is being captured already",
            ));
        }
        let capture = Arc::new(Capture {
            origin: stream.handle,
            context: stream.context,
            mode,
            thread: thread::current().id(),
            operations: Mutex::default(),
            members: Mutex::new(vec![Arc::clone(&stream)]),
            allocations: Mutex::default(),
            invalid: AtomicBool::new(false),
        });
        stream.set_capture(Some(capture));
        Ok(())
    })
}

/// Ends a capture and returns its graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = find(driver, stream)?;
        graph.check("phGraph")?;
        let capture = stream
            .capture()
            .ok_or_else(|| Error::new(Status::IllegalState, "the stream is not being captured"))?;
        if capture.origin != stream.handle {
            return Err(Error::new(
                Status::StreamCaptureUnmatched,
                "the capture began in another stream",
            ));
        }
        if capture.mode != RELAXED && capture.thread != thread::current().id() {
            return Err(Error::new(
                Status::StreamCaptureWrongThread,
                "the capture began in another thread",
            ));
        }
        for member in lock(&capture.members).drain(..) {
            member.set_capture(None);
        }
        let allocations = Arc::new(Owned(std::mem::take(&mut *lock(&capture.allocations))));
        if let Err(error) = capture.check_valid() {
            graph.set("phGraph", 0)?;
            return Err(error);
        }
        let operations = std::mem::take(&mut *lock(&capture.operations)).into();
        let context = capture.context;
        let new = driver.graphs.insert(|handle| Graph {
            handle,
            context,
            operations,
            allocations,
        });
        graph.set("phGraph", new.handle)
    })
}

/// Whether a stream is being captured: a `CUstreamCaptureStatus`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: Out<u32>) -> Code {
    guard(|| {
        let capture = find(driver()?, stream)?.capture();
        let invalid = capture
            .as_ref()
            .is_some_and(|capture| capture.invalid.load(Ordering::Acquire));
        status.set(
            "captureStatus",
            u32::from(capture.is_some()) + u32::from(invalid),
        )
    })
}

/// Makes a graph ready to launch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: Out<Handle>,
    graph: Handle,
    flags: u64,
) -> Code {
    guard(|| {
        let driver = driver()?;
        executable.check("phGraphExec")?;
        let graph = driver.graphs.get(graph)?;
        match flags {
            DEVICE_LAUNCH => return Err(Error::unsupported("graph launches from the device")),
            _ if flags & !INSTANTIATE_FLAGS != 0 => {
                return Err(Error::value(format!(
                    "{flags:#x} are no valid CUgraphInstantiate_flags"
                )));
            }
            _ => {}
        }
        let new = driver.executables.insert(|handle| Graph {
            handle,
            context: graph.context,
            operations: Arc::clone(&graph.operations),
            allocations: Arc::clone(&graph.allocations),
        });
        executable.set("phGraphExec", new.handle)
    })
}

/// Prepares a launch, which needs no preparation here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphUpload(executable: Handle, stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.executables.get(executable)?;
        find(driver, stream)?;
        Ok(())
    })
}

/// Runs a graph's operations in a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(executable: Handle, stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let graph = driver.executables.get(executable)?;
        let stream = find(driver, stream)?;
        stream.submit(driver, Operation::Graph(Arc::clone(&graph.operations)))
    })
}

/// Destroys an instantiated graph. Launches that were submitted still run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecDestroy(executable: Handle) -> Code {
    guard(|| driver()?.executables.remove(executable).map(drop))
}

/// Destroys a graph. Executables made of it live on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroy(graph: Handle) -> Code {
    guard(|| {
        current(driver()?)?;
        driver()?.graphs.remove(graph).map(drop)
    })
}
