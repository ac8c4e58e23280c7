//! Streams, events and host callbacks, through cudarc.

use std::{
    ffi::c_void,
    sync::{
        Mutex,
        mpsc::{Receiver, channel},
    },
    thread,
    time::Duration,
};

use crate::common::{Outcome, expect_error, own_context};
use cudarc::driver::{
    CudaStream, DevicePtr, LaunchConfig, PushKernelArg, result,
    sys::{self, CUresult},
};
use cudarc::nvrtc::Ptx;

/// Makes `stream` wait until the returned sender is used or dropped.
fn block(stream: &CudaStream) -> Result<std::sync::mpsc::Sender<()>, Box<dyn std::error::Error>> {
    unsafe extern "C" fn wait(data: *mut c_void) {
        // SAFETY: `data` is the box leaked below, and this function runs once.
        let receiver = unsafe { Box::from_raw(data.cast::<Receiver<()>>()) };
        let _ = receiver.recv_timeout(Duration::from_secs(20));
    }
    let (sender, receiver) = channel();
    let data = Box::into_raw(Box::new(receiver));
    // SAFETY: `wait` takes the box over.
    unsafe { result::stream::launch_host_function(stream.cu_stream(), wait, data.cast()) }?;
    Ok(sender)
}

#[test]
fn a_fork_waits_for_its_parent_and_back() -> Outcome {
    let stream = own_context()?.default_stream();
    let first = stream.clone_htod(&[1.0f32; 1000])?;
    let other = stream.fork()?;
    let second = other.clone_dtod(&first)?;
    stream.join(&other)?;
    assert_eq!(stream.clone_dtoh(&second)?, [1.0; 1000]);
    Ok(())
}

