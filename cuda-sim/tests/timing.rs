//! Modelled time, registers and leaks, through cudarc, on the default device. Expected values are
//! worked out by hand from `cuda-sim/MODEL.md`.

use std::{ffi::c_void, sync::Arc};

use crate::common::{Outcome, expect_error, own_context};
use cudarc::{
    driver::{
        CudaContext, CudaEvent, CudaFunction, CudaStream, LaunchConfig, PushKernelArg, result,
        sys::{CUevent_flags, CUfunction_attribute as Attribute, CUresult},
    },
    nvrtc::Ptx,
};

const PTX: &str = include_str!("../ptx/driver.ptx");
/// Bytes of what is copied and filled, and seconds of a fill.
const BYTES: usize = 6_400_000;
const FILL: f64 = 3e-6 + 6.4e6 / 3.35e12;
/// Elements of the vectors of `axpy`.
const N: usize = 1 << 20;
/// Twelve MiB at 3.35 TB/s, and what a launch takes anyway.
const AXPY_SECONDS: f64 = 3e-6 + (12 << 20) as f64 / 3.35e12;

fn function(
    context: &Arc<CudaContext>,
    name: &str,
) -> Result<CudaFunction, Box<dyn std::error::Error>> {
    Ok(context
        .load_module(Ptx::from_src(PTX))?
        .load_function(name)?)
}

