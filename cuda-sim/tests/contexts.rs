//! Device, contexts, handles and error texts, through cudarc.

use std::{ptr, sync::Arc, thread};

use crate::common::{Outcome, context, expect_error};
use cudarc::driver::{
    CudaContext, DriverError, result,
    sys::{self, CUdevice_attribute, CUfunc_cache, CUlimit, CUresult},
};

#[test]
fn there_is_one_device_and_it_looks_like_an_h100() -> Outcome {
    let context = context()?;
    assert_eq!(CudaContext::device_count()?, 1);
    assert_eq!(context.name()?, "cuda-sim (h100)");
    assert_eq!(context.compute_capability()?, (9, 0));
    assert_eq!(
        &context.uuid()?.bytes.map(|byte| byte as u8),
        b"cuda-sim-h100-00"
    );
    use CUdevice_attribute::*;
    for (attribute, value) in [
        (CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32),
        (CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132),
        (CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024),
        (CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64),
        (CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, i32::MAX),
        (CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535),
        (CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152),
        (
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            232_448,
        ),
        (
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            233_472,
        ),
        (CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048),
        (CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1),
        (CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1),
        (CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1),
    ] {
        assert_eq!(context.attribute(attribute)?, value, "{attribute:?}");
    }
    let mut version = 0;
    // SAFETY: a place for the result.
    unsafe { sys::cuDriverGetVersion(&mut version).result() }?;
    assert_eq!(version, 12080);
    let beyond = context.attribute(CU_DEVICE_ATTRIBUTE_MAX);
    expect_error(beyond, CUresult::CUDA_ERROR_INVALID_VALUE);
    Ok(())
}

#[test]
fn another_device_is_an_error() -> Outcome {
    let _keeper = context()?;
    for ordinal in [1, 7, usize::MAX] {
        let text = expect_error(
            CudaContext::new(ordinal).map(drop),
            CUresult::CUDA_ERROR_INVALID_DEVICE,
        );
        assert!(text.contains("one device, 0"), "{text}");
    }
    Ok(())
}

#[test]
fn a_short_buffer_cuts_the_name() -> Outcome {
    let _keeper = context()?;
    let mut name = [b'x' as i8; 10];
    // SAFETY: a buffer of the length given.
    unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 5, 0).result() }?;
    assert_eq!(&name.map(|byte| byte as u8), b"cuda\0xxxxx");
    // SAFETY: refused.
    let none = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 0, 0).result() };
    expect_error(none, CUresult::CUDA_ERROR_INVALID_VALUE);
    Ok(())
}

#[test]
fn a_context_of_its_own_takes_its_memory_and_streams_along() -> Outcome {
    let keeper = context()?;
    let own = CudaContext::new_non_primary(0, 0)?;
    assert!(!own.is_primary() && own.cu_ctx() != keeper.cu_ctx());
    let stream = own.new_stream()?;
    let leaked = stream.alloc_zeros::<u8>(1 << 20)?.leak();
    let raw = stream.cu_stream();
    drop(stream);
    drop(own);
    keeper.bind_to_thread()?;
    // SAFETY: refused: the memory went with its context, the stream with its wrapper.
    unsafe {
        let copy = result::memcpy_dtoh_sync(&mut [0u8], leaked);
        assert!(expect_error(copy, CUresult::CUDA_ERROR_INVALID_VALUE).contains("freed before"));
        expect_error(
            result::stream::synchronize(raw),
            CUresult::CUDA_ERROR_INVALID_HANDLE,
        );
    }
    Ok(())
}

#[test]
fn copies_between_contexts_work() -> Outcome {
    let first = context()?;
    let second = CudaContext::new_non_primary(0, 0)?;
    let from = first.default_stream().clone_htod(&[1u8, 2, 3])?;
    let mut to = second.default_stream().alloc_zeros::<u8>(3)?;
    second.default_stream().memcpy_dtod(&from, &mut to)?;
    assert_eq!(second.default_stream().clone_dtoh(&to)?, [1, 2, 3]);
    Ok(())
}

#[test]
fn a_thread_without_a_context_is_told_so() -> Outcome {
    let context = context()?;
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            assert_eq!(result::ctx::get_current(), Ok(None));
            // SAFETY: refused.
            let refused = unsafe { result::malloc_sync(1) };
            expect_error(refused, CUresult::CUDA_ERROR_INVALID_CONTEXT);
            context.bind_to_thread()?;
            // SAFETY: nothing reads it.
            unsafe { result::free_sync(result::malloc_sync(1)?) }
        });
        worker.join().expect("no panic")
    })?;
    Ok(())
}

