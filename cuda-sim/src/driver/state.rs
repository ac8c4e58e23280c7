//! The driver's whole state: one value, made at the first call.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    driver::{
        context::{self, Context},
        ffi::{Handle, Result, Status, Table},
        forked,
        library::{Library, LibraryKernel},
        linker::Linker,
        module::{Function, LoadedModule},
        pool::Pool,
        registered::Registered,
        streams::{
            Event, Executable, Graph, Node, References, Stream, UserObjects, in_host_function,
        },
    },
    install_error::InstallError,
    memory::arena::Arena,
    settings,
    sync::lock,
};

/// Device memory in bytes unless `CUDA_SIM_MEMORY` says otherwise: the most that the process has
/// addresses for.
const DEFAULT_MEMORY: RangeInclusive<u64> = 16 << 20..=4 << 30;

/// State of the driver.
pub(crate) struct Driver {
    initialised: AtomicBool,
    pub(crate) arena: Arena,
    pub(crate) contexts: Table<Context>,
    /// The device's primary context. It always exists, and is alive while it is retained.
    pub(crate) primary: Arc<Context>,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) modules: Table<LoadedModule>,
    pub(crate) functions: Table<Function>,
    pub(crate) libraries: Table<Library>,
    /// Kernels of libraries.
    pub(crate) kernels: Table<LibraryKernel>,
    pub(crate) linkers: Table<Linker>,
    pub(crate) graphs: Table<Graph>,
    /// Nodes of graphs.
    pub(crate) nodes: Table<Node>,
    /// Instantiated graphs.
    pub(crate) executables: Table<Executable>,
    pub(crate) user_objects: UserObjects,
    /// References of the program to user objects.
    pub(crate) program_references: References,
    /// Host memory that the program has registered.
    pub(crate) registered: Mutex<Registered>,
    pub(crate) pools: Table<Pool>,
    /// The pool that the device has from the start. Never destroyed.
    pub(crate) default_pool: Arc<Pool>,
    /// The pool that `cuMemAllocAsync` uses.
    pub(crate) device_pool: Mutex<Arc<Pool>>,
}

static DRIVER: LazyLock<Result<Driver, InstallError>> = LazyLock::new(Driver::start);

impl Driver {
    fn start() -> Result<Self, InstallError> {
        let memory = settings::chosen()?.memory;
        let memory = memory.map_or(DEFAULT_MEMORY, |bytes| bytes..=bytes);
        forked::watch();
        let arena = Arena::reserve(memory).map_err(|error| InstallError::Memory {
            reason: error.to_string(),
        })?;
        let contexts = Table::new(1, "context");
        let primary = contexts.insert(|handle| Context::new(handle, true));
        let pools = Table::new(8, "memory pool");
        let default_pool = pools.insert(Pool::new);
        Ok(Self {
            initialised: AtomicBool::new(false),
            arena,
            contexts,
            primary,
            streams: Table::new(2, "stream"),
            events: Table::new(3, "event"),
            modules: Table::new(4, "module"),
            functions: Table::new(5, "function"),
            libraries: Table::new(9, "library"),
            kernels: Table::new(10, "kernel"),
            linkers: Table::new(11, "linker"),
            graphs: Table::new(6, "graph"),
            nodes: Table::new(12, "graph node"),
            registered: Mutex::default(),
            executables: Table::new(7, "executable graph"),
            user_objects: Table::new(13, "user object"),
            program_references: References::default(),
            pools,
            device_pool: Mutex::new(Arc::clone(&default_pool)),
            default_pool,
        })
    }

    /// Makes the driver usable, as `cuInit` does.
    pub(crate) fn initialise() -> Result {
        forked::check()?;
        let driver = started().map_err(|error| {
            Status::OperatingSystem.error(format!("cuda-sim cannot start: {error}"))
        })?;
        driver.initialised.store(true, Ordering::Release);
        Ok(())
    }

    /// The live context of a handle.
    pub(crate) fn context(&self, handle: Handle) -> Result<Arc<Context>> {
        match self.contexts.get(handle) {
            Ok(context) if context.alive() => Ok(context),
            _ => Err(Status::InvalidContext.error(format!("{handle:#x} is no live context"))),
        }
    }

    /// The calling thread's current context.
    pub(crate) fn current(&self) -> Result<Arc<Context>> {
        let handle = context::current()
            .ok_or_else(|| Status::InvalidContext.error("no context is current in this thread"))?;
        self.context(handle).map_err(|_| {
            Status::ContextIsDestroyed.error("this thread's context has been destroyed")
        })
    }

    /// The stream of a handle: null and 1 are the current context's default stream, 2 is the
    /// calling thread's own.
    pub(crate) fn stream(&self, handle: Handle) -> Result<Arc<Stream>> {
        let context = self.current()?;
        match handle {
            0 | 1 => Ok(Arc::clone(context.legacy_stream())),
            2 => Ok(context.per_thread_stream()),
            _ => self.streams.get(handle),
        }
    }

    /// The function of a handle, or of a library's kernel in the current context.
    pub(crate) fn function(&self, handle: Handle) -> Result<Arc<Function>> {
        match self.kernels.find(handle) {
            Some(kernel) => self.function_of(&kernel),
            None => self.functions.get(handle),
        }
    }

    /// True if the `bytes` from `host` on are memory that the program may change as soon as a call
    /// returns: neither allocated nor registered.
    pub(crate) fn is_pageable(&self, host: u64, bytes: usize) -> bool {
        !self.arena.holds(host) && !lock(&self.registered).covers(host, bytes)
    }

    /// Every stream of a context.
    pub(crate) fn streams_of(&self, context: &Context) -> Vec<Arc<Stream>> {
        let mut all = self
            .streams
            .select(|stream| stream.context == context.handle);
        all.extend(context.default_streams());
        all
    }
}

/// Starts the driver if need be. The same answer each time.
pub(crate) fn started() -> Result<&'static Driver, InstallError> {
    DRIVER.as_ref().map_err(Clone::clone)
}

/// The driver, for an exported function: `cuInit` must have been called, and the caller must be no
/// host callback.
pub(crate) fn driver() -> Result<&'static Driver> {
    if in_host_function() {
        return Err(Status::NotPermitted
            .error("a host function that a stream runs must not call the CUDA driver"));
    }
    forked::check()?;
    match started() {
        Ok(driver) if driver.initialised.load(Ordering::Acquire) => Ok(driver),
        _ => Err(Status::NotInitialized.error("cuInit has not been called, or failed")),
    }
}
