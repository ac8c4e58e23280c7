//! Streams: inline until something has to wait, then a queue with a worker thread.
//!
//! An operation on an **inline** stream runs inside the call that submits it, so an error, a kernel fault included, is
//! that call's own. The first host callback, or the first wait for an event that is still to come, turns the
//! stream into a **queue** for good: operations run in order in a thread of the stream, and the first error
//! among them is returned once, by the next call that waits for the stream.

use std::{
    cell::Cell,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use crate::{
    driver::{
        clock::{self, Moment},
        context::current,
        event::Event,
        ffi::Out,
        graph::Capture,
        handle::Handle,
        launch::Terms,
        operation::{HostAddress, HostFunction, Operation},
        state::{Driver, driver},
        status::{Code, Error, Result, Status, catch, guard, keep_launch},
    },
    profile::Record,
    sync::lock,
};

/// How a stream relates to the default stream of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The default stream: waits for every blocking stream, and they for it.
    Legacy,
    /// Created with `CU_STREAM_DEFAULT`.
    Blocking,
    /// Created with `CU_STREAM_NON_BLOCKING`: knows nothing of the default stream.
    NonBlocking,
}

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// A stream of a context.
pub(crate) struct Stream {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    pub(crate) kind: StreamKind,
    priority: i32,
    /// Held while an operation is submitted, and while it runs if the stream is inline.
    order: Mutex<()>,
    state: Mutex<State>,
    /// Signalled when the worker has done an operation.
    progress: Condvar,
}

#[derive(Default)]
struct State {
    /// The worker's queue, if the stream has one.
    worker: Option<Sender<Submitted>>,
    submitted: u64,
    completed: u64,
    /// The first error of the worker's operations that nobody has been told of.
    failure: Option<Error>,
    /// The worker's last kernel that no thread has taken over.
    launch: Option<Arc<Record>>,
    capture: Option<Arc<Capture>>,
    /// Modelled time when what has been done so far had ended.
    clock: Moment,
}

/// An operation on its way, its terms, and the modelled time at which it starts at the earliest.
type Submitted = (Operation, Terms, Moment, Pending);

/// An operation that was submitted, until it has ended.
struct Pending {
    driver: &'static Driver,
    number: u64,
}

impl Pending {
    fn new(operation: &Operation) -> Result<Pending> {
        let driver = driver()?;
        let pending = Pending {
            driver,
            number: driver.arena.begin_operation(),
        };
        operation.submitted(&driver.arena, pending.number)?;
        Ok(pending)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.driver.arena.end_operation(self.number);
    }
}

impl Stream {
    pub(crate) fn new(handle: Handle, context: Handle, kind: StreamKind, priority: i32) -> Self {
        Self {
            handle,
            context,
            kind,
            priority,
            order: Mutex::default(),
            state: Mutex::default(),
            progress: Condvar::new(),
        }
    }

    /// Runs `operation` in the order of this stream, or adds it to the capture that is going on.
    pub(crate) fn submit(self: &Arc<Self>, driver: &Driver, operation: Operation) -> Result {
        if let Some(capture) = self.capture() {
            return capture.add(operation);
        }
        self.enqueue(driver, operation)
    }

    /// Runs `operation` in the order of this stream, whether or not a capture is going on.
    pub(crate) fn enqueue(self: &Arc<Self>, driver: &Driver, operation: Operation) -> Result {
        let earliest = self.wait_for_others(driver)?;
        self.perform(operation, earliest)
    }

    /// Puts what follows after the work that the default stream's rules say comes first, and returns the modelled time
    /// at which it starts at the earliest.
    fn wait_for_others(self: &Arc<Self>, driver: &Driver) -> Result<Moment> {
        let mut earliest = clock::host();
        let before: Vec<Arc<Stream>> = match self.kind {
            StreamKind::NonBlocking => return Ok(earliest),
            StreamKind::Legacy => driver.streams.select(|stream| {
                stream.context == self.context && stream.kind == StreamKind::Blocking
            }),
            StreamKind::Blocking => vec![driver.contexts.get(self.context)?.stream(driver, 0)?],
        };
        for stream in before {
            if stream.is_idle() {
                earliest = earliest.max(lock(&stream.state).clock);
                continue;
            }
            let event = Arc::new(Event::new(0, self.context, false));
            let ticket = event.number();
            let record = Operation::Record {
                event: Arc::clone(&event),
                ticket,
            };
            stream.perform(record, Moment::default())?;
            self.perform(Operation::Wait { event, ticket }, earliest)?;
        }
        Ok(earliest)
    }

