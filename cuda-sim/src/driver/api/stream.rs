//! Streams: creation, waits, host functions.

use crate::driver::{
    ffi::{Code, Error, Handle, Out, Result, guard},
    state::driver,
    streams::{HostAddress, HostFunction, Operation, Stream, StreamKind, clock, not_ready},
};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

fn create(stream: Out<Handle>, flags: u32, priority: i32) -> Result {
    let driver = driver()?;
    let context = driver.current()?;
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
    guard(|| priority.set("priority", driver()?.stream(stream)?.priority))
}

/// Destroys a stream. What was submitted still runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.current()?;
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
        let stream = driver.stream(stream)?;
        stream.check_not_capturing("cuStreamSynchronize")?;
        if stream.kind == StreamKind::Legacy {
            clock::host_sees(driver.wait_for_others(&stream)?);
        }
        stream.progress.drain()
    })
}

/// Whether a stream has done everything: `CUDA_ERROR_NOT_READY` if not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    guard(|| {
        let stream = driver()?.stream(stream)?;
        stream.check_not_capturing("cuStreamQuery")?;
        if stream.progress.is_idle() {
            stream.progress.drain()
        } else {
            Err(not_ready())
        }
    })
}

/// Makes all later work of a stream wait for an event's last record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = driver.stream(stream)?;
        let event = driver.events.get(event)?;
        match (stream.capture(), event.capture()) {
            (None, None) => match event.last() {
                0 => Ok(()),
                ticket => driver.submit(&stream, Operation::Wait { event, ticket }),
            },
            (_, Some(events)) => stream.wait_captured(&events),
            (Some(own), None) if event.recorded() => own.wait_outside(),
            (Some(own), None) => own.check_valid(),
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
        let stream = driver.stream(stream)?;
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
        let stream = driver.stream(stream)?;
        let function = function.ok_or_else(|| Error::value("fn is null"))?;
        driver.submit(
            &stream,
            Operation::Host {
                function,
                data: HostAddress(data),
            },
        )
    })
}
