//! Libraries, their kernels, linkers, and what is known of functions, through CUDA's own calls.

use std::{
    ffi::{CStr, CString, c_void},
    ptr,
};

use crate::common::{Outcome, expect_error, own_context};
use cudarc::driver::{
    CudaSlice, DriverError, result,
    sys::{self, CUresult},
};

const PTX: &str = include_str!("../ptx/driver.ptx");

type Result<T> = std::result::Result<T, DriverError>;

fn library(ptx: &str) -> Result<sys::CUlibrary> {
    let ptx = CString::new(ptx).expect("no zero byte");
    let mut library = ptr::null_mut();
    // SAFETY: a zero-terminated text, and no options.
    unsafe {
        sys::cuLibraryLoadData(
            &mut library,
            ptx.as_ptr().cast(),
            ptr::null_mut(),
            ptr::null_mut(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
            0,
        )
    }
    .result()?;
    Ok(library)
}

fn kernel(library: sys::CUlibrary, name: &CStr) -> Result<sys::CUkernel> {
    let mut kernel = ptr::null_mut();
    // SAFETY: a place for the result, and a name.
    unsafe { sys::cuLibraryGetKernel(&mut kernel, library, name.as_ptr()) }.result()?;
    Ok(kernel)
}

/// Launches `function` with `threads` threads, in the default stream.
fn launch(function: sys::CUfunction, threads: u32, params: &mut [*mut c_void]) -> Result<()> {
    let stream = ptr::null_mut();
    // SAFETY: one pointer per parameter, as each test passes them.
    unsafe { result::launch_kernel(function, (1, 1, 1), (threads, 1, 1), 0, stream, params) }
}

#[test]
fn a_kernel_of_a_library_runs_in_each_context_with_variables_of_its_own() -> Outcome {
    let first = own_context()?;
    let library = library(PTX)?;
    let count = kernel(library, c"count")?;
    let counter = || -> Result<i32> {
        let (mut addr, mut bytes, mut value) = (0, 0, [0i32]);
        // SAFETY: places for the results, and room for the variable.
        unsafe {
            sys::cuLibraryGetGlobal(&mut addr, &mut bytes, library, c"counter".as_ptr())
                .result()?;
            assert_eq!(bytes, 4);
            result::memcpy_dtoh_sync(&mut value, addr)?;
        }
        Ok(value[0])
    };
    // A kernel is launched as a function is.
    launch(count.cast(), 64, &mut [])?;
    assert_eq!(counter()?, 5 + 64);
    let second = own_context()?;
    assert_eq!(counter()?, 5);
    launch(count.cast(), 32, &mut [])?;
    assert_eq!(counter()?, 5 + 32);
    first.bind_to_thread()?;
    assert_eq!(counter()?, 5 + 64);
    let mut function = ptr::null_mut();
    // SAFETY: a place for the result, and handles.
    unsafe {
        sys::cuKernelGetFunction(&mut function, count).result()?;
        launch(function, 1, &mut [])?;
        assert_eq!(counter()?, 5 + 65);
        sys::cuLibraryUnload(library).result()?;
    }
    for handle in [function, count.cast()] {
        expect_error(
            launch(handle, 1, &mut []),
            CUresult::CUDA_ERROR_INVALID_HANDLE,
        );
    }
    drop(second);
    Ok(())
}

#[test]
fn a_library_survives_the_context_in_which_it_was_used() -> Outcome {
    let first = own_context()?;
    let library = library(PTX)?;
    let count = kernel(library, c"count")?;
    launch(count.cast(), 1, &mut [])?;
    drop(first);
    let _second = own_context()?;
    launch(count.cast(), 1, &mut [])?;
    // SAFETY: a live library.
    unsafe { sys::cuLibraryUnload(library) }.result()?;
    Ok(())
}

#[test]
fn the_module_of_a_library_goes_with_the_library_alone() -> Outcome {
    let _context = own_context()?;
    let library = library(PTX)?;
    let count = kernel(library, c"count")?;
    let mut module = ptr::null_mut();
    // SAFETY: a place for the result, and live handles.
    unsafe {
        sys::cuLibraryGetModule(&mut module, library).result()?;
        let refused = sys::cuModuleUnload(module).result();
        let text = expect_error(refused, CUresult::CUDA_ERROR_NOT_PERMITTED);
        assert!(text.contains("cuLibraryUnload"), "{text}");
        launch(count.cast(), 1, &mut [])?;
        sys::cuLibraryUnload(library).result()?;
        expect_error(
            sys::cuModuleUnload(module).result(),
            CUresult::CUDA_ERROR_INVALID_HANDLE,
        );
    }
    Ok(())
}

#[test]
fn attributes_of_a_kernel_hold_in_every_context() -> Outcome {
    const SHARED: sys::CUfunction_attribute =
        sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let first = own_context()?;
    let library = library(PTX)?;
    let kernel = kernel(library, c"shared_sum")?;
    let mut value = 0;
    // SAFETY: places for results.
    unsafe {
        sys::cuKernelGetAttribute(&mut value, SHARED, kernel, 0).result()?;
        assert_eq!(value, 48 << 10);
        sys::cuKernelSetAttribute(SHARED, 100 << 10, kernel, 0).result()?;
        let refused = sys::cuKernelSetAttribute(SHARED, 1 << 30, kernel, 0);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        let refused = sys::cuKernelSetAttribute(SHARED, 1, kernel, 1);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_DEVICE);
    }
    let _second = own_context()?;
    for context in [&first, &_second] {
        context.bind_to_thread()?;
        let mut function = ptr::null_mut();
        // SAFETY: a place for the result, and handles.
        unsafe {
            sys::cuKernelGetFunction(&mut function, kernel).result()?;
            assert_eq!(
                result::function::get_function_attribute(function, SHARED)?,
                100 << 10
            );
        }
    }
    Ok(())
}

