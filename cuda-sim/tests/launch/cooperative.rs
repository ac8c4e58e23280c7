//! Cooperative launches: `grid.sync()`, as cooperative_groups.h of CUDA 13 compiles to, and grids
//! that are too large for it.

use std::{ffi::c_void, ptr};

use cudarc::driver::{
    CudaFunction, DevicePtr, LaunchConfig, PushKernelArg, result,
    sys::{self, CUresult},
};
use cudarc::nvrtc::Ptx;

use super::shape;
use crate::common::{Outcome, context, expect_error, own_context};

/// Three rounds: each thread writes its block's number where the thread of the next block reads it,
/// behind `grid.sync()`.
const ROUNDS: &str = "\
.version 8.4
.target sm_75
.address_size 64
.visible .entry rounds(.param .u64 from, .param .u64 to)
{
	.reg .pred %p<9>;
	.reg .b32 %r<20>;
	.reg .b64 %d<20>;
	ld.param.u64 %d0, [from];
	ld.param.u64 %d1, [to];
	mov.u32 %r0, %ctaid.x;
	mov.u32 %r1, %nctaid.x;
	mov.u32 %r2, %tid.x;
	mov.u32 %r3, %envreg2;
	mov.u32 %r4, %envreg1;
	cvt.u64.u32 %d3, %r3;
	cvt.u64.u32 %d4, %r4;
	bfi.b64 %d5, %d4, %d3, 32, 32;
	mul.wide.u32 %d6, %r0, 4;
	add.u64 %d7, %d0, %d6;
	add.u64 %d8, %d1, %d6;
	add.u32 %r5, %r0, 1;
	rem.u32 %r5, %r5, %r1;
	mul.wide.u32 %d9, %r5, 4;
	mov.u32 %r6, 0;
	setp.ne.s64 %p1, %d5, 0;
	setp.ne.u32 %p2, %r2, 0;
AGAIN:
	@%p2 bra SYNC;
	add.u64 %d10, %d0, %d9;
	ld.global.u32 %r7, [%d10];
	add.u32 %r7, %r7, %r0;
	st.global.u32 [%d8], %r7;
SYNC:
	@%p1 bra THERE;
	trap;
THERE:
	barrier.sync 0;
	@%p2 bra PASSED;
	add.s64 %d11, %d5, 4;
	setp.eq.u32 %p3, %r0, 0;
	mov.u32 %r8, -2147483647;
	sub.s32 %r9, %r8, %r1;
	selp.b32 %r9, %r9, 1, %p3;
	atom.add.release.gpu.u32 %r10, [%d11], %r9;
WAIT:
	ld.acquire.gpu.u32 %r11, [%d11];
	xor.b32 %r12, %r11, %r10;
	setp.gt.s32 %p4, %r12, -1;
	@%p4 bra WAIT;
PASSED:
	barrier.sync 0;
	mov.u64 %d12, %d0;
	mov.u64 %d0, %d1;
	mov.u64 %d1, %d12;
	add.u64 %d8, %d1, %d6;
	add.u32 %r6, %r6, 1;
	setp.lt.u32 %p5, %r6, 3;
	@%p5 bra AGAIN;
	ret;
}
";

fn rounds(
    context: &std::sync::Arc<cudarc::driver::CudaContext>,
) -> Result<CudaFunction, Box<dyn std::error::Error>> {
    Ok(context
        .load_module(Ptx::from_src(ROUNDS))?
        .load_function("rounds")?)
}

/// Two buffers, and what three rounds leave in each.
fn expected(blocks: u32) -> [Vec<u32>; 2] {
    let round = |x: &Vec<u32>| {
        (0..blocks)
            .map(|b| x[((b + 1) % blocks) as usize] + b)
            .collect()
    };
    let first: Vec<u32> = round(&(0..blocks).collect());
    let second: Vec<u32> = round(&first);
    [second.clone(), round(&second)]
}

#[test]
fn blocks_wait_for_each_other_at_grid_sync() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let kernel = rounds(&context)?;
    for blocks in [1, 2, 7, 100] {
        // The workspace is as new in each launch, though three rounds leave the barrier's top bit
        // set.
        for seed in [None, Some(0), Some(1)] {
            cuda_sim::set_seed(seed);
            let mut from = stream.clone_htod(&(0..blocks).collect::<Vec<u32>>())?;
            let mut to = stream.alloc_zeros::<u32>(blocks as usize)?;
            let mut launch = stream.launch_builder(&kernel);
            launch.arg(&mut from).arg(&mut to);
            // SAFETY: the arguments are the kernel's.
            unsafe { launch.launch_cooperative(shape(blocks, 64, 0)) }?;
            let left = [stream.clone_dtoh(&from)?, stream.clone_dtoh(&to)?];
            assert_eq!(left, expected(blocks), "{blocks} blocks, seed {seed:?}");
        }
    }
    cuda_sim::set_seed(None);
    Ok(())
}