#[test]
fn limits_and_cache_preference_are_remembered() -> Outcome {
    cuda_sim::install()?;
    let context = CudaContext::new_non_primary(0, 0)?;
    let stack = context.get_limit(CUlimit::CU_LIMIT_STACK_SIZE)?;
    context.set_limit(CUlimit::CU_LIMIT_STACK_SIZE, stack * 2)?;
    assert_eq!(context.get_limit(CUlimit::CU_LIMIT_STACK_SIZE)?, stack * 2);
    let depth = context.set_limit(CUlimit::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 4);
    expect_error(depth, CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT);
    let shmem = context.get_limit(CUlimit::CU_LIMIT_SHMEM_SIZE);
    expect_error(shmem, CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT);
    assert_eq!(
        context.get_cache_config()?,
        CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE
    );
    context.set_cache_config(CUfunc_cache::CU_FUNC_CACHE_PREFER_L1)?;
    assert_eq!(
        context.get_cache_config()?,
        CUfunc_cache::CU_FUNC_CACHE_PREFER_L1
    );
    context.set_blocking_synchronize()?;
    Ok(())
}

#[test]
fn the_context_stack_pushes_and_pops() -> Outcome {
    let context = context()?;
    let own = CudaContext::new_non_primary(0, 0)?;
    context.bind_to_thread()?;
    let mut popped = ptr::null_mut();
    // SAFETY: live contexts, and places for results.
    unsafe {
        sys::cuCtxPushCurrent_v2(own.cu_ctx()).result()?;
        assert_eq!(result::ctx::get_current()?, Some(own.cu_ctx()));
        sys::cuCtxPopCurrent_v2(&mut popped).result()?;
    }
    assert_eq!(popped, own.cu_ctx());
    assert_eq!(result::ctx::get_current()?, Some(context.cu_ctx()));
    Ok(())
}

