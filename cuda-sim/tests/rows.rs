//! Copies of rows, unified copies, attributes of pointers, registered host memory,
//! through CUDA's own calls.

use std::{
    ffi::c_void,
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::common::{Outcome, expect_error, own_context};
use cuda_sim::{Total, record};
use cudarc::driver::{
    CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PushKernelArg, result,
    sys::{self, CUmemorytype, CUpointer_attribute, CUresult},
};

fn addr<T>(slice: &CudaSlice<T>, stream: &CudaStream) -> u64 {
    slice.device_ptr(stream).0
}

/// A copy of rows whose sides are to be filled in.
fn rows(width: usize, height: usize) -> sys::CUDA_MEMCPY2D {
    let mut copy = MaybeUninit::<sys::CUDA_MEMCPY2D>::zeroed();
    let at = copy.as_mut_ptr();
    // SAFETY: zeros are valid in all fields but these two.
    let mut copy = unsafe {
        (&raw mut (*at).srcMemoryType).write(CUmemorytype::CU_MEMORYTYPE_DEVICE);
        (&raw mut (*at).dstMemoryType).write(CUmemorytype::CU_MEMORYTYPE_DEVICE);
        copy.assume_init()
    };
    (copy.WidthInBytes, copy.Height) = (width, height);
    copy
}

#[test]
fn rows_go_to_the_device_within_it_and_back() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let (mut at, mut pitch) = (0, 0);
    // SAFETY: places for the results.
    unsafe { sys::cuMemAllocPitch_v2(&mut at, &mut pitch, 5, 3, 4) }.result()?;
    assert_eq!(pitch, 512);
    let host: Vec<u8> = (0..12).collect(); // three rows of four
    let mut copy = rows(2, 3);
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    (copy.srcHost, copy.srcPitch, copy.srcXInBytes) = (host.as_ptr().cast(), 4, 1);
    (copy.dstDevice, copy.dstPitch, copy.dstXInBytes) = (at, pitch, 3);
    // SAFETY: host memory of the size that the copy reads; the driver checks the device's.
    unsafe { sys::cuMemcpy2D_v2(&copy) }.result()?;
    let dense = stream.alloc_zeros::<u8>(6)?;
    let mut copy = rows(2, 2);
    (copy.srcDevice, copy.srcPitch, copy.srcXInBytes, copy.srcY) = (at, pitch, 3, 1);
    (copy.dstDevice, copy.dstPitch, copy.dstY) = (addr(&dense, &stream), 2, 1);
    // SAFETY: as above.
    unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream.cu_stream()) }.result()?;
    assert_eq!(stream.clone_dtoh(&dense)?, [0, 0, 5, 6, 9, 10]);
    let mut back = [77u8; 8];
    let mut copy = rows(2, 3);
    (copy.srcDevice, copy.srcPitch) = (addr(&dense, &stream), 2);
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    (copy.dstHost, copy.dstPitch) = (back.as_mut_ptr().cast(), 3);
    // SAFETY: room for three rows, three bytes apart.
    unsafe { sys::cuMemcpy2DUnaligned_v2(&copy) }.result()?;
    assert_eq!(back, [0, 0, 77, 5, 6, 77, 9, 10]);
    // SAFETY: allocated above.
    unsafe { result::free_sync(at) }?;
    Ok(())
}

#[test]
fn slices_of_rows_are_copied() -> Outcome {
    let stream = own_context()?.default_stream();
    let from = stream.clone_htod(&(0..24).collect::<Vec<u8>>())?; // two slices of three rows of four
    let to = stream.alloc_zeros::<u8>(8)?;
    let mut copy = MaybeUninit::<sys::CUDA_MEMCPY3D>::zeroed();
    let at = copy.as_mut_ptr();
    // SAFETY: zeros are valid in all fields but these two.
    let mut copy = unsafe {
        (&raw mut (*at).srcMemoryType).write(CUmemorytype::CU_MEMORYTYPE_UNIFIED);
        (&raw mut (*at).dstMemoryType).write(CUmemorytype::CU_MEMORYTYPE_DEVICE);
        copy.assume_init()
    };
    (copy.srcDevice, copy.srcPitch, copy.srcHeight) = (addr(&from, &stream), 4, 3);
    (copy.srcXInBytes, copy.srcY) = (2, 1);
    (copy.dstDevice, copy.dstPitch, copy.dstHeight) = (addr(&to, &stream), 2, 2);
    (copy.WidthInBytes, copy.Height, copy.Depth) = (2, 2, 2);
    // SAFETY: the driver checks the ranges.
    unsafe { sys::cuMemcpy3D_v2(&copy) }.result()?;
    assert_eq!(stream.clone_dtoh(&to)?, [6, 7, 10, 11, 18, 19, 22, 23]);
    Ok(())
}

