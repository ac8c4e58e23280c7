//! Modules: their variables, what cannot be loaded, what unloading ends.

use cudarc::{
    driver::{CudaFunction, DevicePtr, PushKernelArg, result, sys::CUresult},
    nvrtc::Ptx,
};

use crate::common::{Outcome, context, expect_error, own_context};
use crate::{module, shape};

#[test]
fn variables_have_initial_values_and_can_be_written() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let module = module(&context)?;
    let (polynomial, count) = (
        module.load_function("polynomial")?,
        module.load_function("count")?,
    );
    let mut out = stream.alloc_zeros::<f32>(3)?;
    // SAFETY: the argument is the kernel's, and has room.
    unsafe {
        stream
            .launch_builder(&polynomial)
            .arg(&mut out)
            .launch(shape(1, 3, 0))
    }?;
    assert_eq!(stream.clone_dtoh(&out)?, [1.0, 10.0, 49.0]);
    let mut symbol = module.get_global("coefficients", &stream)?;
    assert_eq!(symbol.len(), 16);
    // SAFETY: four floats.
    let mut floats = unsafe { symbol.transmute_mut::<f32>(4) }.ok_or("wrong size")?;
    stream.memcpy_htod(&[5.0f32, 0.0, 0.0, 1.0], &mut floats)?;
    // SAFETY: as above; `count` takes none.
    unsafe {
        stream
            .launch_builder(&polynomial)
            .arg(&mut out)
            .launch(shape(1, 3, 0))?;
        stream.launch_builder(&count).launch(shape(3, 64, 0))?;
    }
    assert_eq!(stream.clone_dtoh(&out)?, [5.0, 6.0, 13.0]);
    let counter = stream.clone_dtoh(&module.get_global("counter", &stream)?)?;
    assert_eq!(
        i32::from_le_bytes(counter.try_into().map_err(|_| "not 4 bytes")?),
        5 + 3 * 64
    );
    let missing = module.get_global("nowhere", &stream).map(drop);
    expect_error(missing, CUresult::CUDA_ERROR_NOT_FOUND);
    Ok(())
}

#[test]
fn modules_that_cannot_be_loaded_say_why() -> Outcome {
    let context = context()?;
    let load = |ptx: Ptx| context.load_module(ptx).map(drop);
    let text = expect_error(
        load(Ptx::from_src("this is no PTX")),
        CUresult::CUDA_ERROR_INVALID_PTX,
    );
    assert!(!text.is_empty());
    let machine_code = Ptx::from_binary(b"\x7fELF\x02\x01\x01\x00".to_vec());
    let text = expect_error(load(machine_code), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert!(text.contains("PTX text"), "{text}");
    expect_error(
        load(Ptx::from_binary(vec![0xff, 0xfe, 0])),
        CUresult::CUDA_ERROR_INVALID_IMAGE,
    );
    let text = expect_error(
        load(Ptx::from_file("/nowhere/x.ptx")),
        CUresult::CUDA_ERROR_FILE_NOT_FOUND,
    );
    assert!(text.contains("/nowhere/x.ptx"), "{text}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/ptx/driver.ptx");
    let module = context.load_module(Ptx::from_file(file))?;
    let text = expect_error(
        module.load_function("absent").map(drop),
        CUresult::CUDA_ERROR_NOT_FOUND,
    );
    assert!(text.contains("`absent`"), "{text}");
    Ok(())
}

#[test]
fn an_unloaded_modules_functions_and_variables_are_gone() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let module = module(&context)?;
    let count: CudaFunction = module.load_function("count")?;
    let function = count.cu_function();
    let address = module.get_global("counter", &stream)?.device_ptr(&stream).0;
    // SAFETY: the driver checks the range.
    unsafe { result::memcpy_dtoh_sync(&mut [0u8; 4], address) }?;
    drop((count, module));
    context.check_err()?;
    // SAFETY: refused.
    let (launched, copied) = unsafe {
        (
            result::launch_kernel(
                function,
                (1, 1, 1),
                (1, 1, 1),
                0,
                stream.cu_stream(),
                &mut [],
            ),
            result::memcpy_dtoh_sync(&mut [0u8; 4], address),
        )
    };
    expect_error(launched, CUresult::CUDA_ERROR_INVALID_HANDLE);
    expect_error(copied, CUresult::CUDA_ERROR_INVALID_VALUE);
    Ok(())
}