    /// Runs `operation`, or queues it; it starts at the modelled time `earliest` or later.
    fn perform(self: &Arc<Self>, operation: Operation, earliest: Moment) -> Result {
        let _order = lock(&self.order);
        let mut state = lock(&self.state);
        if state.worker.is_none() && operation.needs_worker() {
            state.worker = Some(self.start_worker()?);
        }
        let pending = Pending::new(&operation)?;
        let terms = Terms::present(pending.number);
        if let Some(worker) = &state.worker {
            let sent = worker.send((operation, terms, earliest, pending));
            sent.map_err(|_| Error::new(Status::Unknown, "the stream's worker thread has ended"))?;
            state.submitted += 1;
            return Ok(());
        }
        let mut now = state.clock.max(earliest);
        drop(state);
        let outcome = operation.run(&terms, &mut now);
        drop(pending);
        lock(&self.state).clock = now;
        if let Some(record) = outcome? {
            keep_launch(record);
        }
        Ok(())
    }

    fn start_worker(self: &Arc<Self>) -> Result<Sender<Submitted>> {
        let (sender, receiver) = channel();
        let stream = Arc::clone(self);
        let spawned = thread::Builder::new()
            .name("cuda-sim stream".to_owned())
            .spawn(move || stream.work(receiver));
        spawned.map_err(|error| {
            Error::new(
                Status::OperatingSystem,
                format!("no thread for the stream: {error}"),
            )
        })?;
        Ok(sender)
    }

    fn work(&self, operations: Receiver<Submitted>) {
        for (operation, terms, earliest, pending) in operations {
            let mut now = lock(&self.state).clock.max(earliest);
            let outcome = catch(|| operation.run(&terms, &mut now));
            drop((operation, terms, pending));
            let mut state = lock(&self.state);
            state.completed += 1;
            state.clock = now;
            match outcome {
                Ok(record) => state.launch = record.or(state.launch.take()),
                Err(error) => {
                    state.failure.get_or_insert(error);
                }
            }
            self.progress.notify_all();
        }
    }

    /// Whether everything submitted so far is done.
    pub(crate) fn is_idle(&self) -> bool {
        let Ok(_order) = self.order.try_lock() else {
            return false;
        };
        let state = lock(&self.state);
        state.completed == state.submitted
    }

    /// Whether operations are queued for a worker.
    pub(crate) fn is_queued(&self) -> bool {
        lock(&self.state).worker.is_some()
    }

    /// Waits for everything submitted so far, and leaves a failure to whoever asks for it.
    pub(crate) fn settle(&self) {
        drop(self.settled());
    }

    fn settled(&self) -> MutexGuard<'_, State> {
        drop(lock(&self.order)); // Another thread may be running an operation inline.
        let mut state = lock(&self.state);
        let target = state.submitted;
        while state.completed < target {
            state = self
                .progress
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        clock::host_sees(state.clock);
        state
    }