#[test]
fn rows_are_one_operation() -> Outcome {
    let context = own_context()?;
    // SAFETY: one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let (mut memory, mut other) = (stream.alloc_zeros::<u8>(40)?, stream.alloc_zeros::<u8>(40)?);
    let (at, to) = (addr(&memory, &stream), addr(&other, &stream));
    let mut host = [0u8; 40];
    let (mut up, mut across, mut down) = (rows(4, 3), rows(4, 3), rows(4, 3));
    for copy in [&mut up, &mut across, &mut down] {
        (copy.srcPitch, copy.dstPitch) = (8, 10);
    }
    up.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    let source: [u8; 24] = std::array::from_fn(|byte| byte as u8);
    (up.srcHost, up.dstDevice) = (source.as_ptr().cast(), at);
    (across.srcDevice, across.srcPitch, across.dstDevice) = (at, 10, to);
    down.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    (down.srcDevice, down.srcPitch, down.dstHost) = (to, 10, host.as_mut_ptr().cast());
    let submit = || -> std::result::Result<(), DriverError> {
        let queue = stream.cu_stream();
        // SAFETY: host memory of the size that the copies use, which outlives them; the driver
        // checks the device's.
        unsafe {
            sys::cuMemsetD16Async(to + 30, 7, 2, queue).result()?;
            for copy in [&up, &across, &down] {
                sys::cuMemcpy2DAsync_v2(copy, queue).result()?;
            }
        }
        Ok(())
    };
    let copied = |at: usize| match (at / 10, at % 10) {
        (row @ 0..3, byte @ 0..4) => (8 * row + byte) as u8,
        _ => 0,
    };
    let total = |count, bytes| Total { count, bytes };
    let (submitted, recording) = record(submit);
    submitted?;
    stream.synchronize()?;
    assert_eq!(host, std::array::from_fn(copied));
    let counts = recording.memory;
    assert_eq!(counts.fills, total(1, 4));
    assert_eq!(
        [counts.to_device, counts.on_device, counts.to_host],
        [total(1, 12); 3]
    );
    assert_eq!(stream.clone_dtoh(&other)?[30..36], [7, 0, 7, 0, 0, 0]);
    // Captured, each is a node.
    stream.memset_zeros(&mut memory)?;
    stream.memset_zeros(&mut other)?;
    host.fill(0);
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    submit()?;
    let graph = stream
        .end_capture(sys::CUgraphInstantiate_flags(0))?
        .ok_or("no graph")?;
    let mut count = 0;
    // SAFETY: a place for the result.
    unsafe { sys::cuGraphGetNodes(graph.cu_graph(), ptr::null_mut(), &mut count) }.result()?;
    assert_eq!(count, 4);
    graph.launch()?;
    stream.synchronize()?;
    // SAFETY: the graph has written it by the address above.
    let host = unsafe { (&raw const host).read_volatile() };
    assert_eq!(host, std::array::from_fn(copied));
    Ok(())
}

