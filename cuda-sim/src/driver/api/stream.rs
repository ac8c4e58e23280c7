//! Streams: creation, waits, host functions.

use std::{cell::Cell, ffi::c_void, sync::Arc};

use crate::{
    driver::{
        ffi::{Code, Error, Handle, InOut, Out, Result, guard},
        state::driver,
        streams::{
            Capture, HostAddress, HostFunction, Operation, Progress, RELAXED, Stream, StreamKind,
            clock, not_ready,
        },
    },
    recorder,
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

/// The flags a stream was created with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetFlags(stream: Handle, flags: Out<u32>) -> Code {
    guard(|| {
        let kind = driver()?.stream(stream)?.kind;
        flags.set(
            "flags",
            if kind == StreamKind::NonBlocking {
                NON_BLOCKING
            } else {
                0
            },
        )
    })
}

/// A number that no other stream of this process has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetId(stream: Handle, id: Out<u64>) -> Code {
    guard(|| id.set("streamId", driver()?.stream(stream)?.id))
}

/// The context of a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) -> Code {
    guard(|| context.set("pctx", driver()?.stream(stream)?.context))
}

/// The context of a stream. There are no green contexts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx_v2(
    stream: Handle,
    context: Out<Handle>,
    green: Out<Handle>,
) -> Code {
    guard(|| {
        let stream = driver()?.stream(stream)?;
        green.set_if_given(0);
        context.set("pCtx", stream.context)
    })
}

/// The device of a stream: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetDevice(stream: Handle, device: Out<i32>) -> Code {
    guard(|| {
        driver()?.stream(stream)?;
        device.set("device", 0)
    })
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
            if capture.origin == stream.handle {
                // No call can end the capture and return its graph. It may have been destroyed
                // already.
                let _ = driver.remove_graph(capture.graph.handle);
            }
        }
        stream.close();
        Ok(())
    })
}

/// Waits until a stream has done everything, and returns what went wrong in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    guard(|| {
        recorder::count_wait();
        let driver = driver()?;
        let stream = driver.stream(stream)?;
        stream.check_not_capturing("cuStreamSynchronize")?;
        if stream.kind == StreamKind::Legacy {
            clock::host_sees(driver.wait_for_others(&stream)?);
        }
        stream.progress.drain()
    })
}

/// Queries whether a stream has done everything: `CUDA_ERROR_NOT_READY` if not.
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

/// `CUstreamCallback`.
type StreamCallback = unsafe extern "C" fn(Handle, Code, *mut c_void);

/// A call of a [`StreamCallback`] that is submitted: it happens once.
struct Callback {
    function: StreamCallback,
    stream: Handle,
    progress: Arc<Progress>,
    data: *mut c_void,
}

/// Calls what `cuStreamAddCallback` was given.
unsafe extern "C" fn call_back(call: *mut c_void) {
    // SAFETY: `cuStreamAddCallback` has made it by `Box::into_raw`, for this call alone.
    let Callback {
        function,
        stream,
        progress,
        data,
    } = *unsafe { Box::from_raw(call.cast::<Callback>()) };
    let code = progress.kept_failure() as Code;
    // SAFETY: the caller of `cuStreamAddCallback` promised that it may be called with `data` from
    // another thread.
    unsafe { function(stream, code, data) };
}

/// Calls a function of the program in stream order, with the stream and the error that it keeps
/// back for the next call that waits, or the code for success. It must not call the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamAddCallback(
    stream: Handle,
    function: Option<StreamCallback>,
    data: *mut c_void,
    flags: u32,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let target = driver.stream(stream)?;
        let function = function.ok_or_else(|| Error::value("callback is null"))?;
        if flags != 0 {
            return Err(Error::value(format!("flags are {flags:#x}, must be 0")));
        }
        target.check_not_capturing("cuStreamAddCallback")?;
        let call = Box::into_raw(Box::new(Callback {
            function,
            stream,
            progress: Arc::clone(&target.progress),
            data,
        }));
        let operation = Operation::Host {
            function: call_back,
            data: HostAddress(call.cast()),
        };
        // A capture that another thread begins meanwhile must not take it: a graph would call it
        // more than once.
        let submitted = driver.submit_uncaptured(&target, operation);
        submitted.inspect_err(|_| {
            // SAFETY: made above; an operation that was refused never runs.
            drop(unsafe { Box::from_raw(call) });
        })
    })
}

/// Calls a function of the program in stream order. It must not call the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(
    stream: Handle,
    function: Option<HostFunction>,
    data: *mut c_void,
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

/// `CUstreamCaptureStatus` of a stream, the number of its capture, and the capture.
fn capture_info(stream: Handle, status: Out<u32>, id: Out<u64>) -> Result<Option<Arc<Capture>>> {
    let capture = driver()?.stream(stream)?.capture();
    let invalid = capture.as_ref().is_some_and(|capture| capture.is_invalid());
    status.set(
        "captureStatus_out",
        u32::from(capture.is_some()) + u32::from(invalid),
    )?;
    id.set_if_given(capture.as_ref().map_or(0, |capture| capture.graph.handle));
    Ok(capture)
}

/// Queries whether a stream is being captured, and the number of its capture.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo(
    stream: Handle,
    status: Out<u32>,
    id: Out<u64>,
) -> Code {
    guard(|| capture_info(stream, status, id).map(drop))
}

/// Queries whether a stream is being captured, the number of its capture, and the graph that is
/// captured, which has no nodes yet. The last nodes cannot be asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: Handle,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<u64>,
    count: Out<usize>,
) -> Code {
    guard(|| {
        let capture = capture_info(stream, status, id)?;
        if capture.is_some() && nodes.is_given() {
            return Err(Error::unsupported("nodes of a capture that is going on"));
        }
        graph.set_if_given(capture.map_or(0, |capture| capture.graph.handle));
        nodes.set_if_given(0);
        count.set_if_given(0);
        Ok(())
    })
}

/// Queries whether a stream is being captured, the number of its capture, and the graph that is
/// captured, which has no nodes yet. The last nodes cannot be asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo_v3(
    stream: Handle,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<u64>,
    edges: Out<u64>,
    count: Out<usize>,
) -> Code {
    edges.set_if_given(0);
    // SAFETY: the same arguments, under the same promises.
    unsafe { cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count) }
}

thread_local! {
    /// `CUstreamCaptureMode` of this thread. It changes nothing here: no call is unsafe while
    /// another stream is captured.
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
}

/// Exchanges the calling thread's capture mode, which has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: InOut<u32>) -> Code {
    guard(|| {
        let new = mode.get("mode")?;
        if new > RELAXED {
            return Err(Error::value(format!("{new} is no CUstreamCaptureMode")));
        }
        mode.set("mode", CAPTURE_MODE.replace(new))
    })
}