#[test]
fn bad_handles_and_null_places_are_errors_not_crashes() -> Outcome {
    let context = context()?;
    let stream = context.new_stream()?;
    let event = stream.record_event(None)?;
    let wrong = event.cu_event() as usize;
    for handle in [0usize, 1, 3, 0xdead_beef, usize::MAX, wrong] {
        let bad = handle as *mut std::ffi::c_void;
        // SAFETY: no handle is followed: that is the subject of the test.
        let results = unsafe {
            [
                sys::cuModuleUnload(bad.cast()),
                sys::cuEventRecord(
                    if handle == wrong {
                        stream.cu_stream().cast()
                    } else {
                        bad.cast()
                    },
                    ptr::null_mut(),
                ),
                sys::cuGraphExecDestroy(bad.cast()),
                sys::cuGraphDestroy(bad.cast()),
                sys::cuMemPoolDestroy(bad.cast()),
                sys::cuFuncSetCacheConfig(bad.cast(), CUfunc_cache::CU_FUNC_CACHE_PREFER_L1),
                sys::cuStreamDestroy_v2(bad.cast()),
                sys::cuLaunchKernel(
                    bad.cast(),
                    1,
                    1,
                    1,
                    1,
                    1,
                    1,
                    0,
                    ptr::null_mut(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                ),
            ]
        };
        assert_eq!(
            results,
            [CUresult::CUDA_ERROR_INVALID_HANDLE; 8],
            "{handle:#x}"
        );
    }
    // SAFETY: every place for a result is null: that is the subject of the test.
    let results = unsafe {
        [
            sys::cuDeviceGetCount(ptr::null_mut()),
            sys::cuMemAlloc_v2(ptr::null_mut(), 8),
            sys::cuStreamCreate(ptr::null_mut(), 0),
            sys::cuEventCreate(ptr::null_mut(), 0),
            sys::cuModuleLoadData(ptr::null_mut(), c".version 8.0".as_ptr().cast()),
            sys::cuModuleLoad(&mut ptr::null_mut(), ptr::null()),
            sys::cuMemcpyHtoD_v2(8, ptr::null(), 8),
            sys::cuGetErrorString(CUresult::CUDA_ERROR_INVALID_VALUE, ptr::null_mut()),
        ]
    };
    assert_eq!(results, [CUresult::CUDA_ERROR_INVALID_VALUE; 8]);
    Ok(())
}

#[test]
fn texts_are_kept_per_code_and_follow_an_error_to_another_thread() -> Outcome {
    let _context = context()?;
    // SAFETY: refused.
    let free = |addr: u64| unsafe { result::free_sync(addr) }.expect_err("refused");
    let error = free(0x1234_5678);
    let text = |error: DriverError| {
        Ok::<String, DriverError>(error.error_string()?.to_str().unwrap_or("").into())
    };
    assert!(text(error)?.contains("0x12345678"));
    let kept = error.error_string()?;
    expect_error(
        CudaContext::new(1).map(drop),
        CUresult::CUDA_ERROR_INVALID_DEVICE,
    );
    assert!(
        kept.to_str()?.contains("0x12345678"),
        "another code does not touch it"
    );
    assert!(
        format!("{error:?}").contains("0x12345678"),
        "cudarc shows it"
    );

    let elsewhere = thread::scope(|scope| scope.spawn(|| text(error)).join().expect("no panic"))?;
    // Another test's error of the same code may have come later.
    assert_ne!(
        elsewhere, "invalid argument",
        "the text of some such error, not the code's meaning"
    );
    free(0x8765_4321);
    assert!(text(error)?.contains("0x87654321"), "the last one counts");

    let plain = DriverError(CUresult::CUDA_ERROR_NOT_FOUND);
    assert_eq!(plain.error_string()?, c"named symbol not found");
    assert_eq!(plain.error_name()?, c"CUDA_ERROR_NOT_FOUND");
    Ok(())
}

#[test]
fn install_is_idempotent_in_many_threads() {
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(cuda_sim::install)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert_eq!(results, vec![Ok(()); 8]);
}

#[test]
fn the_primary_context_is_shared_while_retained() -> Outcome {
    let first = context()?;
    let second = CudaContext::new(0)?;
    assert_eq!(first.cu_ctx(), second.cu_ctx());
    assert!(!Arc::ptr_eq(&first, &second));
    let slice = first.default_stream().clone_htod(&[1.0f32; 10])?;
    drop(first);
    assert_eq!(second.default_stream().clone_dtoh(&slice)?, [1.0; 10]);
    Ok(())
}

#[test]
fn the_device_has_no_peer() -> Outcome {
    let context = context()?;
    let own = CudaContext::new_non_primary(0, 0)?;
    context.bind_to_thread()?;
    let mut can = 9;
    // SAFETY: a place for the result.
    unsafe {
        sys::cuDeviceCanAccessPeer(&mut can, 0, 0).result()?;
        assert_eq!(can, 0);
        let other = sys::cuDeviceCanAccessPeer(&mut can, 0, 1);
        expect_error(other.result(), CUresult::CUDA_ERROR_INVALID_DEVICE);
        let same = sys::cuCtxEnablePeerAccess(context.cu_ctx(), 0);
        expect_error(same.result(), CUresult::CUDA_ERROR_INVALID_CONTEXT);
        let enable = sys::cuCtxEnablePeerAccess(own.cu_ctx(), 0);
        expect_error(
            enable.result(),
            CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
        );
        let disable = sys::cuCtxDisablePeerAccess(own.cu_ctx());
        expect_error(
            disable.result(),
            CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
        );
    }
    Ok(())
}

#[test]
fn older_calls_tell_the_same_of_the_device_and_make_contexts() -> Outcome {
    let context = context()?;
    let (mut major, mut minor, mut flags, mut active) = (0, 0, 9, 0);
    let (mut own, mut device, mut version) = (ptr::null_mut(), 9, 0);
    let mut id = [0i8; 20];
    // SAFETY: places for the results, and a buffer with its size.
    unsafe {
        sys::cuDeviceComputeCapability(&mut major, &mut minor, 0).result()?;
        assert_eq!((major, minor), (9, 0));
        let multiprocessors = sys::CUexecAffinityType::CU_EXEC_AFFINITY_TYPE_SM_COUNT;
        sys::cuDeviceGetExecAffinitySupport(&mut device, multiprocessors, 0).result()?;
        assert_eq!(device, 0);
        let none = sys::cuDeviceGetExecAffinitySupport(&mut device, multiprocessors, 1);
        expect_error(none.result(), CUresult::CUDA_ERROR_INVALID_DEVICE);
        let no_type = sys::CUexecAffinityType::CU_EXEC_AFFINITY_TYPE_MAX;
        let refused = sys::cuDeviceGetExecAffinitySupport(&mut device, no_type, 0);
        let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.contains("type 1"), "{text}");
        sys::cuDeviceGetPCIBusId(id.as_mut_ptr(), 20, 0).result()?;
        sys::cuDeviceGetByPCIBusId(&mut device, id.as_ptr()).result()?;
        assert_eq!(device, 0);
        let nowhere = sys::cuDeviceGetByPCIBusId(&mut device, c"0000:17:00.0".as_ptr());
        expect_error(nowhere.result(), CUresult::CUDA_ERROR_INVALID_DEVICE);
        sys::cuDevicePrimaryCtxGetState(0, &mut flags, &mut active).result()?;
        assert_eq!(active, 1);
        sys::cuCtxCreate_v2(&mut own, 4, 0).result()?;
        assert_eq!(result::ctx::get_current()?, Some(own));
        sys::cuCtxGetFlags(&mut flags).result()?;
        assert_eq!(flags, 4);
        sys::cuCtxGetApiVersion(own, &mut version).result()?;
        assert_eq!(version, 3020);
        sys::cuCtxDestroy_v2(own).result()?;
    }
    context.bind_to_thread()?;
    Ok(())
}

