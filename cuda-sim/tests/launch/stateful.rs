//! Launches as before CUDA 4, whose block shape, shared memory and parameters are set before.

use std::ptr;

use cudarc::driver::{
    DevicePtr,
    sys::{self, CUfunction, CUresult},
};

use super::module;
use crate::common::{Outcome, context, expect_error};

/// Sets the parameters of `axpy`, one by each function.
fn set_axpy(axpy: CUfunction, y: u64, x: u64, by: f32, length: u32) -> CUresult {
    // SAFETY: pointers to as many bytes as are named; the driver checks handles and ranges.
    let codes = unsafe {
        [
            sys::cuParamSetv(axpy, 0, (&raw const y).cast_mut().cast(), 8),
            sys::cuParamSetv(axpy, 8, (&raw const x).cast_mut().cast(), 8),
            sys::cuParamSetf(axpy, 16, by),
            sys::cuParamSeti(axpy, 20, length),
            sys::cuParamSetSize(axpy, 24),
            sys::cuFuncSetBlockShape(axpy, 8, 1, 1),
            sys::cuFuncSetSharedSize(axpy, 16),
        ]
    };
    let failed = codes
        .into_iter()
        .find(|&code| code != CUresult::CUDA_SUCCESS);
    failed.unwrap_or(CUresult::CUDA_SUCCESS)
}

#[test]
fn what_is_set_stays_for_further_launches() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let other = context.new_stream()?;
    let kernel = module(&context)?.load_function("axpy")?;
    let axpy = kernel.cu_function();
    let x = stream.clone_htod(&(0..20).map(|i| i as f32).collect::<Vec<_>>())?;
    let y = stream.clone_htod(&[1.0f32; 20])?;
    let addresses = [&y, &x].map(|array| array.device_ptr(&stream).0);
    set_axpy(axpy, addresses[0], addresses[1], 2.0, 20).result()?;
    // SAFETY: the parameters are those of the kernel.
    unsafe {
        sys::cuLaunchGrid(axpy, 3, 1).result()?; // 24 threads for 20 elements
        sys::cuLaunch(axpy).result()?; // 8 of them
        sys::cuParamSetf(axpy, 16, -1.0).result()?;
        sys::cuLaunchGridAsync(axpy, 1, 1, other.cu_stream()).result()?;
    }
    context.synchronize()?;
    let expected: Vec<f32> = (0..20)
        .map(|i| {
            let steps = if i < 8 { 2.0 + 2.0 - 1.0 } else { 2.0 };
            1.0 + steps * i as f32
        })
        .collect();
    assert_eq!(stream.clone_dtoh(&y)?, expected);
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Outcome {
    let context = context()?;
    let kernel = module(&context)?.load_function("axpy")?;
    let axpy = kernel.cu_function();
    let wrong = CUresult::CUDA_ERROR_INVALID_VALUE;
    // SAFETY: no pointer is followed; the driver checks handles and numbers.
    unsafe {
        expect_error(sys::cuLaunchGrid(axpy, 1, 1).result(), wrong); // no block shape
        for block in [[0, 1, 1], [-1, 1, 1], [1025, 1, 1], [32, 33, 1]] {
            let [x, y, z] = block;
            expect_error(sys::cuFuncSetBlockShape(axpy, x, y, z).result(), wrong);
        }
        sys::cuFuncSetBlockShape(axpy, 1, 1, 1).result()?;
        let text = expect_error(sys::cuLaunchGrid(axpy, 1, 1).result(), wrong);
        assert!(
            text.contains("its parameters take 24 bytes, the buffer has 0"),
            "{text}"
        );
        for offset in [-4, 21, 24, i32::MAX] {
            expect_error(sys::cuParamSeti(axpy, offset, 1).result(), wrong);
        }
        let text = expect_error(
            sys::cuParamSetv(axpy, 0, ptr::null_mut(), 8).result(),
            wrong,
        );
        assert!(text.contains("ptr"), "{text}");
        sys::cuParamSetSize(axpy, 24).result()?;
        for grid in [[0, 1], [-1, 1], [1, 65536]] {
            let launched = sys::cuLaunchGrid(axpy, grid[0], grid[1]);
            expect_error(launched.result(), wrong);
        }
    }
    Ok(())
}