#[test]
fn pageable_rows_are_taken_at_the_call() -> Outcome {
    static GO: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn wait(_: *mut c_void) {
        while !GO.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
    let stream = own_context()?.new_stream()?;
    let memory = stream.alloc_zeros::<u8>(12)?;
    let mut host: [u8; 16] = std::array::from_fn(|byte| byte as u8);
    let mut copy = rows(3, 3);
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    (copy.srcHost, copy.srcPitch, copy.dstPitch) = (host.as_ptr().cast(), 5, 4);
    copy.dstDevice = addr(&memory, &stream);
    // SAFETY: `wait` ignores its data; host memory of the size that the copy reads.
    unsafe {
        result::stream::launch_host_function(stream.cu_stream(), wait, ptr::null_mut())?;
        sys::cuMemcpy2DAsync_v2(&copy, stream.cu_stream()).result()?;
    }
    host.fill(99);
    std::hint::black_box(&host);
    GO.store(true, Ordering::SeqCst);
    assert_eq!(
        stream.clone_dtoh(&memory)?,
        [0, 1, 2, 0, 5, 6, 7, 0, 10, 11, 12, 0]
    );
    Ok(())
}

#[test]
fn rows_that_do_not_fit_are_refused() -> Outcome {
    let stream = own_context()?.default_stream();
    let memory = stream.alloc_zeros::<u8>(12)?;
    let at = addr(&memory, &stream);
    type Change = fn(&mut sys::CUDA_MEMCPY2D);
    let changes: [(Change, CUresult); 8] = [
        (|copy| copy.Height = 4, CUresult::CUDA_ERROR_INVALID_VALUE),
        (|copy| copy.srcPitch = 3, CUresult::CUDA_ERROR_INVALID_VALUE),
        (|copy| copy.dstPitch = 0, CUresult::CUDA_ERROR_INVALID_VALUE),
        (
            |copy| copy.srcY = usize::MAX,
            CUresult::CUDA_ERROR_INVALID_VALUE,
        ),
        (
            |copy| copy.dstXInBytes = usize::MAX,
            CUresult::CUDA_ERROR_INVALID_VALUE,
        ),
        (
            |copy| copy.Height = usize::MAX,
            CUresult::CUDA_ERROR_INVALID_VALUE,
        ),
        (
            |copy| copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY,
            CUresult::CUDA_ERROR_NOT_SUPPORTED,
        ),
        (
            |copy| copy.dstDevice = 0,
            CUresult::CUDA_ERROR_INVALID_VALUE,
        ),
    ];
    for (number, (change, code)) in changes.into_iter().enumerate() {
        let mut copy = rows(4, 3);
        (copy.srcDevice, copy.srcPitch, copy.dstDevice, copy.dstPitch) = (at, 4, at, 4);
        change(&mut copy);
        // SAFETY: refused.
        let outcome = unsafe { sys::cuMemcpy2D_v2(&copy) }.result();
        assert_eq!(
            outcome.map_err(|error| error.0),
            Err(code),
            "change {number}"
        );
    }
    let mut nothing = rows(0, usize::MAX);
    nothing.srcPitch = 0;
    // SAFETY: copies nothing.
    unsafe { sys::cuMemcpy2D_v2(&nothing) }.result()?;
    Ok(())
}

#[test]
fn rows_past_the_end_name_the_side() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let memory = stream.alloc_zeros::<u8>(12)?;
    let short = stream.alloc_zeros::<u8>(11)?;
    let (at, short) = (addr(&memory, &stream), addr(&short, &stream));
    // SAFETY: used as memory of the host, in the bounds that the driver checks.
    let pinned = unsafe { context.alloc_pinned::<u8>(11) }?;
    let pinned = pinned.as_ptr()?.cast_mut().cast::<c_void>();
    let mut copy = rows(4, 3);
    (copy.srcDevice, copy.srcPitch, copy.dstDevice, copy.dstPitch) = (at, 4, at, 4);
    type Change = fn(&mut sys::CUDA_MEMCPY2D, u64, *mut c_void);
    let changes: [(Change, &str); 4] = [
        (|copy, short, _| copy.srcDevice = short, "src"),
        (|copy, short, _| copy.dstDevice = short, "dst"),
        (
            |copy, _, pinned| {
                copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
                copy.srcHost = pinned;
            },
            "src",
        ),
        (
            |copy, _, pinned| {
                copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
                copy.dstHost = pinned;
            },
            "dst",
        ),
    ];
    for (change, side) in changes {
        let mut copy = copy;
        change(&mut copy, short, pinned);
        // SAFETY: refused.
        let refused = unsafe { sys::cuMemcpy2D_v2(&copy) };
        let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.starts_with(&format!("{side}: 12 bytes at")), "{text}");
    }
    Ok(())
}

