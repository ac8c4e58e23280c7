//! User objects: references of the program, of graphs and of launches, and the destructor behind
//! the last one.

use std::{
    ffi::c_void,
    ptr,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use crate::common::{Outcome, expect_error, own_context};
use cudarc::driver::{
    CudaContext, CudaStream, DriverError, result,
    sys::{self, CUresult},
};

type Result<T> = std::result::Result<T, DriverError>;

/// Time in which a destructor must be called on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC` and `CU_GRAPH_USER_OBJECT_MOVE`.
const NO_SYNC: u32 = 1;
const MOVE: u32 = 1;

/// Data of an object. Never freed, so that a second call of its destructor is seen.
struct Resource {
    name: &'static str,
    gone: Sender<&'static str>,
}

unsafe extern "C" fn destroy(resource: *mut c_void) {
    // SAFETY: a leaked resource, whose sender is used by the one thread that calls destructors.
    let resource = unsafe { &*resource.cast::<Resource>() };
    let mut count = 0;
    // SAFETY: a place for the result.
    let code = unsafe { sys::cuDeviceGetCount(&mut count) };
    assert_eq!(code, CUresult::CUDA_ERROR_NOT_PERMITTED);
    // The test may be over.
    let _ = resource.gone.send(resource.name);
}

/// A context, and the names of the objects whose destructors were called.
struct Rig {
    context: Arc<CudaContext>,
    sender: Sender<&'static str>,
    gone: Receiver<&'static str>,
}

impl Rig {
    fn new() -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let (sender, gone) = channel();
        Ok(Rig {
            context: own_context()?,
            sender,
            gone,
        })
    }

    fn object(&self, name: &'static str, count: u32) -> Result<sys::CUuserObject> {
        let gone = self.sender.clone();
        let resource = Box::leak(Box::new(Resource { name, gone }));
        let mut object = ptr::null_mut();
        // SAFETY: a place for the result, and a destructor with its resource.
        unsafe {
            sys::cuUserObjectCreate(
                &mut object,
                ptr::from_mut(resource).cast(),
                Some(destroy),
                count,
                NO_SYNC,
            )
        }
        .result()?;
        Ok(object)
    }

    /// The objects destroyed since the last call, in order.
    fn destroyed(&self) -> Result<Vec<&'static str>> {
        // Destructors are called in order, so none is missing when this one was called.
        release(self.object("sentinel", 1)?, 1)?;
        let next = || {
            self.gone
                .recv_timeout(SOON)
                .expect("destructors are called")
        };
        Ok(std::iter::repeat_with(next)
            .take_while(|&name| name != "sentinel")
            .collect())
    }
}

/// Makes a stream wait until the other end of a channel goes.
fn stop(stream: &CudaStream, opened: Receiver<()>) -> Result<()> {
    unsafe extern "C" fn wait(opened: *mut c_void) {
        // SAFETY: made below, and handed over.
        let opened = unsafe { Box::from_raw(opened.cast::<Receiver<()>>()) };
        let _ = opened.recv();
    }
    let opened = Box::into_raw(Box::new(opened));
    // SAFETY: a live stream, and a function that takes this box.
    unsafe { sys::cuLaunchHostFunc(stream.cu_stream(), Some(wait), opened.cast()) }.result()
}

fn graph() -> Result<sys::CUgraph> {
    let mut graph = ptr::null_mut();
    // SAFETY: a place for the result.
    unsafe { sys::cuGraphCreate(&mut graph, 0) }.result()?;
    Ok(graph)
}

fn instantiate(graph: sys::CUgraph) -> Result<sys::CUgraphExec> {
    let mut executable = ptr::null_mut();
    // SAFETY: a place for the result.
    unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) }.result()?;
    Ok(executable)
}

fn destroy_graph(graph: sys::CUgraph) -> Result<()> {
    // SAFETY: the driver checks the handle, here and below.
    unsafe { sys::cuGraphDestroy(graph) }.result()
}

fn destroy_executable(executable: sys::CUgraphExec) -> Result<()> {
    // SAFETY: as above.
    unsafe { sys::cuGraphExecDestroy(executable) }.result()
}

fn retain(object: sys::CUuserObject, count: u32) -> Result<()> {
    // SAFETY: as above.
    unsafe { sys::cuUserObjectRetain(object, count) }.result()
}

fn release(object: sys::CUuserObject, count: u32) -> Result<()> {
    // SAFETY: as above.
    unsafe { sys::cuUserObjectRelease(object, count) }.result()
}

fn graph_retain(
    graph: sys::CUgraph,
    object: sys::CUuserObject,
    count: u32,
    flags: u32,
) -> Result<()> {
    // SAFETY: as above.
    unsafe { sys::cuGraphRetainUserObject(graph, object, count, flags) }.result()
}

fn graph_release(graph: sys::CUgraph, object: sys::CUuserObject, count: u32) -> Result<()> {
    // SAFETY: as above.
    unsafe { sys::cuGraphReleaseUserObject(graph, object, count) }.result()
}

