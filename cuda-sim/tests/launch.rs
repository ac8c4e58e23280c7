//! Modules, functions and launches, through cudarc. The kernels are those of `cuda-sim/kernels/driver.cu`.

mod common;

use std::{ffi::c_void, ptr, sync::Arc};

use common::{Outcome, context, expect_error, own_context};
use cudarc::{
    driver::{
        CudaContext, CudaFunction, CudaModule, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg,
        result,
        sys::{
            self, CUfunction_attribute as Attribute, CUgraphInstantiate_flags, CUresult,
            CUstreamCaptureMode,
        },
    },
    nvrtc::Ptx,
};

const PTX: &str = include_str!("../ptx/driver.ptx");

fn module(context: &Arc<CudaContext>) -> Result<Arc<CudaModule>, Box<dyn std::error::Error>> {
    Ok(context.load_module(Ptx::from_src(PTX))?)
}

fn shape(grid: u32, block: u32, shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (grid, 1, 1),
        block_dim: (block, 1, 1),
        shared_mem_bytes,
    }
}

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
            text.contains("`axpy`: parameter 1 of 4 (8 bytes)") && text.contains(why),
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

#[test]
fn shapes_that_a_gpu_refuses_are_refused() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let module = module(&context)?;
    let nothing = module.load_function("nothing")?;
    let launch = |grid_dim, block_dim, shared_mem_bytes| {
        let config = LaunchConfig {
            grid_dim,
            block_dim,
            shared_mem_bytes,
        };
        // SAFETY: the kernel takes no arguments.
        unsafe { stream.launch_builder(&nothing).launch(config) }.map(drop)
    };
    for (grid, block, shared, fits) in [
        ((1, 1, 1), (1024, 1, 1), 0, true),
        ((1, 1, 1), (1025, 1, 1), 0, false),
        ((1, 1, 1), (32, 32, 1), 0, true),
        ((1, 1, 1), (32, 33, 1), 0, false),
        ((1, 1, 1), (1, 1, 64), 0, true),
        ((1, 1, 1), (1, 1, 65), 0, false),
        ((1, 1, 1), (1 << 16, 1 << 16, 1), 0, false),
        ((1, 1, 1), (0, 1, 1), 0, false),
        ((0, 1, 1), (1, 1, 1), 0, false),
        ((1, 0, 1), (1, 1, 1), 0, false),
        ((1, 1, 0), (1, 1, 1), 0, false),
        ((1, 65536, 1), (1, 1, 1), 0, false),
        ((1, 1, 65536), (1, 1, 1), 0, false),
        ((1 << 31, 1, 1), (1, 1, 1), 0, false),
        ((1, 1, 1), (1, 1, 1), 49152, true),
        ((1, 1, 1), (1, 1, 1), 49153, false),
    ] {
        let launched = launch(grid, block, shared);
        if fits {
            launched?;
        } else {
            let text = expect_error(launched, CUresult::CUDA_ERROR_INVALID_VALUE);
            assert!(text.contains("`nothing`"), "{text}");
        }
    }
    let mut out = stream.alloc_zeros::<i32>(65)?;
    let bounded = module.load_function("bounded")?;
    // SAFETY: the argument is the kernel's, and has room.
    let launch = |threads| unsafe {
        stream
            .launch_builder(&bounded)
            .arg(&mut out)
            .launch(shape(1, threads, 0))
    };
    let mut launch = launch;
    launch(64)?;
    let text = expect_error(launch(65).map(drop), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("at most 64"), "{text}");
    Ok(())
}

#[test]
fn dynamic_shared_memory_grows_by_asking() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let module = module(&context)?;
    let sum = module.load_function("shared_sum")?;
    let mut out = stream.alloc_zeros::<i32>(1)?;
    let mut launch = |bytes| {
        // SAFETY: the argument is the kernel's; its shared memory is at least 4 bytes for each thread.
        unsafe {
            stream
                .launch_builder(&sum)
                .arg(&mut out)
                .launch(shape(1, 256, bytes))
        }?;
        stream.clone_dtoh(&out)
    };
    assert_eq!(launch(1024)?, [255 * 128]);
    expect_error(launch(100_000), CUresult::CUDA_ERROR_INVALID_VALUE);
    sum.set_attribute(
        Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        232_448,
    )?;
    assert_eq!(launch(232_448)?, [255 * 128]);
    let more = sum.set_attribute(
        Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        232_449,
    );
    expect_error(more, CUresult::CUDA_ERROR_INVALID_VALUE);

    let fixed = module.load_function("static_shared")?;
    assert_eq!(fixed.shared_size_bytes()?, 40_000);
    let dynamic = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(fixed.get_attribute(dynamic)?, 49152 - 40_000);
    expect_error(
        fixed.set_attribute(dynamic, 232_448),
        CUresult::CUDA_ERROR_INVALID_VALUE,
    );
    fixed.set_attribute(dynamic, 232_448 - 40_000)?;
    Ok(())
}