#[test]
fn grid_sync_in_another_launch_is_a_trap() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let kernel = rounds(&context)?;
    let (mut from, mut to) = (stream.alloc_zeros::<u32>(2)?, stream.alloc_zeros::<u32>(2)?);
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut from).arg(&mut to);
    // SAFETY: the arguments are the kernel's.
    let launched = unsafe { launch.launch(shape(2, 64, 0)) };
    let text = expect_error(launched.map(drop), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    assert!(text.contains("grid.sync()"), "{text}");
    Ok(())
}

#[test]
fn a_captured_cooperative_launch_stays_one() -> Outcome {
    use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
    let context = own_context()?;
    // SAFETY: the test uses one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let kernel = rounds(&context)?;
    let mut from = stream.clone_htod(&(0..5).collect::<Vec<u32>>())?;
    let mut to = stream.alloc_zeros::<u32>(5)?;
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut from).arg(&mut to);
    // SAFETY: the arguments are the kernel's.
    unsafe { launch.launch_cooperative(shape(5, 64, 0)) }?;
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags)?.ok_or("no graph")?;
    for _ in 0..2 {
        stream.memcpy_htod(&(0..5).collect::<Vec<u32>>(), &mut from)?;
        graph.launch()?;
        let left = [stream.clone_dtoh(&from)?, stream.clone_dtoh(&to)?];
        assert_eq!(left, expected(5));
    }
    Ok(())
}

#[test]
fn new_parameters_of_a_captured_cooperative_launch_leave_it_one() -> Outcome {
    const BLOCKS: u32 = 3;
    let context = own_context()?;
    // SAFETY: the test uses one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let code = std::ffi::CString::new(ROUNDS)?;
    // SAFETY: a zero-terminated text; the module stays loaded.
    let kernel = unsafe {
        let module = result::module::load_data(code.as_ptr().cast())?;
        result::module::get_function(module, c"rounds".to_owned())?
    };
    let mut from = stream.alloc_zeros::<u32>(BLOCKS as usize)?;
    let to = stream.alloc_zeros::<u32>(BLOCKS as usize)?;
    let mut addresses = [from.device_ptr(&stream).0, to.device_ptr(&stream).0];
    let mut params = addresses
        .each_mut()
        .map(|at| ptr::from_mut(at).cast::<c_void>());
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let (grid, block) = ((BLOCKS + 1, 1, 1), (64, 1, 1));
    // SAFETY: the kernel's parameters.
    unsafe {
        let stream = stream.cu_stream();
        result::launch_cooperative_kernel(kernel, grid, block, 0, stream, &mut params)?;
    }
    let graph = stream
        .end_capture(sys::CUgraphInstantiate_flags(0))?
        .ok_or("no graph")?;
    let executable = graph.cu_graph_exec();
    let (mut node, mut one) = (ptr::null_mut(), 1);
    // SAFETY: a place for one node, and its number; zeros are a valid value.
    let mut new: sys::CUDA_KERNEL_NODE_PARAMS_v2 = unsafe {
        sys::cuGraphGetNodes(graph.cu_graph(), &mut node, &mut one).result()?;
        std::mem::zeroed()
    };
    (new.func, new.kernelParams) = (kernel, params.as_mut_ptr());
    (new.gridDimX, new.gridDimY, new.gridDimZ) = (BLOCKS, 1, 1);
    (new.blockDimX, new.blockDimY, new.blockDimZ) = (64, 1, 1);
    // SAFETY: parameters of the kernel.
    unsafe { sys::cuGraphExecKernelNodeSetParams_v2(executable, node, &new) }.result()?;
    stream.memcpy_htod(&(0..BLOCKS).collect::<Vec<u32>>(), &mut from)?;
    graph.launch()?;
    let left = [stream.clone_dtoh(&from)?, stream.clone_dtoh(&to)?];
    assert_eq!(left, expected(BLOCKS));
    // Its blocks must still be resident at the same time.
    new.gridDimX = 1 << 20;
    // SAFETY: parameters of the kernel.
    let code = unsafe { sys::cuGraphExecKernelNodeSetParams_v2(executable, node, &new) };
    let too_large = CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    expect_error(code.result(), too_large);
    Ok(())
}

#[test]
fn all_blocks_must_be_resident() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let kernel = rounds(&context)?;
    // So much that few blocks are resident, which end soon.
    const SHARED: u32 = 200 << 10;
    kernel.set_attribute(
        sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        SHARED as i32,
    )?;
    let resident =
        kernel.occupancy_max_active_blocks_per_multiprocessor(32, SHARED as usize, None)?;
    assert_eq!(resident, 1);
    let multiprocessors = context.attribute(
        cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    )?;
    let most = resident * multiprocessors as u32;
    let from = stream.alloc_zeros::<u32>(most as usize + 1)?;
    let to = stream.alloc_zeros::<u32>(most as usize + 1)?;
    let run = |shape: LaunchConfig| {
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&from).arg(&to);
        // SAFETY: the arguments are the kernel's; its accesses are checked.
        unsafe { launch.launch_cooperative(shape) }.map(drop)
    };
    let error = run(shape(most + 1, 32, SHARED));
    let code = CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    let text = expect_error(error, code);
    assert!(
        text.contains(&format!("at most {most} of 32 threads")),
        "{text}"
    );
    assert_eq!(run(shape(most, 32, SHARED)), Ok(()));
    Ok(())
}