#[test]
fn a_host_callback_runs_in_stream_order_in_another_thread() -> Outcome {
    static SEEN: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    unsafe extern "C" fn note(data: *mut c_void) {
        // SAFETY: the address of a live u32 in device memory, which is host memory here.
        let value = unsafe { data.cast::<u32>().read() };
        assert_eq!(thread::current().name(), Some("cuda-sim stream"));
        SEEN.lock().unwrap().push(value);
    }
    let stream = own_context()?.new_stream()?;
    let mut device = stream.alloc_zeros::<u32>(1)?;
    let at = device.device_ptr(&stream).0 as *mut c_void;
    for value in 0..20u32 {
        stream.memcpy_htod(&[value], &mut device)?;
        // SAFETY: `device` outlives the synchronisation below.
        unsafe { result::stream::launch_host_function(stream.cu_stream(), note, at) }?;
    }
    stream.synchronize()?;
    assert_eq!(*SEEN.lock().unwrap(), (0..20).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn a_bad_size_is_refused_before_a_queued_copy_touches_the_host() -> Outcome {
    let stream = own_context()?.new_stream()?;
    let device = stream.alloc_zeros::<u64>(1)?;
    let at = device.device_ptr(&stream).0;
    let release = block(&stream)?;
    let queue = stream.cu_stream();
    let mut host = [7u64; 1];
    let mine = host.as_mut_ptr().cast::<c_void>();
    for bytes in [9, 1 << 20, 1 << 62, usize::MAX / 2, usize::MAX - 7] {
        // SAFETY: no byte is copied, which is what is tested.
        let refused = unsafe {
            [
                sys::cuMemcpyHtoDAsync_v2(at, mine, bytes, queue),
                sys::cuMemcpyDtoHAsync_v2(mine, at, bytes, queue),
                sys::cuMemcpyDtoDAsync_v2(at, at, bytes, queue),
                sys::cuMemsetD8Async(at, 1, bytes, queue),
                sys::cuMemsetD16Async(at, 1, bytes, queue),
                sys::cuMemsetD32Async(at, 1, bytes, queue),
            ]
        };
        for code in refused {
            expect_error(code.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        }
    }
    drop(release);
    stream.synchronize()?;
    assert_eq!((stream.clone_dtoh(&device)?, host), (vec![0], [7]));
    Ok(())
}

#[test]
fn an_event_is_pending_while_its_stream_is_blocked() -> Outcome {
    let context = own_context()?;
    let stream = context.new_stream()?;
    let event = context.new_event(None)?;
    assert_eq!(event.try_is_complete(), Ok(true), "never recorded");
    let release = block(&stream)?;
    event.record(&stream)?;
    assert_eq!(event.try_is_complete(), Ok(false));
    // SAFETY: a live stream.
    let query = unsafe { sys::cuStreamQuery(stream.cu_stream()).result() };
    expect_error(query, CUresult::CUDA_ERROR_NOT_READY);
    drop(release);
    event.synchronize()?;
    assert_eq!(event.try_is_complete(), Ok(true));
    stream.synchronize()?;
    Ok(())
}

#[test]
fn a_stream_that_waits_for_an_event_does_not_block_the_host() -> Outcome {
    let context = own_context()?;
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let mut device = first.alloc_zeros::<u32>(1)?;
    let at = device.device_ptr(&first).0;
    let release = block(&first)?;
    // SAFETY: `device` is alive until the end of the test.
    unsafe { result::memset_d8_async(at, 7, 4, first.cu_stream()) }?;
    second.join(&first)?;
    // SAFETY: as above.
    unsafe { result::memset_d8_async(at, 9, 1, second.cu_stream()) }?;
    let event = second.record_event(None)?;
    assert_eq!(event.try_is_complete(), Ok(false));
    drop(release);
    second.synchronize()?;
    assert_eq!(
        second.clone_dtoh(&device)?,
        [0x0707_0709],
        "the second stream's write came last"
    );
    second.memset_zeros(&mut device)?;
    second.synchronize()?;
    Ok(())
}

#[test]
fn pageable_memory_is_taken_and_given_at_the_call_and_pinned_memory_later() -> Outcome {
    let context = own_context()?;
    let stream = context.new_stream()?;
    let mut device = stream.alloc_zeros::<u32>(2)?;
    // SAFETY: written before it is read.
    let mut pinned = unsafe { context.alloc_pinned::<u32>(1) }?;
    let pinned = pinned.as_mut_slice()?;
    pinned[0] = 1;
    let (pageable_to, pinned_to) = {
        let start = device.device_ptr(&stream).0;
        (start, start + 4)
    };
    let release = block(&stream)?;
    let mut pageable = vec![1u32];
    // SAFETY: both sources and the destination are alive until the stream is synchronised.
    unsafe {
        result::memcpy_htod_async(pageable_to, &pageable, stream.cu_stream())?;
        result::memcpy_htod_async(pinned_to, pinned, stream.cu_stream())?;
    }
    pageable[0] = 2;
    pinned[0] = 2;
    drop(release);
    assert_eq!(stream.clone_dtoh(&device)?, [1, 2]);
    drop(pageable);
    stream.memset_zeros(&mut device)?;
    stream.synchronize()?;
    Ok(())
}

#[test]
fn the_default_stream_and_blocking_streams_wait_for_each_other() -> Outcome {
    let context = own_context()?;
    context.bind_to_thread()?;
    let default = context.default_stream();
    let device = default.alloc_zeros::<u8>(4)?;
    let start = device.device_ptr(&default).0;
    let blocking = result::stream::create(result::stream::StreamKind::Default)?;
    // SAFETY: a stream of this context, destroyed below and not used after.
    let stream = unsafe { context.wrap_borrowed_stream(blocking) };
    let release = block(&stream)?;
    // SAFETY: `device` is alive until the streams are synchronised.
    unsafe {
        result::memset_d8_async(start, 1, 4, blocking)?;
        result::memset_d8_async(start, 2, 3, default.cu_stream())?;
        result::memset_d8_async(start, 3, 2, blocking)?;
        result::memset_d8_async(start, 4, 1, default.cu_stream())?;
    }
    drop(release);
    default.synchronize()?;
    let mut bytes = [0; 4];
    default.memcpy_dtoh(&device, &mut bytes)?;
    assert_eq!(bytes, [4, 3, 2, 1]);
    // SAFETY: created above.
    unsafe { result::stream::destroy(blocking) }?;
    Ok(())
}

#[test]
fn a_failure_in_a_queue_is_told_once_and_what_follows_runs() -> Outcome {
    let context = own_context()?;
    let stream = context.new_stream()?;
    let device = stream.alloc_zeros::<u8>(16)?;
    let start = device.device_ptr(&stream).0;
    let module = context.load_module(Ptx::from_src(include_str!("../ptx/driver.ptx")))?;
    let store = module.load_function("store")?;
    let release = block(&stream)?;
    // SAFETY: the kernel's fault is what is tested; the memset lies inside the allocation.
    unsafe {
        let mut launch = stream.launch_builder(&store);
        launch
            .arg(&start)
            .arg(&4u64)
            .launch(LaunchConfig::for_num_elems(1))?;
        result::memset_d8_async(start, 2, 16, stream.cu_stream())?;
    }
    drop(release);
    let text = expect_error(stream.synchronize(), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(text.contains("out-of-bounds store"), "{text}");
    stream.synchronize()?;
    assert_eq!(stream.clone_dtoh(&device)?, [2; 16]);
    Ok(())
}

#[test]
fn a_host_callback_must_not_call_the_driver() -> Outcome {
    static CODE: Mutex<Option<CUresult>> = Mutex::new(None);
    unsafe extern "C" fn call(_: *mut c_void) {
        // SAFETY: takes no arguments.
        *CODE.lock().unwrap() = Some(unsafe { sys::cuCtxSynchronize() });
    }
    let stream = own_context()?.new_stream()?;
    // SAFETY: `call` ignores its argument.
    unsafe {
        result::stream::launch_host_function(stream.cu_stream(), call, std::ptr::null_mut())
    }?;
    stream.synchronize()?;
    assert_eq!(
        *CODE.lock().unwrap(),
        Some(CUresult::CUDA_ERROR_NOT_PERMITTED)
    );
    Ok(())
}

#[test]
fn work_of_a_destroyed_stream_still_runs() -> Outcome {
    let context = own_context()?;
    let default = context.default_stream();
    let device = default.alloc_zeros::<u8>(1)?;
    let start = device.device_ptr(&default).0;
    let stream = context.new_stream()?;
    let release = block(&stream)?;
    // SAFETY: `device` outlives the wait below.
    unsafe { result::memset_d8_async(start, 5, 1, stream.cu_stream()) }?;
    let event = stream.record_event(None)?;
    drop(stream);
    drop(release);
    event.synchronize()?;
    assert_eq!(default.clone_dtoh(&device)?, [5]);
    Ok(())
}

#[test]
fn many_threads_share_a_stream() -> Outcome {
    let context = own_context()?;
    let stream = context.new_stream()?;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..8u32)
            .map(|worker| {
                let stream = &stream;
                scope.spawn(move || {
                    for round in 0..50 {
                        let value = worker * 1000 + round;
                        let device = stream.clone_htod(&vec![value; 100])?;
                        assert_eq!(stream.clone_dtoh(&device)?, vec![value; 100]);
                    }
                    Ok::<(), cudarc::driver::DriverError>(())
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    context.check_err()?;
    Ok(())
}

#[test]
fn every_stream_has_a_number_of_its_own() -> Outcome {
    /// The number of a stream of the current context, by its handle.
    fn number(stream: usize) -> u64 {
        let mut id = 0;
        // SAFETY: a place for the result; the driver checks the handle.
        let got = unsafe { sys::cuStreamGetId(stream as sys::CUstream, &mut id) };
        got.result().expect("a stream");
        id
    }
    const NULL: usize = 0;
    const LEGACY: usize = 1;
    const PER_THREAD: usize = 2;
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let context = own_context()?;
        let stream = context.new_stream()?;
        numbers.extend([NULL, PER_THREAD, stream.cu_stream() as usize].map(number));
        assert_eq!(number(LEGACY), number(NULL));
        assert_eq!(number(PER_THREAD), numbers[numbers.len() - 2]);
        let elsewhere = thread::scope(|scope| {
            let other = scope.spawn(|| {
                context.bind_to_thread().expect("a live context");
                assert_eq!(number(NULL), numbers[numbers.len() - 3]);
                number(PER_THREAD)
            });
            other.join()
        });
        numbers.push(elsewhere.map_err(|_| "the thread panicked")?);
    }
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count);
    Ok(())
}

#[test]
fn priorities_are_clamped_to_the_range() -> Outcome {
    let context = own_context()?;
    context.bind_to_thread()?;
    assert_eq!(result::stream::get_priority_range()?, (0, -5));
    for (asked, given) in [(0, 0), (-5, -5), (-100, -5), (100, 0)] {
        let stream = context.new_stream_with_priority(asked)?;
        let mut priority = i32::MIN;
        // SAFETY: a live stream, and a place for the result.
        unsafe { sys::cuStreamGetPriority(stream.cu_stream(), &mut priority).result() }?;
        assert_eq!(priority, given);
    }
    Ok(())
}

#[test]
fn a_free_in_another_stream_takes_effect_in_the_order_of_submission() -> Outcome {
    let context = own_context()?;
    let kernel = context
        .load_module(Ptx::from_src(include_str!("../ptx/driver.ptx")))?
        .load_function("axpy")?;
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let (n, count) = (100_000, 100_000);
    let [x, y] = [second.clone_htod(&vec![1.0f32; n])?, first.alloc_zeros(n)?];
    first.synchronize()?;
    second.synchronize()?;
    let x = x.leak();
    let launch = || {
        let mut launch = first.launch_builder(&kernel);
        let shape = LaunchConfig::for_num_elems(n as u32);
        let (y, _guard) = y.device_ptr(&first);
        launch.arg(&y).arg(&x).arg(&2.0f32).arg(&count);
        // SAFETY: `y` is alive; what happens to `x` is what the test is about.
        unsafe { launch.launch(shape) }.map(|_| ())
    };
    let release = block(&first)?;
    launch()?;
    // SAFETY: `x` is device memory, and freed once.
    unsafe { result::free_async(x, second.cu_stream()) }?;
    // SAFETY: as above; the second time is refused.
    let again = unsafe { result::free_async(x, second.cu_stream()) };
    expect_error(again, CUresult::CUDA_ERROR_INVALID_VALUE);
    // Submitted later: whatever runs first, it finds the memory freed.
    launch()?;
    // More than the quarantine of freed memory holds.
    for _ in 0..300 {
        let other = second.alloc_zeros::<f32>(n)?;
        assert_ne!(other.device_ptr(&second).0, x, "still in use");
    }
    drop(release);
    let fault = first.synchronize().expect_err("a use of freed memory");
    assert!(fault.to_string().contains("use of freed memory"), "{fault}");
    assert_eq!(first.clone_dtoh(&y)?, vec![2.0; n], "the first launch ran");
    Ok(())
}
