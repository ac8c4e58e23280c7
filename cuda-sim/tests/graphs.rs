//! Stream capture and graphs, through cudarc.

use std::{
    ffi::c_void,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::common::{Outcome, expect_error, own_context};
use cudarc::driver::{
    CudaContext, CudaGraph, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig,
    PushKernelArg, result,
    sys::{
        self, CUgraphInstantiate_flags as Flags, CUresult,
        CUstreamCaptureMode::{
            self, CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        },
        CUstreamCaptureStatus,
    },
};
use cudarc::nvrtc::Ptx;

const THREAD: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const NONE: Flags = Flags(0);

/// A context in which cudarc does not wait for events that were recorded outside a capture.
fn untracked() -> Result<Arc<CudaContext>, Box<dyn std::error::Error>> {
    let context = own_context()?;
    // SAFETY: every test below uses one stream, or orders its streams itself.
    unsafe { context.disable_event_tracking() };
    Ok(context)
}

#[test]
fn a_captured_stream_does_nothing_until_the_graph_is_launched() -> Outcome {
    let stream = untracked()?.new_stream()?;
    let mut data = stream.clone_htod(&[1u32; 4])?;
    stream.begin_capture(THREAD)?;
    assert_eq!(
        stream.capture_status()?,
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
    );
    stream.memset_zeros(&mut data)?;
    let graph = stream.end_capture(NONE)?.ok_or("no graph")?;
    assert_eq!(
        stream.capture_status()?,
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
    );
    assert_eq!(stream.clone_dtoh(&data)?, [1; 4]);
    for _ in 0..3 {
        graph.upload()?;
        graph.launch()?;
        assert_eq!(stream.clone_dtoh(&data)?, [0; 4]);
        stream.memcpy_htod(&[2u32; 4], &mut data)?;
    }
    Ok(())
}

#[test]
fn a_graph_reads_host_memory_when_it_is_launched() -> Outcome {
    let stream = untracked()?.new_stream()?;
    let mut host = vec![1u32, 2];
    let mut data = stream.alloc_zeros::<u32>(2)?;
    stream.begin_capture(THREAD)?;
    stream.memcpy_htod(&host, &mut data)?;
    let graph = stream.end_capture(NONE)?.ok_or("no graph")?;
    host[1] = 3;
    graph.launch()?;
    assert_eq!(stream.clone_dtoh(&data)?, [1, 3]);
    drop(host);
    Ok(())
}

#[test]
fn memory_allocated_in_a_capture_lives_as_long_as_the_graph() -> Outcome {
    let context = untracked()?;
    let stream = context.new_stream()?;
    let mut output = stream.alloc_zeros::<u8>(8)?;
    stream.begin_capture(THREAD)?;
    let start = {
        let mut temporary = stream.alloc_zeros::<u8>(8)?;
        stream.memset_zeros(&mut temporary)?;
        stream.memcpy_dtod(&temporary, &mut output)?;
        temporary.device_ptr(&stream).0
    };
    let graph = stream.end_capture(NONE)?.ok_or("no graph")?;
    for _ in 0..2 {
        stream.memcpy_htod(&[9u8; 8], &mut output)?;
        graph.launch()?;
        assert_eq!(stream.clone_dtoh(&output)?, [0; 8]);
    }
    // SAFETY: the driver checks the range; the graph still owns it.
    unsafe { result::memcpy_dtoh_sync(&mut [0u8; 8], start) }?;
    drop(graph);
    context.check_err()?;
    // SAFETY: as above; refused now.
    let copy = unsafe { result::memcpy_dtoh_sync(&mut [0u8; 8], start) };
    expect_error(copy, CUresult::CUDA_ERROR_INVALID_VALUE);
    Ok(())
}

#[test]
fn memory_of_a_graph_lives_as_long_as_what_was_made_of_it() -> Outcome {
    static GO: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn wait(_: *mut c_void) {
        while GO.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
    let context = untracked()?;
    let stream = context.new_stream()?;
    let mut output = stream.alloc_zeros::<u8>(8)?;
    stream.begin_capture(THREAD)?;
    let mut temporary = stream.alloc_zeros::<u8>(8)?;
    stream.memset_zeros(&mut temporary)?;
    stream.memcpy_dtod(&temporary, &mut output)?;
    let start = temporary.device_ptr(&stream).0;
    drop(temporary);
    let inner = stream.end_capture(NONE)?.ok_or("no graph")?;
    // A capture of its launch keeps the memory alive.
    stream.begin_capture(THREAD)?;
    inner.launch()?;
    let outer = stream.end_capture(NONE)?.ok_or("no graph")?;
    drop(inner);
    stream.memcpy_htod(&[9u8; 8], &mut output)?;
    outer.launch()?;
    assert_eq!(stream.clone_dtoh(&output)?, [0; 8]);
    // A launch that waits in a queue does too.
    stream.memcpy_htod(&[9u8; 8], &mut output)?;
    // SAFETY: `wait` ignores its data.
    unsafe {
        result::stream::launch_host_function(stream.cu_stream(), wait, std::ptr::null_mut())
    }?;
    outer.launch()?;
    drop(outer);
    GO.store(1, Ordering::SeqCst);
    assert_eq!(stream.clone_dtoh(&output)?, [0; 8]);
    stream.synchronize()?;
    // SAFETY: refused: the last graph is gone.
    let copy = unsafe { result::memcpy_dtoh_sync(&mut [0u8; 8], start) };
    expect_error(copy, CUresult::CUDA_ERROR_INVALID_VALUE);
    Ok(())
}

#[test]
fn a_graph_with_a_host_callback_calls_it_at_each_launch() -> Outcome {
    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: the counter below, which outlives the launches.
        unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
    }
    let stream = untracked()?.new_stream()?;
    let calls = AtomicU32::new(0);
    stream.begin_capture(THREAD)?;
    let data = (&raw const calls).cast_mut().cast();
    // SAFETY: `calls` outlives the synchronisation below.
    unsafe { result::stream::launch_host_function(stream.cu_stream(), count, data) }?;
    let graph = stream.end_capture(NONE)?.ok_or("no graph")?;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    graph.launch()?;
    graph.launch()?;
    stream.synchronize()?;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    Ok(())
}

#[test]
fn a_stream_joins_the_capture_whose_event_it_waits_for() -> Outcome {
    let context = untracked()?;
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let mut data = first.clone_htod(&[1u8; 2])?;
    let start = data.device_ptr(&first).0;
    first.begin_capture(THREAD)?;
    second.join(&first)?;
    // SAFETY: `data` outlives the launch.
    unsafe { result::memset_d8_async(start, 5, 1, second.cu_stream()) }?;
    first.join(&second)?;
    let unmatched = second.end_capture(NONE).map(drop);
    expect_error(unmatched, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    let graph = first.end_capture(NONE)?.ok_or("no graph")?;
    assert_eq!(
        second.capture_status()?,
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
    );
    assert_eq!(first.clone_dtoh(&data)?, [1, 1]);
    graph.launch()?;
    assert_eq!(first.clone_dtoh(&data)?, [5, 1]);
    first.memset_zeros(&mut data)?;
    Ok(())
}

#[test]
fn what_a_graph_cannot_hold_invalidates_the_capture() -> Outcome {
    let context = untracked()?;
    let stream = context.new_stream()?;
    let outside = stream.record_event(None)?;
    let captured = context.new_event(None)?;
    type Call<'a> = &'a dyn Fn() -> Result<(), cudarc::driver::DriverError>;
    let calls: [(Call, CUresult); 3] = [
        (
            &|| stream.synchronize(),
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            &|| stream.wait(&outside),
            CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
        ),
        (
            &|| {
                captured
                    .record(&stream)
                    .and_then(|()| captured.synchronize())
            },
            CUresult::CUDA_ERROR_CAPTURED_EVENT,
        ),
    ];
    for (call, code) in calls {
        stream.begin_capture(THREAD)?;
        expect_error(call(), code);
        let status = stream.capture_status()?;
        assert_eq!(
            status,
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED
        );
        let ended = stream.end_capture(NONE).map(drop);
        expect_error(ended, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        stream.synchronize()?;
    }
    Ok(())
}

#[test]
fn captures_and_graphs_that_cannot_be_are_refused() -> Outcome {
    let context = untracked()?;
    let stream = context.new_stream()?;
    let default = context.default_stream();
    expect_error(
        default.begin_capture(THREAD),
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    );
    expect_error(
        stream.end_capture(NONE).map(drop),
        CUresult::CUDA_ERROR_ILLEGAL_STATE,
    );
    stream.begin_capture(THREAD)?;
    expect_error(
        stream.begin_capture(THREAD),
        CUresult::CUDA_ERROR_ILLEGAL_STATE,
    );
    let elsewhere =
        std::thread::scope(|scope| scope.spawn(|| stream.end_capture(NONE).map(drop)).join());
    let elsewhere = elsewhere.map_err(|_| "the thread panicked")?;
    expect_error(elsewhere, CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    let flags = Flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
        | Flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    expect_error(
        stream.end_capture(flags).map(drop),
        CUresult::CUDA_ERROR_INVALID_VALUE,
    );

    stream.begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let graph =
        std::thread::scope(|scope| scope.spawn(|| stream.end_capture(NONE).map(drop)).join());
    graph.map_err(|_| "the thread panicked")??;

    let data = stream.alloc_zeros::<u8>(4)?;
    stream.begin_capture(THREAD)?;
    let start = data.device_ptr(&stream).0;
    // SAFETY: refused.
    let free = unsafe { result::free_async(start, stream.cu_stream()) };
    expect_error(free, CUresult::CUDA_ERROR_INVALID_VALUE);
    drop(stream.end_capture(NONE)?);
    // SAFETY: no handle is followed.
    let stale = unsafe { sys::cuGraphLaunch(0x1234 as _, stream.cu_stream()).result() };
    expect_error(stale, CUresult::CUDA_ERROR_INVALID_HANDLE);
    Ok(())
}

#[test]
fn a_capture_ends_in_an_error_without_its_graph_or_its_stream() -> Outcome {
    let context = untracked()?;
    let captured = |stream: &CudaStream| {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut graph, mut id) = (std::ptr::null_mut(), 0);
        // SAFETY: places for results.
        let got = unsafe {
            sys::cuStreamGetCaptureInfo_v2(
                stream.cu_stream(),
                &mut status,
                &mut id,
                &mut graph,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        assert_ne!(id, 0);
        assert_eq!(
            status,
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
        );
        got.result().map(|()| graph)
    };
    // The graph of a capture is destroyed before the capture ends.
    let stream = context.new_stream()?;
    let mut data = stream.alloc_zeros::<u8>(4)?;
    stream.begin_capture(THREAD)?;
    let graph = captured(&stream)?;
    stream.memset_zeros(&mut data)?;
    // SAFETY: a live graph.
    unsafe { sys::cuGraphDestroy(graph) }.result()?;
    expect_error(
        stream.end_capture(NONE).map(drop),
        CUresult::CUDA_ERROR_INVALID_HANDLE,
    );
    stream.memset_zeros(&mut data)?;
    stream.synchronize()?;
    // The stream is destroyed before the capture ends: its graph goes with it.
    stream.begin_capture(THREAD)?;
    let graph = captured(&stream)?;
    drop((data, stream));
    // SAFETY: no handle is followed.
    let gone = unsafe { sys::cuGraphDestroy(graph) };
    expect_error(gone.result(), CUresult::CUDA_ERROR_INVALID_HANDLE);
    Ok(())
}

/// Adds 1 to a word.
const BUMP: &str = "
    .version 7.0
    .target sm_70
    .address_size 64
    .visible .entry bump(.param .u64 word) {
        .reg .b32 %r<2>;
        .reg .b64 %d<2>;
        ld.param.u64 %d1, [word];
        ld.global.u32 %r1, [%d1];
        add.u32 %r1, %r1, 1;
        st.global.u32 [%d1], %r1;
        ret;
    }";

/// A graph that launches `bump` once, captured by `capturing`, and what that returned.
fn captured_bump<T>(
    stream: &Arc<CudaStream>,
    word: &mut CudaSlice<u32>,
    capturing: impl FnOnce(&mut dyn FnMut() -> Result<(), DriverError>) -> T,
) -> Result<(CudaGraph, T), Box<dyn std::error::Error>> {
    let module = stream.context().load_module(Ptx::from_src(BUMP))?;
    let bump = module.load_function("bump")?;
    let shape = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (1, 1, 1),
        shared_mem_bytes: 0,
    };
    stream.begin_capture(THREAD)?;
    let result = capturing(&mut || {
        // SAFETY: the argument is the kernel's; it lives as long as the graph is launched.
        unsafe { stream.launch_builder(&bump).arg(&mut *word).launch(shape) }.map(drop)
    });
    Ok((stream.end_capture(NONE)?.ok_or("no graph")?, result))
}

#[test]
fn a_profile_lists_what_graphs_launch_and_not_what_is_captured() -> Outcome {
    let stream = untracked()?.new_stream()?;
    let mut word = stream.alloc_zeros::<u32>(1)?;
    let (graph, (captured, launches)) =
        captured_bump(&stream, &mut word, |bump| cuda_sim::profile(bump))?;
    captured?;
    assert_eq!(launches, []);
    graph.launch()?;
    let (launched, launches) = cuda_sim::profile(|| graph.launch().and_then(|()| graph.launch()));
    launched?;
    assert_eq!(launches.len(), 2);
    assert_eq!(launches[0].kernel, "bump");

    unsafe extern "C" fn nothing(_: *mut c_void) {}
    let null = std::ptr::null_mut();
    // SAFETY: `nothing` ignores its argument. From here on the stream has a worker.
    unsafe { result::stream::launch_host_function(stream.cu_stream(), nothing, null) }?;
    let (done, launches) = cuda_sim::profile(|| graph.launch().and_then(|()| stream.synchronize()));
    done?;
    assert_eq!(launches.len(), 1);
    assert_eq!(stream.clone_dtoh(&word)?, [4]);
    Ok(())
}

#[test]
fn a_graph_runs_with_the_settings_of_its_launch() -> Outcome {
    let stream = untracked()?.new_stream()?;
    // SAFETY: not initialised, which is the point.
    let mut word = unsafe { stream.alloc::<u32>(1) }?;
    let (graph, captured) = captured_bump(&stream, &mut word, |bump| {
        cuda_sim::set_checks(Some(false));
        let captured = bump();
        cuda_sim::set_checks(Some(true));
        captured
    })?;
    captured?;
    expect_error(graph.launch(), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    cuda_sim::set_checks(Some(false));
    let launched = graph.launch();
    cuda_sim::set_checks(None);
    Ok(launched?)
}

#[test]
fn a_graph_of_too_many_nodes_is_refused() -> Outcome {
    let stream = untracked()?.new_stream()?;
    let mut data = stream.alloc_zeros::<u8>(1)?;
    stream.begin_capture(THREAD)?;
    stream.memset_zeros(&mut data)?;
    let mut graph = stream.end_capture(NONE)?.ok_or("no graph")?;
    // Each graph has the one before twice: 3 · 2ⁿ − 2 nodes.
    let twice = |graph: &CudaGraph| {
        stream.begin_capture(THREAD)?;
        graph.launch().and_then(|()| graph.launch())?;
        stream.end_capture(NONE)
    };
    for _ in 0..20 {
        graph = twice(&graph)?.ok_or("no graph")?;
    }
    let text = expect_error(twice(&graph).map(drop), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert!(text.contains("6291454 nodes"), "{text}");
    Ok(())
}

#[test]
fn graphs_are_nested_up_to_a_limit() -> Outcome {
    let context = own_context()?;
    let stream = context.new_stream()?;
    let data = stream.alloc_zeros::<u8>(1)?;
    let start = data.device_ptr(&stream).0;
    let (mut inner, mut graphs) = (None, Vec::new());
    for depth in 1..=65 {
        stream.begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED)?;
        let nested = match inner {
            // SAFETY: `data` outlives the graphs.
            None => unsafe { result::memset_d8_async(start, 9, 1, stream.cu_stream()) },
            // SAFETY: a live executable graph.
            Some(inner) => unsafe { sys::cuGraphLaunch(inner, stream.cu_stream()).result() },
        };
        // SAFETY: a live stream, and places for the results.
        unsafe {
            let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
            sys::cuStreamEndCapture(stream.cu_stream(), &mut graph).result()?;
            if depth == 65 {
                expect_error(nested, CUresult::CUDA_ERROR_NOT_SUPPORTED);
            } else {
                nested?;
            }
            sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0).result()?;
            graphs.push((graph, executable));
            inner = (depth < 65).then_some(executable);
        }
    }
    let (_, deepest) = graphs[63];
    // SAFETY: live graphs, each destroyed once.
    unsafe {
        sys::cuGraphLaunch(deepest, stream.cu_stream()).result()?;
        assert_eq!(stream.clone_dtoh(&data)?, [9]);
        for (graph, executable) in graphs {
            sys::cuGraphDestroy(graph).result()?;
            sys::cuGraphExecDestroy(executable).result()?;
        }
    }
    Ok(())
}
