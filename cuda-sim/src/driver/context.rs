//! Contexts: who owns what, and which one a thread works in.

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
        device::check_device,
        ffi::{In, Out},
        handle::Handle,
        state::{Driver, driver},
        status::{Code, Error, Result, Status, guard},
        stream::{Stream, StreamKind},
    },
    leaks,
    sync::lock,
};

/// `CUlimit` 0 to 6 and what an H100's driver starts with: stack bytes, printf buffer bytes, heap bytes,
/// device-runtime depth and launches, L2 fetch bytes, persisting L2 bytes.
const LIMITS: [usize; 7] = [1024, 1 << 20, 8 << 20, 2, 2048, 128, 0];
/// `CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH`, which compute capability 9.0 reports and does not let be set.
const LIMIT_SYNC_DEPTH: u32 = 3;

/// A context: a set of resources that go away with it.
pub(crate) struct Context {
    pub(crate) handle: Handle,
    /// How often a primary context is retained; 1 for any other. The context is alive while this is not 0.
    uses: AtomicUsize,
    /// Held while a primary context is retained or released: whoever retains it waits for the end that another thread's
    /// release has begun, or that end would take what the new user makes.
    lifecycle: Mutex<()>,
    primary: bool,
    legacy: Arc<Stream>,
    per_thread: Mutex<HashMap<ThreadId, Arc<Stream>>>,
    limits: Mutex<[usize; LIMITS.len()]>,
    flags: AtomicU32,
    cache_config: AtomicU32,
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

    fn alive(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }

    /// The stream of a handle: null and 1 are the context's default stream, 2 is the calling thread's own.
    pub(crate) fn stream(&self, driver: &Driver, handle: Handle) -> Result<Arc<Stream>> {
        match handle {
            0 | 1 => Ok(Arc::clone(&self.legacy)),
            2 => {
                let mut streams = lock(&self.per_thread);
                let own = streams
                    .entry(std::thread::current().id())
                    .or_insert_with(|| {
                        Arc::new(Stream::new(2, self.handle, StreamKind::Blocking, 0))
                    });
                Ok(Arc::clone(own))
            }
            _ => driver.streams.get(handle),
        }
    }

    /// Every stream of this context.
    pub(crate) fn streams(&self, driver: &Driver) -> Vec<Arc<Stream>> {
        let mut all = driver
            .streams
            .select(|stream| stream.context == self.handle);
        all.push(Arc::clone(&self.legacy));
        all.extend(lock(&self.per_thread).values().cloned());
        all
    }

    /// Waits for all streams; the first failure any of them has kept back is returned, once.
    pub(crate) fn synchronize(&self, driver: &Driver) -> Result {
        let mut outcome = Ok(());
        for stream in self.streams(driver) {
            let ended = stream.drain();
            outcome = outcome.and(ended);
        }
        outcome
    }

    /// Ends the context: waits for its streams, tells what the program has not freed, then drops and frees all it owns.
    fn end(&self, driver: &Driver) {
        for stream in self.streams(driver) {
            // A failure nobody has asked for goes with the context.
            let _ = stream.drain();
            stream.close();
        }
        driver.streams.drain(|stream| stream.context == self.handle);
        driver.events.drain(|event| event.context == self.handle);
        driver
            .functions
            .drain(|function| function.context == self.handle);
        driver.modules.drain(|module| module.context == self.handle);
        driver.graphs.drain(|graph| graph.context == self.handle);
        driver
            .executables
            .drain(|graph| graph.context == self.handle);
        leaks::report(&driver.arena, self.handle);
        driver.arena.free_context(self.handle);
        lock(&self.per_thread).clear();
    }
}

/// The calling thread's current context.
pub(crate) fn current(driver: &Driver) -> Result<Arc<Context>> {
    let handle = CURRENT
        .with_borrow(|stack| stack.last().copied())
        .ok_or_else(|| {
            Error::new(
                Status::InvalidContext,
                "no context is current in this thread",
            )
        })?;
    match driver.contexts.get(handle) {
        Ok(context) if context.alive() => Ok(context),
        _ => Err(Error::new(
            Status::ContextIsDestroyed,
            "this thread's context has been destroyed",
        )),
    }
}

/// The live context of a handle.
pub(crate) fn by_handle(driver: &Driver, handle: Handle) -> Result<Arc<Context>> {
    match driver.contexts.get(handle) {
        Ok(context) if context.alive() => Ok(context),
        _ => Err(Error::new(
            Status::InvalidContext,
            format!("{handle:#x} is no live context"),
        )),
    }
}

fn set_current(handle: Handle) {
    CURRENT.with_borrow_mut(|stack| {
        stack.pop();
        if handle != 0 {
            stack.push(handle);
        }
    });
}

/// Retains the device's primary context. It becomes current by `cuCtxSetCurrent` only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: i32) -> Code {
    guard(|| {
        let driver = driver()?;
        check_device(device)?;
        context.check("pctx")?;
        let _lifecycle = lock(&driver.primary.lifecycle);
        driver.primary.uses.fetch_add(1, Ordering::AcqRel);
        context.set("pctx", driver.primary.handle)
    })
}

/// Releases the primary context once; the last release frees all it owns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> Code {
    guard(|| {
        let driver = driver()?;
        check_device(device)?;
        let primary = &driver.primary;
        let _lifecycle = lock(&primary.lifecycle);
        let released = primary
            .uses
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |uses| {
                uses.checked_sub(1)
            });
        match released {
            Ok(1) => primary.end(driver),
            Ok(_) => {}
            Err(_) => {
                return Err(Error::new(
                    Status::InvalidContext,
                    "the primary context is not retained",
                ));
            }
        }
        Ok(())
    })
}