#[test]
fn kernels_and_parameters_can_be_listed() -> Outcome {
    let _context = own_context()?;
    let library = library(PTX)?;
    let mixed = kernel(library, c"mixed")?;
    let mut count = 0;
    // SAFETY: places for the results, which are as many as asked for.
    unsafe {
        sys::cuLibraryGetKernelCount(&mut count, library).result()?;
        let mut kernels = vec![ptr::null_mut(); count as usize];
        sys::cuLibraryEnumerateKernels(kernels.as_mut_ptr(), count, library).result()?;
        assert!(kernels.contains(&mixed), "{kernels:?}");
        let mut names = Vec::new();
        for kernel in kernels {
            let mut name = ptr::null();
            sys::cuKernelGetName(&mut name, kernel).result()?;
            names.push(CStr::from_ptr(name).to_str()?);
        }
        assert!(names.is_sorted() && names.contains(&"axpy"), "{names:?}");
        let mut offsets = Vec::new();
        let (mut offset, mut bytes) = (0, 0);
        while sys::cuKernelGetParamInfo(mixed, offsets.len(), &mut offset, &mut bytes)
            .result()
            .is_ok()
        {
            offsets.push((offset, bytes));
        }
        // double*, char, short, int, long long, float, a structure of 24 bytes, bool.
        let expected = [
            (0, 8),
            (8, 1),
            (10, 2),
            (12, 4),
            (16, 8),
            (24, 4),
            (32, 24),
            (56, 1),
        ];
        assert_eq!(offsets, expected);
        let mut module = ptr::null_mut();
        sys::cuLibraryGetModule(&mut module, library).result()?;
        let mut functions = 0;
        sys::cuModuleGetFunctionCount(&mut functions, module).result()?;
        assert_eq!(functions, count);
        let mut first = [ptr::null_mut(); 2];
        sys::cuModuleEnumerateFunctions(first.as_mut_ptr(), 2, module).result()?;
        let (mut name, mut owner) = (ptr::null(), ptr::null_mut());
        sys::cuFuncGetName(&mut name, first[0]).result()?;
        assert_eq!(CStr::from_ptr(name), c"axpy");
        sys::cuFuncGetModule(&mut owner, first[0]).result()?;
        assert_eq!(owner, module);
    }
    Ok(())
}

#[test]
fn what_is_not_in_a_library_is_an_error_that_names_it() -> Outcome {
    let _context = own_context()?;
    let library = library(PTX)?;
    let text = expect_error(kernel(library, c"nowhere"), CUresult::CUDA_ERROR_NOT_FOUND);
    assert!(text.contains("`nowhere`"), "{text}");
    let (mut addr, mut bytes) = (0, 0);
    // SAFETY: places for the results, and names.
    unsafe {
        let refused = sys::cuLibraryGetGlobal(&mut addr, &mut bytes, library, c"nowhere".as_ptr());
        expect_error(refused.result(), CUresult::CUDA_ERROR_NOT_FOUND);
        let refused = sys::cuLibraryUnload(kernel(library, c"count")?.cast());
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    let broken = PTX.replace(".entry", ".entree");
    expect_error(self::library(&broken), CUresult::CUDA_ERROR_INVALID_PTX);
    Ok(())
}

#[test]
fn a_launch_with_attributes_runs_and_a_cluster_divides_its_grid() -> Outcome {
    use sys::CUlaunchAttributeID_enum as Id;
    let context = own_context()?;
    let stream = context.default_stream();
    let library = library(PTX)?;
    let axpy = kernel(library, c"axpy")?;
    let (x, y) = (
        stream.clone_htod(&[1f32, 2.0])?,
        stream.clone_htod(&[10f32, 20.0])?,
    );
    let addr = |slice: &CudaSlice<f32>| cudarc::driver::DevicePtr::device_ptr(slice, &stream).0;
    let (mut to, mut from, mut a, mut n) = (addr(&y), addr(&x), 3f32, 2i32);
    let mut params = [
        (&raw mut to).cast::<c_void>(),
        (&raw mut from).cast(),
        (&raw mut a).cast(),
        (&raw mut n).cast(),
    ];
    let mut run = |blocks, id, value: [u32; 3]| {
        // SAFETY: zeros are a valid attribute and a valid configuration.
        let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
        attribute.id = id;
        attribute.value.clusterDim.x = value[0];
        attribute.value.clusterDim.y = value[1];
        attribute.value.clusterDim.z = value[2];
        // SAFETY: as above.
        let mut config: sys::CUlaunchConfig = unsafe { std::mem::zeroed() };
        (config.gridDimX, config.gridDimY, config.gridDimZ) = (blocks, 1, 1);
        (config.blockDimX, config.blockDimY, config.blockDimZ) = (32, 1, 1);
        (config.attrs, config.numAttrs) = (&raw mut attribute, 1);
        // SAFETY: the kernel's parameters.
        unsafe { sys::cuLaunchKernelEx(&config, axpy.cast(), params.as_mut_ptr(), ptr::null_mut()) }
            .result()
    };
    run(1, Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, [1, 0, 0])?;
    expect_error(
        run(1 << 20, Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, [1, 0, 0]),
        CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
    );
    run(1, Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, [1, 1, 1])?;
    let text = expect_error(
        run(1, Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, [2, 1, 1]),
        CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE,
    );
    assert!(text.contains("clusters of [2, 1, 1]"), "{text}");
    assert_eq!(stream.clone_dtoh(&y)?, [16.0, 32.0]);
    Ok(())
}
