//! Counts of allocations, frees, copies and fills, through cudarc.

use std::{ffi::c_void, ptr::null_mut, thread};

use crate::common::{Outcome, own_context};
use cuda_sim::{MemoryOperations, Total, record};
use cudarc::driver::{
    CudaSlice, result,
    sys::{CUgraphInstantiate_flags as Flags, CUstreamCaptureMode},
};

/// Counts of `work`.
fn counted<T>(
    work: impl FnOnce() -> Result<T, Box<dyn std::error::Error>>,
) -> Result<MemoryOperations, Box<dyn std::error::Error>> {
    let (result, recording) = record(work);
    result?;
    Ok(recording.memory)
}

fn total(count: u64, bytes: u64) -> Total {
    Total { count, bytes }
}

#[test]
fn every_operation_on_memory_counts_once() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let found = counted(|| {
        let a = stream.clone_htod(&[1u32; 10])?;
        let mut b = stream.alloc_zeros::<u32>(6)?;
        stream.memcpy_dtod(&a.slice(..3), &mut b.slice_mut(1..4))?;
        drop(a);
        // SAFETY: nothing reads it.
        drop(unsafe { context.alloc_pinned::<u64>(4) }?);
        assert_eq!(stream.clone_dtoh(&b)?, [0, 1, 1, 1, 0, 0]);
        Ok(b)
    })?;
    let expected = MemoryOperations {
        allocations: total(3, 40 + 24 + 32),
        frees: 2,
        to_device: total(1, 40),
        to_host: total(1, 24),
        on_device: total(1, 12),
        fills: total(1, 24),
    };
    assert_eq!(found, expected);
    Ok(())
}

#[test]
fn each_wait_of_the_host_counts_once() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let event = context.new_event(None)?;
    let (done, recording) = record(|| {
        event.record(&stream)?;
        event.synchronize()?;
        stream.synchronize()?;
        context.synchronize()?;
        drop(stream.clone_htod(&[1u32; 10])?);
        stream.wait(&event) // on the device
    });
    done?;
    assert_eq!(recording.waits, 3);
    Ok(())
}

#[test]
fn what_does_nothing_or_fails_counts_nothing() -> Outcome {
    let stream = own_context()?.default_stream();
    let mut four = stream.alloc_zeros::<u8>(4)?;
    let found = counted(|| {
        let empty: CudaSlice<u8> = stream.alloc_zeros(0)?;
        stream.memcpy_htod::<u8, [u8], _>(&[], &mut four)?;
        drop(empty);
        // SAFETY: the driver refuses both: the second address lies in no allocation.
        let refused = unsafe {
            [
                result::malloc_sync(usize::MAX).map(drop),
                result::memcpy_htod_sync(0x10, &[1u8]),
            ]
        };
        assert!(refused.iter().all(Result::is_err), "{refused:?}");
        Ok(())
    })?;
    assert_eq!(found, MemoryOperations::default());
    Ok(())
}

/// A copy counts at each launch of the graph, the allocation once.
#[test]
fn a_capture_counts_nothing_but_its_allocations() -> Outcome {
    let context = own_context()?;
    // SAFETY: one stream uses all memory.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let host = [7u16; 5];
    let mut graph = None;
    let captured = counted(|| {
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        // SAFETY: the graph writes it before anything reads it.
        let mut data = unsafe { stream.alloc::<u16>(5) }?;
        stream.memcpy_htod(&host, &mut data)?;
        drop(data);
        graph = stream.end_capture(Flags(0))?;
        Ok(())
    })?;
    let allocations = total(1, 10);
    let expected = MemoryOperations {
        allocations,
        ..MemoryOperations::default()
    };
    assert_eq!(captured, expected);

    let graph = graph.ok_or("no graph")?;
    let launched = counted(|| {
        graph.launch()?;
        Ok(graph.launch()?)
    })?;
    let expected = MemoryOperations {
        to_device: total(2, 20),
        ..MemoryOperations::default()
    };
    assert_eq!(launched, expected);
    Ok(())
}

/// A thread of the stream copies, and another thread copies at the same time.
#[test]
fn an_operation_counts_for_the_thread_that_asked_for_it() -> Outcome {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    let stream = own_context()?.new_stream()?;
    // SAFETY: the function needs no data.
    unsafe { result::stream::launch_host_function(stream.cu_stream(), nothing, null_mut()) }?;
    let mut data = stream.alloc_zeros::<u64>(2)?;
    let other = own_context()?.default_stream();
    let found = counted(|| {
        stream.memcpy_htod(&[1, 2], &mut data)?;
        let copy = || other.clone_htod(&[1u8; 9]).map(drop);
        thread::scope(|scope| scope.spawn(copy).join().expect("no panic"))?;
        Ok(stream.synchronize()?)
    })?;
    let expected = MemoryOperations {
        to_device: total(1, 16),
        ..MemoryOperations::default()
    };
    assert_eq!(found, expected);
    Ok(())
}