    /// Waits for everything submitted so far. Returns the failure that the worker has kept back, once.
    pub(crate) fn drain(&self) -> Result {
        let mut state = self.settled();
        if let Some(record) = state.launch.take() {
            keep_launch(record);
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Lets the worker end when its queue is empty.
    pub(crate) fn close(&self) {
        lock(&self.state).worker = None;
    }

    /// The capture that this stream takes part in.
    pub(crate) fn capture(&self) -> Option<Arc<Capture>> {
        lock(&self.state).capture.clone()
    }

    /// Begins or ends taking part in a capture.
    pub(crate) fn set_capture(&self, capture: Option<Arc<Capture>>) {
        lock(&self.state).capture = capture;
    }

    /// An error, and the end of the capture, if one is going on: for calls that wait.
    pub(crate) fn check_not_capturing(&self, what: &str) -> Result {
        match self.capture() {
            None => Ok(()),
            Some(capture) => {
                capture.invalidate();
                Err(Error::new(
                    Status::StreamCaptureUnsupported,
                    format!("{what} while the stream is being captured: a graph cannot hold it"),
                ))
            }
        }
    }
}

thread_local! {
    static IN_HOST_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is running a host callback, which must not call the driver.
pub(crate) fn in_host_callback() -> bool {
    IN_HOST_CALLBACK.try_with(Cell::get).unwrap_or(false)
}

/// Calls the program's own function, in the worker's thread.
pub(crate) fn run_host_function(function: HostFunction, data: HostAddress) {
    IN_HOST_CALLBACK.set(true);
    // SAFETY: the caller of `cuLaunchHostFunc` promised that `function` may be called with `data` from another
    // thread. A panic cannot come through: unwinding out of an `extern "C"` function aborts.
    unsafe { function(data.0) };
    IN_HOST_CALLBACK.set(false);
}

/// The stream of a handle, in the current context.
pub(crate) fn find(driver: &Driver, stream: Handle) -> Result<Arc<Stream>> {
    current(driver)?.stream(driver, stream)
}

fn create(stream: Out<Handle>, flags: u32, priority: i32) -> Result {
    let driver = driver()?;
    let context = current(driver)?;
    stream.check("phStream")?;
    let kind = match flags {
        0 => StreamKind::Blocking,
        NON_BLOCKING => StreamKind::NonBlocking,
        _ => return Err(Error::value(format!("{flags:#x} are no stream flags"))),
    };
    let range = crate::device::GREATEST_PRIORITY..=crate::device::LEAST_PRIORITY;
    let priority = priority.clamp(*range.start(), *range.end());
    let new = driver
        .streams
        .insert(|handle| Stream::new(handle, context.handle, kind, priority));
    stream.set("phStream", new.handle)
}

/// Creates a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: Out<Handle>, flags: u32) -> Code {
    guard(|| create(stream, flags, 0))
}

/// Creates a stream with a priority, which is remembered and changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: Out<Handle>,
    flags: u32,
    priority: i32,
) -> Code {
    guard(|| create(stream, flags, priority))
}

/// The priority a stream was created with, within the device's range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetPriority(stream: Handle, priority: Out<i32>) -> Code {
    guard(|| priority.set("priority", find(driver()?, stream)?.priority))
}

/// Destroys a stream. What was submitted still runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        current(driver)?;
        let stream = driver.streams.remove(stream)?;
        if let Some(capture) = stream.capture() {
            capture.invalidate();
        }
        stream.close();
        Ok(())
    })
}

/// Waits until a stream has done everything, and returns what went wrong in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = find(driver, stream)?;
        stream.check_not_capturing("cuStreamSynchronize")?;
        if stream.kind == StreamKind::Legacy {
            clock::host_sees(stream.wait_for_others(driver)?);
        }
        stream.drain()
    })
}

/// Whether a stream has done everything: `CUDA_ERROR_NOT_READY` if not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    guard(|| {
        let stream = find(driver()?, stream)?;
        stream.check_not_capturing("cuStreamQuery")?;
        if stream.is_idle() {
            stream.drain()
        } else {
            Err(not_ready())
        }
    })
}

/// The error that is an answer: not yet.
pub(crate) fn not_ready() -> Error {
    Error::new(Status::NotReady, "not all work that was submitted is done")
}

/// Makes all later work of a stream wait for an event's last record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = find(driver, stream)?;
        let event = driver.events.get(event)?;
        match (stream.capture(), event.capture()) {
            (None, None) => match event.last() {
                0 => Ok(()),
                ticket => stream.submit(driver, Operation::Wait { event, ticket }),
            },
            (own, Some(events)) => events.join(&stream, own),
            (Some(own), None) => own.wait_outside(&event),
        }
    })
}

/// Ties managed memory to a stream, which changes nothing here: every stream may use all of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamAttachMemAsync(
    stream: Handle,
    addr: u64,
    _bytes: usize,
    flags: u32,
) -> Code {
    const SINGLE: u32 = 4;
    guard(|| {
        let driver = driver()?;
        let stream = find(driver, stream)?;
        driver
            .arena
            .check_range("cuStreamAttachMemAsync", addr, 1)?;
        match flags {
            SINGLE if stream.kind == StreamKind::Legacy => Err(Error::value(
                "managed memory cannot be attached to the default stream alone",
            )),
            1 | 2 | SINGLE => Ok(()),
            _ => Err(Error::value(format!("{flags:#x} are no CUmemAttach_flags"))),
        }
    })
}

/// Calls a function of the program in stream order. It must not call the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(
    stream: Handle,
    function: Option<HostFunction>,
    data: *mut std::ffi::c_void,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = find(driver, stream)?;
        let function = function.ok_or_else(|| Error::value("fn is null"))?;
        stream.submit(
            driver,
            Operation::Host {
                function,
                data: HostAddress(data),
            },
        )
    })
}