#[test]
fn function_attributes_come_from_the_ptx() -> Outcome {
    let context = context()?;
    let module = module(&context)?;
    let bounded = module.load_function("bounded")?;
    assert_eq!(
        (
            bounded.max_threads_per_block()?,
            bounded.ptx_version()?,
            bounded.binary_version()?
        ),
        (64, 75, 90)
    );
    assert_eq!(
        (
            bounded.num_regs()?,
            bounded.const_size_bytes()?,
            bounded.shared_size_bytes()?
        ),
        (10, 0, 0)
    );
    assert_eq!(
        module.load_function("nothing")?.max_threads_per_block()?,
        1024
    );
    Ok(())
}

#[test]
fn occupancy_follows_threads_and_shared_memory() -> Outcome {
    extern "C" fn none(_: i32) -> usize {
        0
    }
    extern "C" fn kibibyte_per_warp(threads: i32) -> usize {
        threads as usize * 32
    }
    let context = context()?;
    let module = module(&context)?;
    let nothing = module.load_function("nothing")?;
    let blocks = |threads, dynamic| {
        nothing.occupancy_max_active_blocks_per_multiprocessor(threads, dynamic, None)
    };
    // By threads: 2048 of them, whole warps; by blocks: 32; by shared memory: 228 KiB with 1 KiB more for each block.
    assert_eq!(
        (
            blocks(1024, 0)?,
            blocks(96, 0)?,
            blocks(97, 0)?,
            blocks(32, 0)?
        ),
        (2, 21, 16, 32)
    );
    assert_eq!(
        (blocks(32, 113 << 10)?, blocks(32, (113 << 10) + 1)?),
        (2, 1)
    );
    assert_eq!((blocks(1025, 0)?, blocks(32, 228 << 10)?), (0, 0));
    assert_eq!(
        nothing.occupancy_max_potential_block_size(none, 0, 0, None)?,
        (264, 1024)
    );
    assert_eq!(
        nothing
            .occupancy_max_potential_block_size(none, 0, 100, None)?
            .1,
        64
    );
    // 1,024 threads take 33 KiB of the 228, so six blocks would fit: threads decide.
    assert_eq!(
        nothing.occupancy_max_potential_block_size(kibibyte_per_warp, 0, 0, None)?,
        (264, 1024)
    );
    assert_eq!(
        nothing.occupancy_available_dynamic_smem_per_block(2, 1024)?,
        113 << 10
    );
    let many = nothing.occupancy_available_dynamic_smem_per_block(3, 1024);
    expect_error(many, CUresult::CUDA_ERROR_INVALID_VALUE);
    let stream = context.default_stream();
    let clusters = nothing.occupancy_max_active_clusters(shape(1, 32, 0), &stream);
    expect_error(clusters, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    Ok(())
}

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

#[test]
fn launches_can_be_captured_and_run_again() -> Outcome {
    let context = own_context()?;
    // SAFETY: one stream only.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let axpy = module(&context)?.load_function("axpy")?;
    let x = stream.clone_htod(&[1.0f32, 2.0])?;
    let mut y = stream.alloc_zeros::<f32>(2)?;
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    {
        let factor = 3.0f32;
        // SAFETY: the arguments are the kernel's.
        unsafe {
            stream
                .launch_builder(&axpy)
                .arg(&mut y)
                .arg(&x)
                .arg(&factor)
                .arg(&2i32)
                .launch(shape(1, 32, 0))
        }?;
    }
    let graph = stream
        .end_capture(CUgraphInstantiate_flags(0))?
        .ok_or("no graph")?;
    assert_eq!(stream.clone_dtoh(&y)?, [0.0, 0.0]);
    graph.launch()?;
    graph.launch()?;
    assert_eq!(stream.clone_dtoh(&y)?, [6.0, 12.0]);
    Ok(())
}

#[test]
fn threads_launch_in_one_stream_in_turn() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let module = module(&context)?;
    let count = module.load_function("count")?;
    std::thread::scope(|scope| {
        let launch = || {
            context.bind_to_thread()?;
            (0..10).try_for_each(|_| {
                // SAFETY: the kernel takes no arguments.
                unsafe { stream.launch_builder(&count).launch(shape(2, 32, 0)) }.map(drop)
            })
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(launch)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let counter = stream.clone_dtoh(&module.get_global("counter", &stream)?)?;
    assert_eq!(
        i32::from_le_bytes(counter.try_into().map_err(|_| "not 4 bytes")?),
        5 + 8 * 10 * 64
    );
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
