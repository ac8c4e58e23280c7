//! Libraries, their kernels, linkers, and what is known of functions, through CUDA's own calls.

mod common;

use std::{
    ffi::{CStr, CString, c_void},
    ptr,
};

use common::{Outcome, expect_error, own_context};
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

/// Links texts, and returns the image.
fn link(texts: &[&str]) -> Result<Vec<u8>> {
    let inputs: Vec<_> = texts
        .iter()
        .map(|&text| (sys::CUjitInputType::CU_JIT_INPUT_PTX, text))
        .collect();
    link_inputs(&inputs)
}

/// Links inputs of several kinds, and returns the image.
fn link_inputs(inputs: &[(sys::CUjitInputType, &str)]) -> Result<Vec<u8>> {
    let mut linker = ptr::null_mut();
    // SAFETY: places for the results, texts with their lengths; the image is copied before the linker goes.
    unsafe {
        sys::cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), &mut linker).result()?;
        for &(kind, text) in inputs {
            sys::cuLinkAddData_v2(
                linker,
                kind,
                text.as_ptr().cast_mut().cast(),
                text.len(),
                c"text".as_ptr(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
            )
            .result()?;
        }
        let (mut image, mut bytes) = (ptr::null_mut(), 0);
        sys::cuLinkComplete(linker, &mut image, &mut bytes).result()?;
        let image = std::slice::from_raw_parts(image.cast::<u8>(), bytes).to_vec();
        sys::cuLinkDestroy(linker).result()?;
        Ok(image)
    }
}

#[test]
fn linked_texts_are_one_module() -> Outcome {
    let context = own_context()?;
    const HEAD: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";
    let caller = format!(
        "{HEAD}.extern .func (.param .b32 r) twice(.param .b32 x);\n\
         .visible .entry t(.param .u64 p)\n{{\n.reg .b32 %r<3>;\n.reg .b64 %d<3>;\n.param .b32 a;\n.param .b32 b;\n\
         ld.param.u64 %d1, [p];\nmov.u32 %r1, 21;\nst.param.b32 [a], %r1;\ncall.uni (b), twice, (a);\n\
         ld.param.b32 %r2, [b];\nst.global.u32 [%d1], %r2;\nret;\n}}\n"
    );
    let callee = format!(
        "{HEAD}.visible .func (.param .b32 r) twice(.param .b32 x)\n{{\n.reg .b32 %r<3>;\n\
         ld.param.b32 %r1, [x];\nadd.s32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}}\n"
    );
    let stream = context.default_stream();
    for order in [[&caller, &callee], [&callee, &caller]] {
        let image = link(&order.map(String::as_str))?;
        assert_eq!(image.last(), Some(&0));
        let text = std::str::from_utf8(&image[..image.len() - 1])?;
        let kernel = kernel(library(text)?, c"t")?;
        let out = stream.clone_htod(&[0i32])?;
        let mut addr = cudarc::driver::DevicePtr::device_ptr(&out, &stream).0;
        launch(kernel.cast(), 1, &mut [(&raw mut addr).cast()])?;
        assert_eq!(stream.clone_dtoh(&out)?, [42]);
    }
    Ok(())
}

#[test]
fn the_device_runtime_that_is_linked_has_a_barrier_of_the_grid() -> Outcome {
    // Each block stores its number plus one, waits for all, and reads what the next block has stored.
    const CALLER: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
        .extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);\n\
        .extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);\n\
        .visible .entry t(.param .u64 stored, .param .u64 read)\n{\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n\
        .param .b32 scope;\n.param .b64 handle;\n.param .b64 to;\n.param .b32 flags;\n.param .b32 code;\n\
        ld.param.u64 %d1, [stored];\nld.param.u64 %d2, [read];\n\
        mov.u32 %r1, %ctaid.x;\nadd.u32 %r2, %r1, 1;\nmul.wide.u32 %d3, %r1, 4;\nadd.u64 %d4, %d1, %d3;\n\
        st.global.u32 [%d4], %r2;\n\
        mov.u32 %r3, 1;\nst.param.b32 [scope], %r3;\ncall.uni (handle), cudaCGGetIntrinsicHandle, (scope);\n\
        ld.param.b64 %d5, [handle];\nst.param.b64 [to], %d5;\nmov.u32 %r4, 0;\nst.param.b32 [flags], %r4;\n\
        call.uni (code), cudaCGSynchronize, (to, flags);\n\
        mov.u32 %r5, %nctaid.x;\nrem.u32 %r6, %r2, %r5;\nmul.wide.u32 %d6, %r6, 4;\nadd.u64 %d7, %d1, %d6;\n\
        ld.global.u32 %r7, [%d7];\nadd.u64 %d8, %d2, %d3;\nst.global.u32 [%d8], %r7;\nret;\n}\n";
    use sys::CUjitInputType::{CU_JIT_INPUT_LIBRARY, CU_JIT_INPUT_PTX};
    let stream = own_context()?.default_stream();
    let inputs = [
        (CU_JIT_INPUT_LIBRARY, "!<arch>\ncuda_device_runtime"),
        (CU_JIT_INPUT_PTX, CALLER),
    ];
    let image = link_inputs(&inputs)?;
    let kernel = kernel(
        library(std::str::from_utf8(&image[..image.len() - 1])?)?,
        c"t",
    )?;
    let (stored, read) = (stream.alloc_zeros::<u32>(5)?, stream.alloc_zeros::<u32>(5)?);
    let addr = |slice: &CudaSlice<u32>| cudarc::driver::DevicePtr::device_ptr(slice, &stream).0;
    let (mut from, mut to) = (addr(&stored), addr(&read));
    for _ in 0..2 {
        let mut params = [(&raw mut from).cast::<c_void>(), (&raw mut to).cast()];
        // SAFETY: the kernel's parameters, and five elements each.
        unsafe {
            result::launch_cooperative_kernel(
                kernel.cast(),
                (5, 1, 1),
                (1, 1, 1),
                0,
                ptr::null_mut(),
                &mut params,
            )
        }?;
        assert_eq!(stream.clone_dtoh(&read)?, [2, 3, 4, 5, 1]);
    }
    let other = link_inputs(&[
        (CU_JIT_INPUT_LIBRARY, "!<arch>\nother"),
        (CU_JIT_INPUT_PTX, CALLER),
    ]);
    expect_error(other, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    Ok(())
}

#[test]
fn what_cannot_be_linked_says_why_also_in_the_programs_buffer() -> Outcome {
    let _context = own_context()?;
    expect_error(link(&[]), CUresult::CUDA_ERROR_INVALID_VALUE);
    let text = expect_error(
        link(&["\x7fELF machine code"]),
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
    );
    assert!(text.contains("PTX text"), "{text}");
    use sys::CUjit_option::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    let mut log = [b'x'; 40];
    let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), 39 as *mut c_void];
    let mut module = ptr::null_mut();
    // SAFETY: a zero-terminated text; a buffer of the size that is given.
    let refused = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            c"this is no PTX".as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_PTX);
    let log_text = CStr::from_bytes_until_nul(&log)?.to_str()?;
    assert!(
        !log_text.is_empty() && text.starts_with(log_text),
        "{log_text}"
    );
    assert_eq!(log[39], b'x');
    Ok(())
}

#[test]
fn a_launch_with_attributes_runs_and_clusters_are_refused() -> Outcome {
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
        CUresult::CUDA_ERROR_NOT_SUPPORTED,
    );
    assert!(text.contains("clusters"), "{text}");
    assert_eq!(stream.clone_dtoh(&y)?, [16.0, 32.0]);
    Ok(())
}