#[test]
fn host_memory_that_is_null_is_refused_at_any_offset() -> Outcome {
    let stream = own_context()?.default_stream();
    let memory = stream.alloc_zeros::<u8>(64)?;
    let at = addr(&memory, &stream);
    for kind in [
        CUmemorytype::CU_MEMORYTYPE_HOST,
        CUmemorytype::CU_MEMORYTYPE_UNIFIED,
    ] {
        for (x, y) in [(0, 0), (4, 0), (0, 1)] {
            let mut from = rows(4, 2);
            (from.srcPitch, from.dstPitch) = (8, 8);
            let mut to = from;
            (from.srcMemoryType, from.srcXInBytes, from.srcY) = (kind, x, y);
            from.dstDevice = at;
            (to.dstMemoryType, to.dstXInBytes, to.dstY) = (kind, x, y);
            to.srcDevice = at;
            for (copy, side) in [(from, "src"), (to, "dst")] {
                // SAFETY: refused.
                let refused = unsafe { sys::cuMemcpy2D_v2(&copy) };
                let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
                assert!(text.contains("null") && text.contains(side), "{text}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_unified_copy_finds_out_where_its_addresses_are() -> Outcome {
    let stream = own_context()?.default_stream();
    let (a, b) = (stream.alloc_zeros::<u32>(2)?, stream.alloc_zeros::<u32>(2)?);
    let (host, mut back) = ([1u32, 2], [0u32; 2]);
    let (a, b) = (addr(&a, &stream), addr(&b, &stream));
    let back_at = back.as_mut_ptr() as u64;
    // SAFETY: eight bytes at each address.
    unsafe {
        sys::cuMemcpy(a, host.as_ptr() as u64, 8).result()?;
        sys::cuMemcpyAsync(b, a, 8, stream.cu_stream()).result()?;
        sys::cuMemcpy(back_at, b, 8).result()?;
        let refused = sys::cuMemcpy(back_at, host.as_ptr() as u64, 8);
        expect_error(refused.result(), CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    assert_eq!(back, [1, 2]);
    Ok(())
}

#[test]
fn pointers_tell_what_they_point_to() -> Outcome {
    use CUpointer_attribute::*;
    let context = own_context()?;
    let stream = context.default_stream();
    let memory = stream.alloc_zeros::<u8>(100)?;
    let at = addr(&memory, &stream);
    // SAFETY: used as memory of the host, in the bounds that the driver checks.
    let pinned = unsafe { context.alloc_pinned::<u8>(10) }?;
    let pinned = pinned.as_ptr()? as u64;
    let outside = &raw const stream as u64;
    let read = |attribute, at| {
        let mut value = u64::MAX;
        // SAFETY: room for any attribute.
        let code = unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, at) };
        code.result().map(|()| value)
    };
    let word = |value: u64| value & u64::from(u32::MAX);
    assert_eq!(
        read(CU_POINTER_ATTRIBUTE_CONTEXT, at)?,
        context.cu_ctx() as u64
    );
    assert_eq!(word(read(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 99)?), 2);
    assert_eq!(word(read(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned)?), 1);
    assert_eq!(read(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at + 1)?, at + 1);
    assert_eq!(read(CU_POINTER_ATTRIBUTE_HOST_POINTER, pinned)?, pinned);
    assert_eq!(read(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + 50)?, at);
    assert_eq!(read(CU_POINTER_ATTRIBUTE_RANGE_SIZE, at)?, 100);
    assert_eq!(read(CU_POINTER_ATTRIBUTE_IS_MANAGED, at)? & 0xff, 0);
    for address in [0, at + 100, outside] {
        let refused = read(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
        expect_error(refused.map(drop), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    assert_eq!(word(read(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at)?), 0);
    let (mut start, mut bytes) = (0, 0);
    // SAFETY: places for the results.
    unsafe {
        sys::cuMemGetAddressRange_v2(&mut start, &mut bytes, at + 7).result()?;
        assert_eq!((start, bytes), (at, 100));
        let refused = sys::cuMemGetAddressRange_v2(&mut start, ptr::null_mut(), outside);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(())
}

#[test]
fn registered_memory_is_copied_when_the_stream_comes_to_it() -> Outcome {
    static GO: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn wait(_: *mut c_void) {
        while !GO.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
    let context = own_context()?;
    let stream = context.new_stream()?;
    let memory = stream.alloc_zeros::<u32>(2)?;
    let mut host = vec![1u32, 2];
    let at = host.as_mut_ptr();
    // SAFETY: the memory outlives its registration, and the stream is waited for.
    unsafe {
        sys::cuMemHostRegister_v2(at.cast(), 8, 1).result()?;
        let again = sys::cuMemHostRegister_v2(at.cast::<u8>().add(4).cast(), 8, 0);
        expect_error(
            again.result(),
            CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        );
        let mut flags = 9;
        sys::cuMemHostGetFlags(&mut flags, at.cast()).result()?;
        assert_eq!(flags, 1);
        let mut device = 0;
        let refused = sys::cuMemHostGetDevicePointer_v2(&mut device, at.cast(), 0);
        expect_error(refused.result(), CUresult::CUDA_ERROR_NOT_SUPPORTED);
        // Behind the callback, the stream has a queue; the copy reads what is there when its turn
        // comes.
        result::stream::launch_host_function(stream.cu_stream(), wait, ptr::null_mut())?;
        result::memcpy_htod_async(
            addr(&memory, &stream),
            std::slice::from_raw_parts(at, 2),
            stream.cu_stream(),
        )?;
        at.write_volatile(5);
        GO.store(true, Ordering::SeqCst);
        stream.synchronize()?;
        sys::cuMemHostUnregister(at.cast()).result()?;
        let gone = sys::cuMemHostUnregister(at.cast());
        expect_error(
            gone.result(),
            CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        );
    }
    assert_eq!(stream.clone_dtoh(&memory)?, [5, 2]);
    Ok(())
}

#[test]
fn a_registration_ends_with_its_context() -> Outcome {
    let mut host = vec![1u32, 2];
    let at = host.as_mut_ptr().cast::<c_void>();
    let mut flags = 0;
    for _ in 0..2 {
        let context = own_context()?;
        // SAFETY: memory that outlives its registration, and a place for the result.
        unsafe {
            sys::cuMemHostRegister_v2(at, 8, 2).result()?;
            sys::cuMemHostGetFlags(&mut flags, at).result()?;
        }
        assert_eq!(flags, 2);
        drop(context);
    }
    let _context = own_context()?;
    // SAFETY: as above; refused.
    unsafe {
        let gone = sys::cuMemHostGetFlags(&mut flags, at);
        expect_error(gone.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        let gone = sys::cuMemHostUnregister(at);
        expect_error(
            gone.result(),
            CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        );
    }
    Ok(())
}

#[test]
fn registered_memory_is_host_memory_with_a_context_and_without_an_address_on_the_device() -> Outcome
{
    use CUpointer_attribute::*;
    let context = own_context()?;
    let mut host = vec![1u32; 4];
    let at = host.as_mut_ptr() as u64;
    // SAFETY: the memory outlives its registration.
    unsafe { sys::cuMemHostRegister_v2(at as *mut c_void, 16, 1) }.result()?;
    let read = |attribute, address: u64| {
        let mut value = 0u64;
        // SAFETY: room for the widest attribute.
        unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, address) }
            .result()
            .map(|()| value)
    };
    let wanted = [
        (CU_POINTER_ATTRIBUTE_CONTEXT, context.cu_ctx() as u64),
        (CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 1),
        (CU_POINTER_ATTRIBUTE_HOST_POINTER, at + 4),
        (CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 0),
        (CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at),
        (CU_POINTER_ATTRIBUTE_RANGE_SIZE, 16),
        (CU_POINTER_ATTRIBUTE_IS_MANAGED, 0),
        (CU_POINTER_ATTRIBUTE_MAPPED, 0),
    ];
    for (attribute, value) in wanted {
        assert_eq!(read(attribute, at + 4)?, value, "{attribute:?}");
    }
    let past = read(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 16);
    expect_error(past.map(drop), CUresult::CUDA_ERROR_INVALID_VALUE);
    // SAFETY: registered above.
    unsafe { sys::cuMemHostUnregister(at as *mut c_void) }.result()?;
    let gone = read(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    expect_error(gone.map(drop), CUresult::CUDA_ERROR_INVALID_VALUE);
    Ok(())
}

#[test]
fn a_callback_of_a_stream_gets_the_stream_and_its_data() -> Outcome {
    static CALLED: std::sync::Mutex<Vec<(usize, u32, usize)>> = std::sync::Mutex::new(Vec::new());
    unsafe extern "C" fn call(stream: sys::CUstream, code: CUresult, data: *mut c_void) {
        let call = (stream as usize, code as u32, data as usize);
        CALLED.lock().expect("no panic").push(call);
    }
    let context = own_context()?;
    let stream = context.new_stream()?;
    let add = |data: usize| {
        // SAFETY: the function takes any data.
        unsafe { sys::cuStreamAddCallback(stream.cu_stream(), Some(call), data as *mut c_void, 0) }
            .result()
    };
    add(17)?;
    // The stream has a queue now, and keeps the fault of its kernel for the next call that waits.
    let module = context.load_module(include_str!("../ptx/driver.ptx").into())?;
    let store = module.load_function("store")?;
    // SAFETY: the kernel's fault is what is tested.
    unsafe {
        let mut launch = stream.launch_builder(&store);
        let shape = LaunchConfig::for_num_elems(1);
        launch.arg(&0u64).arg(&0u64).launch(shape)?;
    }
    add(18)?;
    expect_error(stream.synchronize(), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    add(19)?;
    stream.synchronize()?;
    let called = CALLED.lock().expect("no panic").clone();
    let handle = stream.cu_stream() as usize;
    assert_eq!(
        called,
        [(handle, 0, 17), (handle, 700, 18), (handle, 0, 19)]
    );
    // SAFETY: refused.
    let refused = unsafe { sys::cuStreamAddCallback(stream.cu_stream(), None, ptr::null_mut(), 0) };
    expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    Ok(())
}
