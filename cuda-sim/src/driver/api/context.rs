//! Contexts: creation, the current one, limits.

use std::sync::{Arc, atomic::Ordering};

use crate::{
    driver::leaks,
    driver::{
        api::device::check_device,
        context::{self, Context},
        ffi::{Code, Error, Handle, In, Out, Result, Status, guard},
        state::{Driver, driver},
    },
    recorder,
    sync::lock,
};

/// `CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH`: read-only from compute capability 9.0 on.
const LIMIT_SYNC_DEPTH: u32 = 3;

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
            Ok(1) => end(primary, driver),
            Ok(_) => {}
            Err(_) => {
                return Err(Status::InvalidContext.error("the primary context is not retained"));
            }
        }
        Ok(())
    })
}

/// Ends a context: waits for its streams, reports memory that was not freed, then drops and frees
/// all that it owns.
fn end(context: &Context, driver: &Driver) {
    for stream in driver.streams_of(context) {
        // A failure nobody has asked for goes with the context.
        let _ = stream.progress.drain();
        stream.close();
    }
    let owner = context.handle;
    driver.streams.drain(|stream| stream.context == owner);
    driver.events.drain(|event| event.context == owner);
    driver.functions.drain(|function| function.context == owner);
    driver.modules.drain(|module| module.context == owner);
    for graph in driver.graphs.drain(|graph| graph.context == owner) {
        driver.remove_nodes(&graph);
    }
    driver.executables.drain(|graph| graph.context == owner);
    lock(&driver.registered).remove_context(owner);
    leaks::note(&driver.arena, owner);
    driver.arena.free_context(owner);
    context.drop_per_thread_streams();
}

/// Flags of the primary context, and whether it is retained.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    device: i32,
    flags: Out<u32>,
    active: Out<i32>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        check_device(device)?;
        active.check("active")?;
        flags.set("flags", driver.primary.flags.load(Ordering::Relaxed))?;
        active.set("active", i32::from(driver.primary.alive()))
    })
}

/// Sets the primary context's scheduling flags, which change nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        check_device(device)?;
        driver.primary.flags.store(flags, Ordering::Relaxed);
        Ok(())
    })
}

/// Frees all that the primary context owns. It stays retained as often as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxReset_v2(device: i32) -> Code {
    guard(|| {
        let driver = driver()?;
        check_device(device)?;
        let _lifecycle = lock(&driver.primary.lifecycle);
        if driver.primary.alive() {
            end(&driver.primary, driver);
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
    context::push_current(new.handle);
    context.set("pctx", new.handle)
}

/// Creates a context and makes it current.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(context: Out<Handle>, flags: u32, device: i32) -> Code {
    guard(|| create(context, flags, device))
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
        let doomed = created(driver, context)?;
        if doomed.uses.swap(0, Ordering::AcqRel) == 0 {
            return Err(destroyed());
        }
        destroy(driver, &doomed)
    })
}

/// Counts one more use of the current context, which `cuCtxCreate` made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxAttach(context: Out<Handle>, flags: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        context.check("pctx")?;
        if flags != 0 {
            return Err(Error::value(format!("flags are {flags:#x}, must be 0")));
        }
        let current = created(driver, driver.current()?.handle)?;
        let used = current
            .uses
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |uses| {
                (uses > 0).then_some(uses + 1)
            });
        used.map_err(|_| destroyed())?;
        context.set("pctx", current.handle)
    })
}

/// Ends one use of the current context; the last one destroys it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDetach(context: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let left = created(driver, context)?;
        if context::current() != Some(context) {
            return Err(Status::InvalidContext.error("the context is not current"));
        }
        let uses = left
            .uses
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |uses| {
                uses.checked_sub(1)
            });
        match uses {
            Ok(1) => destroy(driver, &left),
            Ok(_) => Ok(()),
            Err(_) => Err(destroyed()),
        }
    })
}

/// A context that `cuCtxCreate` made.
fn created(driver: &Driver, context: Handle) -> Result<Arc<Context>> {
    let found = driver.context(context)?;
    if found.primary {
        return Err(Status::InvalidContext.error("the primary context is released, not destroyed"));
    }
    Ok(found)
}

fn destroyed() -> Error {
    Status::InvalidContext.error("another thread has destroyed this context")
}

/// Ends a context that has no use left.
fn destroy(driver: &Driver, context: &Context) -> Result {
    end(context, driver);
    driver.contexts.remove(context.handle)?;
    if context::current() == Some(context.handle) {
        context::pop_current();
    }
    Ok(())
}

/// The current context, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: Out<Handle>) -> Code {
    guard(|| {
        driver()?;
        context.set("pctx", context::current().unwrap_or(0))
    })
}

/// Makes a context current in the calling thread; null for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        if context != 0 {
            driver.context(context)?;
        }
        context::set_current(context);
        Ok(())
    })
}

