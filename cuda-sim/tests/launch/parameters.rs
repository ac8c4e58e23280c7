//! Parameters of a kernel, and calls that lack some.

use std::{ffi::c_void, ptr};

use cudarc::driver::{
    DevicePtr, DeviceRepr, PushKernelArg, result,
    sys::{self, CUresult},
};

use super::{module, shape};
use crate::common::{Outcome, context, expect_error};

#[test]
fn a_kernel_runs_and_is_counted() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let axpy = module(&context)?.load_function("axpy")?;
    let x = stream.clone_htod(&(0..1000).map(|i| i as f32).collect::<Vec<_>>())?;
    let mut y = stream.clone_htod(&[1.0f32; 1000])?;
    // SAFETY: the arguments are those of the kernel.
    unsafe {
        stream
            .launch_builder(&axpy)
            .arg(&mut y)
            .arg(&x)
            .arg(&2.0f32)
            .arg(&1000i32)
            .launch(shape(4, 256, 0))
    }?;
    let y = stream.clone_dtoh(&y)?;
    assert!(
        y.iter()
            .enumerate()
            .all(|(i, &value)| value == 1.0 + 2.0 * i as f32)
    );
    let stats = cuda_sim::last_launch().ok_or("no launch")?.total;
    assert!(
        stats.warp_instructions >= 32 * 8 && stats.lane_instructions >= 1000 * 8,
        "{stats:?}"
    );
    Ok(())
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Mixed {
    c: i8,
    d: f64,
    s: [i16; 3],
}

// SAFETY: plain data with C layout, as the kernel declares it.
unsafe impl DeviceRepr for Mixed {}

#[test]
fn parameters_of_every_size_arrive() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let mixed = module(&context)?.load_function("mixed")?;
    let mut out = stream.alloc_zeros::<f64>(9)?;
    let structure = Mixed {
        c: -7,
        d: 8.5,
        s: [1, 2, -9],
    };
    let mut arguments = stream.launch_builder(&mixed);
    arguments
        .arg(&mut out)
        .arg(&-1i8)
        .arg(&-2i16)
        .arg(&-3i32)
        .arg(&-4i64)
        .arg(&5.5f32)
        .arg(&structure)
        .arg(&true);
    // SAFETY: the arguments are those of the kernel.
    unsafe { arguments.launch(shape(1, 1, 0)) }?;
    assert_eq!(
        stream.clone_dtoh(&out)?,
        [-1.0, -2.0, -3.0, -4.0, 5.5, -7.0, 8.5, -9.0, 1.0]
    );
    Ok(())
}

#[test]
fn parameters_may_come_as_one_buffer() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let store = module(&context)?.load_function("store")?;
    let out = stream.alloc_zeros::<i32>(4)?;
    let buffer = [out.device_ptr(&stream).0, 2];
    let launch = |size: usize| {
        let [end, pointer, bytes] = [0, 1, 2].map(ptr::without_provenance_mut::<c_void>);
        let buffer = (&raw const buffer).cast_mut().cast();
        let mut extra = [
            pointer,
            buffer,
            bytes,
            (&raw const size).cast_mut().cast(),
            end,
        ];
        // SAFETY: the markers, a buffer of at least `size` bytes, and its size.
        unsafe {
            let function = store.cu_function();
            let (stream, extra) = (stream.cu_stream(), extra.as_mut_ptr());
            sys::cuLaunchKernel(
                function,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                stream,
                ptr::null_mut(),
                extra,
            )
            .result()
        }
    };
    launch(16)?;
    assert_eq!(stream.clone_dtoh(&out)?, [0, 0, 1, 0]);
    let text = expect_error(launch(15), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("take 16 bytes, the buffer has 15"), "{text}");
    Ok(())
}

#[test]
fn a_missing_argument_is_named_and_does_not_crash() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let axpy = module(&context)?.load_function("axpy")?;
    let address = 0u64;
    let first = (&raw const address).cast_mut().cast::<c_void>();
    for (second, why) in [
        (ptr::null_mut(), "0x0, is not readable"),
        (16 as *mut c_void, "0x10, is not readable"),
    ] {
        let mut pointers = [first, second, first, first];
        // SAFETY: the pointers are refused before they are used.
        let refused = unsafe {
            result::launch_kernel(
                axpy.cu_function(),
                (1, 1, 1),
                (1, 1, 1),
                0,
                stream.cu_stream(),
                &mut pointers,
            )
        };
        let text = expect_error(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(
            text.contains("`axpy`: parameter 2 of 4 (8 bytes)") && text.contains(why),
            "{text}"
        );
    }
    // SAFETY: refused.
    let refused = unsafe {
        let (function, none) = (axpy.cu_function(), ptr::null_mut());
        sys::cuLaunchKernel(
            function,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            stream.cu_stream(),
            none,
            none,
        )
        .result()
    };
    let text = expect_error(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("kernelParams is null"), "{text}");
    Ok(())
}