#[test]
fn the_last_reference_of_the_program_destroys_an_object_once() -> Outcome {
    let rig = Rig::new()?;
    let object = rig.object("object", 2)?;
    retain(object, 3)?;
    release(object, 4)?;
    assert!(rig.destroyed()?.is_empty());
    release(object, 1)?;
    assert_eq!(rig.destroyed()?, ["object"]);
    for refused in [
        retain(object, 1),
        release(object, 1),
        graph_retain(graph()?, object, 1, 0),
        graph_release(graph()?, object, 1),
    ] {
        expect_error(refused, CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    assert!(rig.destroyed()?.is_empty());
    Ok(())
}

#[test]
fn a_graph_owns_as_many_references_as_it_was_given() -> Outcome {
    let rig = Rig::new()?;
    let graph = graph()?;
    let object = rig.object("object", 1)?;
    graph_retain(graph, object, 2, 0)?;
    release(object, 1)?;
    graph_release(graph, object, 1)?;
    assert!(rig.destroyed()?.is_empty());
    // The program may refer to it again, because it lives.
    retain(object, 1)?;
    graph_release(graph, object, 1)?;
    assert!(rig.destroyed()?.is_empty());
    release(object, 1)?;
    assert_eq!(rig.destroyed()?, ["object"]);
    Ok(())
}

#[test]
fn captured_launches_and_executables_own_references_of_their_own() -> Outcome {
    let rig = Rig::new()?;
    let first = graph()?;
    let object = rig.object("object", 1)?;
    graph_retain(first, object, 1, MOVE)?;
    let text = expect_error(release(object, 1), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("the program owns 0"), "{text}");

    let stream = rig.context.new_stream()?;
    let inner = instantiate(first)?;
    let mut parent = ptr::null_mut();
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    // SAFETY: a live graph without operations, and a place for the result.
    unsafe {
        result::graph::launch(inner, stream.cu_stream())?;
        sys::cuStreamEndCapture(stream.cu_stream(), &mut parent).result()?;
    }
    // The references of what it launches are no references of a graph.
    let refused = graph_release(parent, object, 1);
    let text = expect_error(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("the graph owns 0"), "{text}");
    let executable = instantiate(parent)?;

    destroy_graph(first)?;
    assert!(rig.destroyed()?.is_empty(), "its executable owns it");
    destroy_executable(inner)?;
    assert!(rig.destroyed()?.is_empty(), "the parent's node owns it");
    destroy_graph(parent)?;
    assert!(rig.destroyed()?.is_empty(), "the executable owns it");
    destroy_executable(executable)?;
    assert_eq!(rig.destroyed()?, ["object"]);
    Ok(())
}

#[test]
fn an_executable_owns_what_its_graph_owned_when_it_was_instantiated() -> Outcome {
    let rig = Rig::new()?;
    let graph = graph()?;
    for (name, later) in [("before", false), ("after", true)] {
        if later {
            instantiate(graph)?;
        }
        graph_retain(graph, rig.object(name, 1)?, 1, MOVE)?;
    }
    destroy_graph(graph)?;
    assert_eq!(rig.destroyed()?, ["after"]);
    Ok(())
}

#[test]
fn a_launch_owns_references_until_it_has_ended() -> Outcome {
    let rig = Rig::new()?;
    let graph = graph()?;
    graph_retain(graph, rig.object("object", 1)?, 1, MOVE)?;
    let executable = instantiate(graph)?;
    let stream = rig.context.new_stream()?;
    let (open, opened) = channel();
    stop(&stream, opened)?;
    // SAFETY: a live graph without operations.
    unsafe { result::graph::launch(executable, stream.cu_stream()) }?;
    destroy_graph(graph)?;
    destroy_executable(executable)?;
    assert!(rig.destroyed()?.is_empty());
    drop(open);
    stream.synchronize()?;
    assert_eq!(rig.destroyed()?, ["object"]);
    Ok(())
}

#[test]
fn bad_counts_flags_and_handles_change_nothing() -> Outcome {
    let rig = Rig::new()?;
    let graph = graph()?;
    let object = rig.object("object", 2)?;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;

    for count in [0, 1 << 31, u32::MAX] {
        expect_error(rig.object("never", count), invalid);
        expect_error(retain(object, count), invalid);
        expect_error(release(object, count), invalid);
        expect_error(graph_retain(graph, object, count, 0), invalid);
        let text = expect_error(graph_release(graph, object, count), invalid);
        assert!(
            text.contains(&format!("count is {count}, must be")),
            "{text}"
        );
    }
    let mut new = ptr::null_mut();
    // SAFETY: refused before anything is called or written.
    unsafe {
        let data = ptr::null_mut();
        let refused = sys::cuUserObjectCreate(&mut new, data, None, 1, NO_SYNC);
        expect_error(refused.result(), invalid);
        for flags in [0, 2, 3] {
            let refused = sys::cuUserObjectCreate(&mut new, data, Some(destroy), 1, flags);
            expect_error(refused.result(), invalid);
        }
        let refused = sys::cuUserObjectCreate(ptr::null_mut(), data, Some(destroy), 1, NO_SYNC);
        let text = expect_error(refused.result(), invalid);
        assert!(text.contains("object_out"), "{text}");
    }
    assert!(new.is_null());
    let text = expect_error(release(object, 3), invalid);
    assert!(text.contains("the program owns 2"), "{text}");
    expect_error(graph_retain(graph, object, 3, MOVE), invalid);
    expect_error(graph_retain(graph, object, 1, 2), invalid);
    expect_error(graph_release(graph, object, 1), invalid);
    // A graph is no object, and the other way round.
    let handle = CUresult::CUDA_ERROR_INVALID_HANDLE;
    expect_error(retain(graph.cast(), 1), handle);
    expect_error(graph_retain(object.cast(), object, 1, 0), handle);
    expect_error(graph_release(graph, ptr::null_mut(), 1), handle);

    assert!(rig.destroyed()?.is_empty());
    release(object, 2)?;
    assert_eq!(rig.destroyed()?, ["object"]);
    Ok(())
}