/// Makes a context current, above the one that is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> Code {
    guard(|| {
        driver()?.context(context)?;
        context::push_current(context);
        Ok(())
    })
}

/// Takes the current context off the thread's stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: Out<Handle>) -> Code {
    guard(|| {
        driver()?;
        let popped = context::pop_current();
        let popped = popped.ok_or_else(|| Status::InvalidContext.error("no context is current"))?;
        context.set_if_given(popped);
        Ok(())
    })
}

/// The current context's device: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: Out<i32>) -> Code {
    guard(|| {
        driver()?.current()?;
        device.set("device", 0)
    })
}

/// Sets scheduling flags, which change nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetFlags(flags: u32) -> Code {
    guard(|| {
        driver()?.current()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    })
}

/// The current context's scheduling flags.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetFlags(flags: Out<u32>) -> Code {
    guard(|| {
        let context = driver()?.current()?;
        flags.set("flags", context.flags.load(Ordering::Relaxed))
    })
}

/// A number that no other context of this process has. Null is the current context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetId(context: Handle, id: Out<u64>) -> Code {
    guard(|| id.set("ctxId", given_or_current(context)?))
}

/// The version of the context interface: that of CUDA 3.2, as on GPUs. Null is the current context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetApiVersion(context: Handle, version: Out<u32>) -> Code {
    guard(|| {
        given_or_current(context)?;
        version.set("version", 3020)
    })
}

fn given_or_current(context: Handle) -> Result<Handle> {
    let driver = driver()?;
    match context {
        0 => Ok(driver.current()?.handle),
        _ => Ok(driver.context(context)?.handle),
    }
}

/// Forgets what the second-level cache keeps: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxResetPersistingL2Cache() -> Code {
    guard(|| driver()?.current().map(drop))
}

/// Width of the banks of shared memory: four bytes, on all GPUs after compute capability 3.
const FOUR_BYTE_BANKS: u32 = 1;

/// Reads the width of the banks of shared memory (`CUsharedconfig`): four bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetSharedMemConfig(config: Out<u32>) -> Code {
    guard(|| {
        driver()?.current()?;
        config.set("pConfig", FOUR_BYTE_BANKS)
    })
}

/// Sets the width of the banks of shared memory (`CUsharedconfig`): no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetSharedMemConfig(config: u32) -> Code {
    guard(|| {
        driver()?.current()?;
        check_bank_config(config)
    })
}

/// An error unless `config` is a `CUsharedconfig`.
pub(crate) fn check_bank_config(config: u32) -> Result {
    match config {
        0..=2 => Ok(()),
        _ => Err(Error::value(format!("{config} is no CUsharedconfig"))),
    }
}

/// Waits for all streams of the current context. Returns the first failure that any of them has
/// kept back, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSynchronize() -> Code {
    guard(|| {
        recorder::count_wait();
        let driver = driver()?;
        let mut outcome = Ok(());
        for stream in driver.streams_of(&*driver.current()?) {
            let ended = stream.progress.drain();
            outcome = outcome.and(ended);
        }
        outcome
    })
}

fn limit_index(limit: u32) -> Result<usize> {
    match limit {
        0..7 => Ok(limit as usize),
        7..10 => Err(Status::UnsupportedLimit.error(format!("limit {limit} is not supported"))),
        _ => Err(Error::value(format!("{limit} is no CUlimit"))),
    }
}

/// Reads a limit. Limits are remembered; that of `printf` is enforced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetLimit(value: Out<usize>, limit: u32) -> Code {
    guard(|| {
        let context = driver()?.current()?;
        let index = limit_index(limit)?;
        value.set("pvalue", lock(&context.limits)[index])
    })
}

/// Sets a limit. Limits are remembered; that of `printf` is enforced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetLimit(limit: u32, value: usize) -> Code {
    guard(|| {
        let context = driver()?.current()?;
        let index = limit_index(limit)?;
        if limit == LIMIT_SYNC_DEPTH && crate::settings::device().capability.number >= 90 {
            let text = "the device runtime's synchronisation depth is fixed from compute capability 9.0 on";
            return Err(Status::UnsupportedLimit.error(text));
        }
        lock(&context.limits)[index] = value;
        Ok(())
    })
}

/// Reads the cache preference (`CUfunc_cache`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCacheConfig(config: Out<u32>) -> Code {
    guard(|| {
        let context = driver()?.current()?;
        config.set("pconfig", context.cache_config.load(Ordering::Relaxed))
    })
}

/// Sets the cache preference (`CUfunc_cache`), which changes nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCacheConfig(config: u32) -> Code {
    guard(|| {
        let context = driver()?.current()?;
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

/// Range of stream priorities, 0 to -5 as on GPUs. Priorities have no effect here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> Code {
    guard(|| {
        driver()?.current()?;
        least.set_if_given(crate::device::LEAST_PRIORITY);
        greatest.set_if_given(crate::device::GREATEST_PRIORITY);
        Ok(())
    })
}