/// Runs `y += x` for `n` elements, a multiple of 256.
fn axpy(stream: &Arc<CudaStream>, n: usize) -> Outcome {
    let axpy = function(stream.context(), "axpy")?;
    let mut y = stream.alloc_zeros::<f32>(n)?;
    let x = stream.alloc_zeros::<f32>(n)?;
    let shape = LaunchConfig {
        grid_dim: ((n / 256) as u32, 1, 1),
        block_dim: (256, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the arguments are those of the kernel.
    unsafe {
        stream
            .launch_builder(&axpy)
            .arg(&mut y)
            .arg(&x)
            .arg(&1.0f32)
            .arg(&(n as i32))
            .launch(shape)
    }?;
    Ok(())
}

fn mark(stream: &CudaStream) -> Result<CudaEvent, Box<dyn std::error::Error>> {
    Ok(stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?)
}

/// Asserts the modelled time between two events.
#[track_caller]
fn assert_seconds(start: &CudaEvent, end: &CudaEvent, expected: f64) {
    let found = f64::from(start.elapsed_ms(end).expect("both events are reached")) * 1e-3;
    assert!(
        (found - expected).abs() <= 1e-6 * expected.abs(),
        "{found} s, expected {expected} s"
    );
}

#[test]
fn a_vector_addition_takes_what_its_bytes_take() -> Outcome {
    let stream = own_context()?.default_stream();
    let (done, launches) = cuda_sim::profile(|| axpy(&stream, N));
    done?;
    let [launch] = &launches[..] else {
        return Err("one launch".into());
    };
    let resources = launch.resources.ok_or("the PTX has a report")?;
    assert_eq!((resources.architecture, resources.registers), (90, 10));
    let time = &launch.time;
    assert_eq!(
        (time.device, time.bound),
        ("h100", cuda_sim::Resource::Dram)
    );
    assert_eq!(time.seconds.to_bits(), AXPY_SECONDS.to_bits());
    assert_eq!((time.blocks_per_multiprocessor, time.occupancy), (8, 1.0));
    assert_eq!(cuda_sim::last_launch().ok_or("a launch")?.time, *time);
    Ok(())
}

#[test]
fn events_measure_kernels_copies_and_fills() -> Outcome {
    let stream = own_context()?.default_stream();
    // Memory first: `axpy` fills its own, 4 MiB twice.
    let host = vec![0u8; BYTES];
    let fill = 3e-6 + (4 << 20) as f64 / 3.35e12;
    let start = mark(&stream)?;
    axpy(&stream, N)?;
    let launched = mark(&stream)?;
    let mut device = stream.clone_htod(&host)?;
    let up = mark(&stream)?;
    stream.memset_zeros(&mut device)?;
    let filled = mark(&stream)?;
    let copied_from = stream.clone_dtod(&device)?;
    let copied = mark(&stream)?;
    stream.clone_dtoh(&copied_from)?;
    let down = mark(&stream)?;
    // The launch waits for the fills, so a microsecond of its start is over by then.
    assert_seconds(&start, &launched, AXPY_SECONDS - 1e-6 + 2.0 * fill);
    // 6.4 MB over 64 GB/s.
    assert_seconds(&launched, &up, 3e-6 + 1e-4);
    assert_seconds(&up, &filled, FILL);
    assert_seconds(&filled, &copied, 3e-6 + 12.8e6 / 3.35e12);
    assert_seconds(&copied, &down, 3e-6 + 1e-4);
    assert_seconds(&down, &copied, -(3e-6 + 1e-4));
    // Nothing between them, however long the host takes.
    let again = mark(&stream)?;
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(again.elapsed_ms(&mark(&stream)?)?, 0.0);
    Ok(())
}

#[test]
fn the_same_work_takes_the_same_time_whenever_it_starts() -> Outcome {
    let stream = own_context()?.default_stream();
    let mut times = Vec::new();
    for _ in 0..20 {
        let start = mark(&stream)?;
        axpy(&stream, 1024)?;
        times.push(start.elapsed_ms(&mark(&stream)?)?.to_bits());
    }
    times.dedup();
    assert_eq!(times.len(), 1);
    Ok(())
}

/// The beginning, and two streams: the first has had one fill since, the second three.
type Streams = (CudaEvent, [Arc<CudaStream>; 2]);

fn two_streams(queued: bool) -> Result<Streams, Box<dyn std::error::Error>> {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    let context = own_context()?;
    let start = mark(&context.default_stream())?;
    let streams = [context.new_stream()?, context.new_stream()?];
    for (stream, fills) in streams.iter().zip([1, 3]) {
        if queued {
            // SAFETY: the function ignores its argument.
            unsafe {
                result::stream::launch_host_function(
                    stream.cu_stream(),
                    nothing,
                    std::ptr::null_mut(),
                )
            }?;
        }
        let mut device = stream.alloc_zeros::<u8>(BYTES)?;
        for _ in 1..fills {
            stream.memset_zeros(&mut device)?;
        }
    }
    Ok((start, streams))
}

#[test]
fn streams_have_clocks_of_their_own_and_waits_join_them() -> Outcome {
    for queued in [false, true] {
        let (start, [short, long]) = two_streams(queued)?;
        let (after_short, after_long) = (mark(&short)?, mark(&long)?);
        short.wait(&after_long)?;
        let joined = mark(&short)?;
        // The earlier time changes nothing.
        long.wait(&after_short)?;
        let unmoved = mark(&long)?;
        for event in [&joined, &unmoved] {
            event.synchronize()?;
        }
        assert_seconds(&start, &after_short, FILL);
        assert_seconds(&start, &after_long, 3.0 * FILL);
        assert_seconds(&start, &joined, 3.0 * FILL);
        assert_seconds(&start, &unmoved, 3.0 * FILL);
    }
    Ok(())
}

#[test]
fn what_is_submitted_after_waiting_starts_no_earlier() -> Outcome {
    for queued in [false, true] {
        let (start, [short, long]) = two_streams(queued)?;
        long.synchronize()?;
        let seen = mark(&short)?;
        seen.synchronize()?;
        assert_seconds(&start, &seen, 3.0 * FILL);
    }
    Ok(())
}

#[test]
fn the_default_stream_comes_after_blocking_streams() -> Outcome {
    let context = own_context()?;
    let default = context.default_stream();
    let start = mark(&default)?;
    let blocking = result::stream::create(result::stream::StreamKind::Default)?;
    let mut device = default.alloc_zeros::<u8>(BYTES)?;
    let address = cudarc::driver::DevicePtrMut::device_ptr_mut(&mut device, &default).0;
    // SAFETY: the memory is there for all of the test.
    unsafe { result::memset_d8_async(address, 0, BYTES, blocking) }?;
    // One fill in the default stream, then one in the other, which waits for it; the default stream
    // comes after both.
    assert_seconds(&start, &mark(&default)?, 2.0 * FILL);
    // SAFETY: the stream is used no more.
    unsafe { result::stream::destroy(blocking) }?;
    Ok(())
}

#[test]
fn events_without_timing_or_record_are_refused() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let start = mark(&stream)?;
    let untimed = stream.record_event(None)?;
    let text = expect_error(
        start.elapsed_ms(&untimed),
        CUresult::CUDA_ERROR_INVALID_HANDLE,
    );
    assert!(text.contains("without timing"), "{text}");
    let unrecorded = context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
    let text = expect_error(
        start.elapsed_ms(&unrecorded),
        CUresult::CUDA_ERROR_INVALID_HANDLE,
    );
    assert!(text.contains("never recorded"), "{text}");
    Ok(())
}

/// A kernel that does nothing, with a report above it.
fn reported(report: &str) -> Ptx {
    let body = ".version 8.4\n.target sm_75\n.address_size 64\n.visible .entry heavy() { ret; }\n";
    Ptx::from_src(format!("// sm_75 heavy: {report}\n{body}"))
}

#[test]
fn registers_bound_launches_and_occupancy() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let load = |report: &str| -> Result<_, Box<dyn std::error::Error>> {
        Ok(context
            .load_module(reported(report))?
            .load_function("heavy")?)
    };
    let launch = |function: &CudaFunction, threads: u32| {
        let shape = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the kernel has no arguments.
        unsafe { stream.launch_builder(function).launch(shape) }.map(drop)
    };
    let heavy = load("registers 128, spill stores 24, spill loads 48, shared 0")?;
    assert_eq!(heavy.num_regs()?, 128);
    assert_eq!(
        heavy.get_attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        24
    );
    assert_eq!(heavy.max_threads_per_block()?, 512);
    // 4096 registers a warp, four warps in each of four parts: two blocks of 256 threads.
    let blocks = |threads| heavy.occupancy_max_active_blocks_per_multiprocessor(threads, 0, None);
    assert_eq!((blocks(256)?, blocks(512)?, blocks(513)?), (2, 1, 0));
    launch(&heavy, 512)?;
    let text = expect_error(
        launch(&heavy, 513),
        CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
    );
    for part in ["`heavy`", "513 threads", "128 registers", "at most 512"] {
        assert!(text.contains(part), "{text}");
    }
    expect_error(launch(&heavy, 1025), CUresult::CUDA_ERROR_INVALID_VALUE);
    let light = load("registers 64, spill stores 0, spill loads 0, shared 0")?;
    launch(&light, 1024)?;
    Ok(())
}