fn create(context: Out<Handle>, flags: u32, device: i32) -> Result {
    let driver = driver()?;
    check_device(device)?;
    context.check("pctx")?;
    let new = driver.contexts.insert(|handle| Context::new(handle, false));
    new.flags.store(flags, Ordering::Relaxed);
    CURRENT.with_borrow_mut(|stack| stack.push(new.handle));
    context.set("pctx", new.handle)
}

/// Creates a context and makes it current. Execution affinity is not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v3(
    context: Out<Handle>,
    _affinity: In<u64>,
    affinities: i32,
    flags: u32,
    device: i32,
) -> Code {
    guard(|| match affinities {
        0 => create(context, flags, device),
        _ => Err(Error::unsupported("execution affinity")),
    })
}

/// Creates a context and makes it current. Parameters (affinity, graphics) are not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v4(
    context: Out<Handle>,
    parameters: In<u64>,
    flags: u32,
    device: i32,
) -> Code {
    guard(|| {
        if parameters.address().is_null() {
            create(context, flags, device)
        } else {
            Err(Error::unsupported(
                "context creation parameters (affinity, graphics)",
            ))
        }
    })
}

/// Destroys a context that `cuCtxCreate` made, and all it owns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDestroy_v2(context: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let doomed = by_handle(driver, context)?;
        if doomed.primary {
            return Err(Error::new(
                Status::InvalidContext,
                "the primary context is released, not destroyed",
            ));
        }
        if doomed.uses.swap(0, Ordering::AcqRel) == 0 {
            return Err(Error::new(
                Status::InvalidContext,
                "another thread has destroyed this context",
            ));
        }
        doomed.end(driver);
        driver.contexts.remove(context)?;
        CURRENT.with_borrow_mut(|stack| {
            if stack.last() == Some(&context) {
                stack.pop();
            }
        });
        Ok(())
    })
}

/// The current context, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: Out<Handle>) -> Code {
    guard(|| {
        driver()?;
        context.set(
            "pctx",
            CURRENT.with_borrow(|stack| stack.last().copied().unwrap_or(0)),
        )
    })
}

/// Makes a context current in the calling thread; null for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        if context != 0 {
            by_handle(driver, context)?;
        }
        set_current(context);
        Ok(())
    })
}

/// Makes a context current, above the one that is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> Code {
    guard(|| {
        by_handle(driver()?, context)?;
        CURRENT.with_borrow_mut(|stack| stack.push(context));
        Ok(())
    })
}

/// Takes the current context off the thread's stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: Out<Handle>) -> Code {
    guard(|| {
        driver()?;
        let popped = CURRENT.with_borrow_mut(Vec::pop);
        let popped =
            popped.ok_or_else(|| Error::new(Status::InvalidContext, "no context is current"))?;
        context.set_if_given(popped);
        Ok(())
    })
}

/// The current context's device: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: Out<i32>) -> Code {
    guard(|| {
        current(driver()?)?;
        device.set("device", 0)
    })
}

/// Sets scheduling flags, which change nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetFlags(flags: u32) -> Code {
    guard(|| {
        current(driver()?)?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    })
}

/// Waits for all streams of the current context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSynchronize() -> Code {
    guard(|| {
        let driver = driver()?;
        current(driver)?.synchronize(driver)
    })
}

fn limit_index(limit: u32) -> Result<usize> {
    match limit {
        0..7 => Ok(limit as usize),
        7..10 => Err(Error::new(
            Status::UnsupportedLimit,
            format!("limit {limit} is not supported"),
        )),
        _ => Err(Error::value(format!("{limit} is no CUlimit"))),
    }
}

/// Reads a limit. Limits are remembered, not enforced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetLimit(value: Out<usize>, limit: u32) -> Code {
    guard(|| {
        let context = current(driver()?)?;
        let index = limit_index(limit)?;
        value.set("pvalue", lock(&context.limits)[index])
    })
}

/// Sets a limit. Limits are remembered, not enforced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetLimit(limit: u32, value: usize) -> Code {
    guard(|| {
        let context = current(driver()?)?;
        let index = limit_index(limit)?;
        if limit == LIMIT_SYNC_DEPTH && crate::device::device().capability.number >= 90 {
            return Err(Error::new(
                Status::UnsupportedLimit,
                "the device runtime's synchronisation depth is fixed from compute capability 9.0 on",
            ));
        }
        lock(&context.limits)[index] = value;
        Ok(())
    })
}

/// Reads the cache preference (`CUfunc_cache`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCacheConfig(config: Out<u32>) -> Code {
    guard(|| {
        let context = current(driver()?)?;
        config.set("pconfig", context.cache_config.load(Ordering::Relaxed))
    })
}

/// Sets the cache preference (`CUfunc_cache`), which changes nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCacheConfig(config: u32) -> Code {
    guard(|| {
        let context = current(driver()?)?;
        check_cache_config(config)?;
        context.cache_config.store(config, Ordering::Relaxed);
        Ok(())
    })
}

/// An error unless `config` is a `CUfunc_cache`.
pub(crate) fn check_cache_config(config: u32) -> Result {
    if config <= 3 {
        Ok(())
    } else {
        Err(Error::value(format!("{config} is no CUfunc_cache")))
    }
}

/// Stream priorities that make a difference: `least` is 0, `greatest` is -5, as on GPUs; none does here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> Code {
    guard(|| {
        current(driver()?)?;
        least.set_if_given(crate::device::LEAST_PRIORITY);
        greatest.set_if_given(crate::device::GREATEST_PRIORITY);
        Ok(())
    })
}
