//! Limits of a launch, and attributes of functions.

use cudarc::driver::{
    LaunchConfig, PushKernelArg,
    sys::{self, CUfunction_attribute as Attribute, CUresult},
};
use cudarc::nvrtc::Ptx;

use super::{module, shape};
use crate::common::{Outcome, context, expect_error};

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
    // Of launches as before CUDA 4, the shape of blocks is checked alone.
    let set = |x, y| {
        // SAFETY: the driver checks the handle.
        unsafe { sys::cuFuncSetBlockShape(nothing.cu_function(), x, y, 1) }.result()
    };
    set(32, 32)?;
    for refused in [set(32, 33), set(-1, 1)] {
        expect_error(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
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
        // SAFETY: the argument is the kernel's; its shared memory is at least 4 bytes for each
        // thread.
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
    // By threads: 2048 of them, whole warps; by blocks: 32; by shared memory: 228 KiB with 1 KiB
    // more for each block.
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
    // A block is a cluster here: 32 on each of 132 multiprocessors.
    let clusters = nothing.occupancy_max_active_clusters(shape(1, 32, 0), &stream)?;
    assert_eq!(clusters, 32 * 132);
    Ok(())
}

#[test]
fn local_memory_of_the_threads_that_run_at_once_is_device_memory() -> Outcome {
    const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry big()
{
    .local .align 4 .b8 array[400000];
    .reg .b32 %r<2>;
    mov.u32 %r1, 1;
    st.local.u32 [array+399996], %r1;
    ret;
}
";
    let context = context()?;
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(PTX))?;
    let big = module.load_function("big")?;
    // SAFETY: it has no arguments.
    let launch = |grid, block| unsafe { stream.launch_builder(&big).launch(shape(grid, block, 0)) };
    launch(2, 32)?;
    // 132 multiprocessors × 2048 threads.
    let text = expect_error(
        launch(100_000, 256).map(drop),
        CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    );
    assert!(text.contains("400000 for each of 270336 threads"), "{text}");
    Ok(())
}