#[test]
fn memory_that_is_not_freed_is_reported_at_the_end_of_its_context() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    stream.clone_htod(&[1u8; 500])?.leak();
    let largest = stream.clone_htod(&[1u8; 1000])?.leak();
    drop(stream.clone_htod(&[1u8; 5000])?);
    stream.synchronize()?;
    assert_eq!(cuda_sim::held(), 1500);
    drop((stream, context));
    let leaks = cuda_sim::last_leaks().ok_or("two allocations leaked")?;
    assert_eq!(
        (leaks.allocations, leaks.bytes, leaks.largest_bytes),
        (2, 1500, 1000)
    );
    assert_ne!(largest, 0);

    let context = own_context()?;
    axpy(&context.default_stream(), 256)?;
    axpy(&context.new_stream()?, 256)?;
    // Neither variables of a module that is not unloaded nor host memory count.
    let ptx = std::ffi::CString::new(PTX)?;
    // SAFETY: PTX text with a zero byte; the memory is never used.
    unsafe {
        result::module::load_data(ptx.as_ptr().cast())?;
        result::malloc_host(100, 0)?;
    }
    drop(context);
    assert_eq!(cuda_sim::last_leaks(), None);

    cuda_sim::set_checks(Some(false));
    let context = own_context()?;
    context.default_stream().clone_htod(&[1u8; 7])?.leak();
    drop(context);
    assert_eq!(cuda_sim::last_leaks(), None);
    Ok(())
}
