//! Stream capture and graphs.

use std::sync::Arc;

use crate::driver::{
    ffi::{Code, Error, Handle, InOut, Out, Status, guard},
    state::driver,
    streams::{Allocations, Capture, Graph, NodeKind, Operation, RELAXED, StreamKind},
};

/// `CUgraphInstantiate_flags` that this driver accepts: free on launch, upload, node priorities.
/// None has an effect.
const INSTANTIATE_FLAGS: u64 = 1 | 2 | 8;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`.
const DEVICE_LAUNCH: u64 = 4;

/// Graphs within graphs; a guard against running out of stack.
const MAX_DEPTH: u32 = 64;

/// Begins to capture a stream's operations instead of running them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = driver.stream(stream)?;
        if mode > RELAXED {
            return Err(Error::value(format!("{mode} is no CUstreamCaptureMode")));
        }
        if stream.kind == StreamKind::Legacy {
            return Err(Status::StreamCaptureUnsupported
                .error("the default stream cannot be captured: create a stream"));
        }
        if stream.capture().is_some() {
            return Err(Status::IllegalState.error("the stream is being captured already"));
        }
        let allocations = Allocations::new(&driver.arena);
        let graph = driver
            .graphs
            .insert(|handle| Graph::new(handle, stream.context, allocations));
        let capture = Capture::new(stream.handle, graph, mode);
        stream.join(Arc::new(capture));
        Ok(())
    })
}

/// Ends a capture and returns its graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = driver.stream(stream)?;
        graph.check("phGraph")?;
        let capture = stream
            .capture()
            .ok_or_else(|| Status::IllegalState.error("the stream is not being captured"))?;
        if capture.origin != stream.handle {
            return Err(Status::StreamCaptureUnmatched.error("the capture began in another stream"));
        }
        if !capture.may_end_here() {
            return Err(
                Status::StreamCaptureWrongThread.error("the capture began in another thread")
            );
        }
        for context in driver.contexts.select(|_| true) {
            for member in driver.streams_of(&context) {
                member.leave(&capture);
            }
        }
        let still_there = || driver.graphs.get(capture.graph.handle).map(drop);
        if let Err(error) = capture.check_valid().and_then(|()| still_there()) {
            // It may have been destroyed already.
            let _ = driver.remove_graph(capture.graph.handle);
            graph.set("phGraph", 0)?;
            return Err(error);
        }
        for operation in capture.take() {
            let kind = NodeKind::from_operation(&operation);
            driver.add_node(&capture.graph, kind, operation);
        }
        graph.set("phGraph", capture.graph.handle)
    })
}

/// `CUstreamCaptureStatus` of a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: Out<u32>) -> Code {
    guard(|| {
        let capture = driver()?.stream(stream)?.capture();
        let invalid = capture.as_ref().is_some_and(|capture| capture.is_invalid());
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
        let new = driver
            .executables
            .try_insert(|handle| graph.instantiate(handle))?;
        executable.set("phGraphExec", new.handle)
    })
}

/// Makes a graph ready to launch. There is no node to blame for an error, and the log stays empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiate_v2(
    executable: Out<Handle>,
    graph: Handle,
    error: Out<Handle>,
    log: Out<u8>,
    bytes: usize,
) -> Code {
    if log.is_given() && bytes > 0 {
        log.set_if_given(0);
    }
    error.set_if_given(0);
    // SAFETY: the same arguments, under the same promises.
    unsafe { cuGraphInstantiateWithFlags(executable, graph, 0) }
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`. The last two fields are results.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct InstantiateParams {
    flags: u64,
    upload: Handle,
    error: Handle,
    result: u32,
}

/// Makes a graph ready to launch. The upload has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithParams(
    executable: Out<Handle>,
    graph: Handle,
    params: InOut<InstantiateParams>,
) -> Code {
    const SUCCESS: u32 = 0;
    const ERROR: u32 = 1;
    let mut code = 0;
    let read = guard(|| {
        let given = params.get("instantiateParams")?;
        // SAFETY: the same arguments, under the same promises.
        code = unsafe { cuGraphInstantiateWithFlags(executable, graph, given.flags) };
        let result = if code == 0 { SUCCESS } else { ERROR };
        params.set(
            "instantiateParams",
            InstantiateParams {
                error: 0,
                result,
                ..given
            },
        )
    });
    if read == 0 { code } else { read }
}

/// Prepares a launch: no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphUpload(executable: Handle, stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.executables.get(executable)?;
        driver.stream(stream)?;
        Ok(())
    })
}

/// Runs a graph's operations in a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(executable: Handle, stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let graph = driver.executables.get(executable)?;
        let stream = driver.stream(stream)?;
        let nested = graph.nested();
        if stream.capture().is_some() && nested.depth >= MAX_DEPTH {
            return Err(Error::unsupported("deeper nesting of graphs than 64"));
        }
        driver.submit(&stream, Operation::Graph(nested))
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
        let driver = driver()?;
        driver.current()?;
        driver.remove_graph(graph)
    })
}