#[test]
fn a_function_is_found_by_name_and_version() -> Outcome {
    let _keeper = context()?;
    let find = |name: &std::ffi::CStr, version| {
        let mut address = ptr::null_mut();
        let mut status = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
        // SAFETY: a name, and places for the results.
        let code = unsafe {
            sys::cuGetProcAddress_v2(name.as_ptr(), &mut address, version, 0, &mut status)
        };
        code.result().map(|()| (address, status as u32))
    };
    let (count, found) = find(c"cuDeviceGetCount", 12000)?;
    assert_eq!(found, 0);
    // SAFETY: the function has this type.
    let count: unsafe extern "C" fn(*mut i32) -> u32 = unsafe { std::mem::transmute(count) };
    let mut devices = 0;
    // SAFETY: a place for the result.
    assert_eq!(unsafe { count(&mut devices) }, 0);
    assert_eq!(devices, 1);
    assert_ne!(
        find(c"cuMemAdvise", 12010)?.0,
        find(c"cuMemAdvise", 12020)?.0
    );
    // A program of a later CUDA gets what this driver's CUDA has.
    let now = find(c"cuCtxSynchronize", 12080)?;
    assert_eq!(find(c"cuCtxSynchronize", 13000)?, now);
    // SAFETY: the function has this type.
    let wait: unsafe extern "C" fn() -> u32 = unsafe { std::mem::transmute(now.0) };
    // SAFETY: it takes no arguments.
    assert_eq!(unsafe { wait() }, 0);
    assert_eq!(find(c"cuNothing", 12000)?, (ptr::null_mut(), 1));
    assert_eq!(find(c"cuGraphCreate", 12000)?.1, 0);
    assert_eq!(find(c"cuGraphAddNode", 12000)?, (ptr::null_mut(), 2));
    Ok(())
}

#[test]
fn a_context_stays_until_its_last_use_is_detached() -> Outcome {
    let _keeper = context()?;
    let (mut created, mut attached) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: places for handles; the driver checks handles.
    unsafe {
        sys::cuCtxCreate_v2(&mut created, 0, 0).result()?;
        sys::cuCtxAttach(&mut attached, 0).result()?;
        assert_eq!(attached, created);
        let flags = sys::cuCtxAttach(&mut attached, 1);
        assert_eq!(flags, CUresult::CUDA_ERROR_INVALID_VALUE);
        sys::cuCtxDetach(created).result()?;
        sys::cuCtxSynchronize().result()?;
        sys::cuCtxDetach(created).result()?;
        let gone = sys::cuCtxDetach(created);
        assert_eq!(gone, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
    assert_ne!(result::ctx::get_current()?, Some(created));
    Ok(())
}

#[test]
fn the_primary_context_is_neither_attached_nor_detached() -> Outcome {
    let primary = context()?;
    primary.bind_to_thread()?;
    let mut attached = ptr::null_mut();
    // SAFETY: a place for a handle, and a handle that the driver checks.
    let codes = unsafe {
        [
            sys::cuCtxAttach(&mut attached, 0),
            sys::cuCtxDetach(primary.cu_ctx()),
        ]
    };
    assert_eq!(codes, [CUresult::CUDA_ERROR_INVALID_CONTEXT; 2]);
    primary.synchronize()?;
    Ok(())
}
