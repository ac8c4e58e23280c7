//! A fault ends its launch, is reported once, and nothing else.

use std::{ffi::c_void, ptr};

use cudarc::driver::{DevicePtr, PushKernelArg, result, sys::CUresult};

use crate::common::{Outcome, context, expect_error, own_context};
use crate::{module, shape};

#[test]
fn a_fault_is_reported_once_and_the_next_launch_works() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let store = module(&context)?.load_function("store")?;
    let mut out = stream.alloc_zeros::<i32>(100)?;
    let start = out.device_ptr(&stream).0;
    let mut launch = |index: i64| {
        // SAFETY: the arguments are the kernel's; where it writes is checked by the simulator.
        unsafe {
            stream
                .launch_builder(&store)
                .arg(&mut out)
                .arg(&index)
                .launch(shape(1, 1, 0))
        }
        .map(drop)
    };
    let text = expect_error(launch(100), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(
        text.contains("store") && text.contains(&format!("{:x}", start + 400)),
        "{text}"
    );
    let fault = cuda_sim::last_fault().ok_or("no fault")?;
    assert_eq!(fault.to_string(), text);
    assert_eq!(cuda_sim::take_fault(), Some(fault));
    assert_eq!(cuda_sim::last_fault(), None);
    stream.synchronize()?;
    launch(99)?;
    assert_eq!(stream.clone_dtoh(&out)?[98..], [0, 1]);
    Ok(())
}

#[test]
fn use_after_free_is_a_fault_of_its_own() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let store = module(&context)?.load_function("store")?;
    let freed = stream.alloc_zeros::<i32>(100)?.leak();
    // SAFETY: leaked above; what the kernel does with it is the subject of the test.
    let launched = unsafe {
        result::free_sync(freed)?;
        stream
            .launch_builder(&store)
            .arg(&freed)
            .arg(&5i64)
            .launch(shape(1, 1, 0))
    };
    let text = expect_error(launched.map(drop), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(text.contains("freed"), "{text}");
    Ok(())
}

#[test]
fn a_fault_in_a_queue_comes_with_the_next_synchronisation() -> Outcome {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    let context = own_context()?;
    let stream = context.new_stream()?;
    let store = module(&context)?.load_function("store")?;
    let mut out = stream.alloc_zeros::<i32>(4)?;
    // SAFETY: `nothing` ignores its argument; where the kernel writes is checked by the simulator.
    unsafe {
        result::stream::launch_host_function(stream.cu_stream(), nothing, ptr::null_mut())?;
        stream
            .launch_builder(&store)
            .arg(&mut out)
            .arg(&4i64)
            .launch(shape(1, 1, 0))?;
        stream
            .launch_builder(&store)
            .arg(&mut out)
            .arg(&3i64)
            .launch(shape(1, 1, 0))?;
    }
    expect_error(stream.synchronize(), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(cuda_sim::take_fault().is_some());
    assert!(cuda_sim::last_launch().is_some(), "of the second launch");
    stream.synchronize()?;
    assert_eq!(stream.clone_dtoh(&out)?, [0, 0, 0, 1]);
    Ok(())
}
