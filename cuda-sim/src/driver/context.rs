//! Contexts, and the stack of current contexts of each thread.

use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread::ThreadId,
};

use crate::{
    driver::{
        ffi::Handle,
        streams::{Stream, StreamKind},
    },
    sync::lock,
};

/// `CUlimit` 0 to 6 and what an H100's driver starts with: stack bytes, printf buffer bytes, heap
/// bytes, device-runtime depth and launches, L2 fetch bytes, persisting L2 bytes.
const LIMITS: [usize; 7] = [1024, 1 << 20, 8 << 20, 2, 2048, 128, 0];

/// Index of the size of the printf buffer among the limits.
const PRINTF_FIFO_SIZE: usize = 1;

/// A context: an owner of streams, events, modules, graphs and memory, which end with it.
pub(crate) struct Context {
    pub(crate) handle: Handle,
    /// Number of times that a primary context is retained, or of uses that another one has. The
    /// context is alive while this is not 0.
    pub(crate) uses: AtomicUsize,
    /// Held while a primary context is retained or released. A thread that retains it waits until
    /// another thread's last release has ended; otherwise that end would free objects of the new
    /// user.
    pub(crate) lifecycle: Mutex<()>,
    pub(crate) primary: bool,
    legacy: Arc<Stream>,
    per_thread: Mutex<HashMap<ThreadId, Arc<Stream>>>,
    pub(crate) limits: Mutex<[usize; LIMITS.len()]>,
    pub(crate) flags: AtomicU32,
    pub(crate) cache_config: AtomicU32,
}

thread_local! {
    /// The stack of contexts of this thread; the last is current.
    static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

impl Context {
    pub(crate) fn new(handle: Handle, primary: bool) -> Self {
        Self {
            handle,
            uses: AtomicUsize::new(usize::from(!primary)),
            lifecycle: Mutex::default(),
            primary,
            legacy: Arc::new(Stream::new(0, handle, StreamKind::Legacy, 0)),
            per_thread: Mutex::default(),
            limits: Mutex::new(LIMITS),
            flags: AtomicU32::new(0),
            cache_config: AtomicU32::new(0),
        }
    }

    pub(crate) fn alive(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }

    /// Size of the buffer of `printf`, in bytes.
    pub(crate) fn printf_bytes(&self) -> usize {
        lock(&self.limits)[PRINTF_FIFO_SIZE]
    }

    /// The default stream.
    pub(crate) fn legacy_stream(&self) -> &Arc<Stream> {
        &self.legacy
    }

    /// The calling thread's own default stream.
    pub(crate) fn per_thread_stream(&self) -> Arc<Stream> {
        let mut streams = lock(&self.per_thread);
        let own = streams
            .entry(std::thread::current().id())
            .or_insert_with(|| Arc::new(Stream::new(2, self.handle, StreamKind::Blocking, 0)));
        Arc::clone(own)
    }

    /// Streams that the context has without a call that creates them.
    pub(crate) fn default_streams(&self) -> Vec<Arc<Stream>> {
        let per_thread = lock(&self.per_thread);
        let legacy = std::iter::once(&self.legacy);
        legacy.chain(per_thread.values()).cloned().collect()
    }

    /// Forgets the threads' own default streams.
    pub(crate) fn drop_per_thread_streams(&self) {
        lock(&self.per_thread).clear();
    }
}

/// The handle of the context that is current in this thread.
pub(crate) fn current() -> Option<Handle> {
    CURRENT.with_borrow(|stack| stack.last().copied())
}

/// Makes a context current, above the one that is.
pub(crate) fn push_current(handle: Handle) {
    CURRENT.with_borrow_mut(|stack| stack.push(handle));
}

/// Takes the current context off the stack.
pub(crate) fn pop_current() -> Option<Handle> {
    CURRENT.with_borrow_mut(Vec::pop)
}

/// Replaces the current context; 0 is none.
pub(crate) fn set_current(handle: Handle) {
    CURRENT.with_borrow_mut(|stack| {
        stack.pop();
        if handle != 0 {
            stack.push(handle);
        }
    });
}
