//! Allocation and copies, through cudarc.

use crate::common::{Outcome, context, expect_error};
use cudarc::driver::{
    CudaSlice, DevicePtr, DriverError, result,
    sys::{self, CUmemPool_attribute, CUresult},
};

#[test]
fn allocate_in_every_way_that_cudarc_has() -> Outcome {
    let stream = context()?.default_stream();
    // SAFETY: nothing reads it.
    let unset: CudaSlice<f32> = unsafe { stream.alloc::<f32>(10) }?;
    let zeros: CudaSlice<f64> = stream.alloc_zeros::<f64>(10)?;
    let array = stream.clone_htod(&[7usize; 10])?;
    let vector = stream.clone_htod(&vec![1u32, 2, 3])?;
    assert_eq!(unset.len(), 10);
    assert_eq!(stream.clone_dtoh(&zeros)?, [0.0; 10]);
    assert_eq!(stream.clone_dtoh(&array)?, [7; 10]);
    assert_eq!(stream.clone_dtoh(&vector)?, [1, 2, 3]);
    Ok(())
}

#[test]
fn copy_between_host_device_and_views() -> Outcome {
    let stream = context()?.default_stream();
    let from = stream.clone_htod(&[1.0f32, 2.0, 3.0, 4.0])?;
    let mut to = stream.alloc_zeros::<f32>(8)?;
    stream.memcpy_dtod(&from.slice(1..3), &mut to.slice_mut(4..6))?;
    stream.memcpy_htod(&[9.0f32], &mut to.slice_mut(7..8))?;
    assert_eq!(
        stream.clone_dtoh(&to)?,
        [0.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.0, 9.0]
    );
    let mut host = [0.0f32; 2];
    stream.memcpy_dtoh(&to.slice(4..6), &mut host)?;
    assert_eq!(host, [2.0, 3.0]);
    stream.memset_zeros(&mut to.slice_mut(5..8))?;
    assert_eq!(stream.clone_dtoh(&to.slice(4..8))?, [2.0, 0.0, 0.0, 0.0]);
    Ok(())
}

#[test]
fn many_blocks_in_stream_order_are_given_and_taken_back() -> Outcome {
    // With a search through all of them for each, these would take minutes.
    const BLOCKS: usize = 50_000;
    let stream = context()?.new_stream()?;
    // SAFETY: the blocks are freed once, in the order of the stream, and nothing reads them.
    unsafe {
        let alloc = |bytes| result::malloc_async(stream.cu_stream(), bytes);
        let blocks = (0..BLOCKS).map(|block| alloc(1 + block % 300));
        let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
        let distinct: std::collections::BTreeSet<_> = blocks.iter().collect();
        assert_eq!(distinct.len(), BLOCKS);
        for block in blocks {
            result::free_async(block, stream.cu_stream())?;
        }
    }
    stream.synchronize()?;
    Ok(())
}

#[test]
fn empty_slices_are_fine_everywhere() -> Outcome {
    let stream = context()?.default_stream();
    let mut empty = stream.alloc_zeros::<f32>(0)?;
    stream.memcpy_htod::<f32, [f32], _>(&[], &mut empty)?;
    let copy = stream.clone_dtod(&empty)?;
    assert!(stream.clone_dtoh(&copy)?.is_empty());
    assert_eq!(stream.null::<u8>()?.len(), 0);
    Ok(())
}

#[test]
fn unset_device_memory_is_not_zero() -> Outcome {
    let stream = context()?.default_stream();
    // SAFETY: every bit pattern is an f32.
    let unset = unsafe { stream.alloc::<f32>(1000) }?;
    assert!(
        stream
            .clone_dtoh(&unset)?
            .iter()
            .all(|value| value.is_nan())
    );
    Ok(())
}

#[test]
fn a_copy_past_the_end_is_refused_and_says_by_how_much() -> Outcome {
    let stream = context()?.default_stream();
    let slice = stream.alloc_zeros::<u8>(100)?;
    let (start, _guard) = slice.device_ptr(&stream);
    // SAFETY: the driver checks the range before it touches anything, in each of the three calls.
    let write = unsafe { result::memcpy_htod_sync(start + 96, &[0u8; 8]) };
    let text = expect_error(write, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(
        text.contains("4 bytes past the end") && text.contains("(100 bytes at"),
        "{text}"
    );
    // SAFETY: as above.
    let read = unsafe { result::memcpy_dtoh_sync(&mut [0u8; 101], start) };
    let text = expect_error(read, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("1 bytes past the end"), "{text}");
    // SAFETY: as above.
    let fill = unsafe { result::memset_d8_sync(start + 100, 1, 1) };
    let text = expect_error(fill, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("in no allocation"), "{text}");
    Ok(())
}

#[test]
fn freed_memory_can_be_neither_used_nor_freed_again() -> Outcome {
    let stream = context()?.default_stream();
    let start = stream.clone_htod(&[1u32; 4])?.leak();
    // SAFETY: leaked above, and not used again but by the calls below, which the driver refuses.
    unsafe { result::free_sync(start) }?;
    // SAFETY: each is refused, which the loop below asserts.
    let copy = || unsafe { result::memcpy_dtoh_sync(&mut [0u32; 4], start) };
    // SAFETY: as above.
    let free = || unsafe { result::free_sync(start) };
    // SAFETY: as above.
    let free_async = || unsafe { result::free_async(start, stream.cu_stream()) };
    type Call<'a> = &'a dyn Fn() -> Result<(), DriverError>;
    let calls: [(Call, &str); 3] = [
        (&copy, "read of a device-to-host"),
        (&free, "free"),
        (&free_async, "free"),
    ];
    for (call, what) in calls {
        let text = expect_error(call(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(
            text.starts_with(what) && text.contains("freed before"),
            "{text}"
        );
    }
    Ok(())
}

#[test]
fn more_than_the_device_has_is_out_of_memory() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let total = context.total_mem()?;
    assert_eq!(total, 4 << 30);
    // SAFETY: nothing reads it.
    let refused = unsafe { stream.alloc::<u8>(total + 1) };
    let text = expect_error(refused, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert!(text.contains("CUDA_SIM_MEMORY"), "{text}");
    stream.alloc_zeros::<u8>(1 << 20)?;
    Ok(())
}

#[test]
fn pinned_and_managed_memory_are_both_host_and_device_memory() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    // SAFETY: written before it is read.
    let mut pinned = unsafe { context.alloc_pinned::<f32>(4) }?;
    pinned
        .as_mut_slice()?
        .copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
    let device = stream.clone_htod(&pinned)?;
    // SAFETY: written before it is read.
    let mut managed = unsafe { context.alloc_unified::<f32>(4, true) }?;
    stream.memcpy_dtod(&device, &mut managed)?;
    assert_eq!(managed.as_slice()?, [1.0, 2.0, 3.0, 4.0]);
    managed.as_mut_slice()?[0] = 5.0;
    managed.prefetch()?;
    assert_eq!(stream.clone_dtoh(&managed)?, [5.0, 2.0, 3.0, 4.0]);
    stream.memcpy_dtoh(&managed, &mut pinned)?;
    assert_eq!(pinned.as_slice()?[0], 5.0);

    let device = pinned.as_ptr()? as u64;
    // SAFETY: refused: pinned memory is not freed so.
    let text = expect_error(
        unsafe { result::free_sync(device) },
        CUresult::CUDA_ERROR_INVALID_VALUE,
    );
    assert!(text.contains("pinned host memory"), "{text}");
    Ok(())
}

#[test]
fn device_pointers_are_host_pointers() -> Outcome {
    let stream = context()?.default_stream();
    let device = stream.clone_htod(&[41u32, 42])?;
    let (start, _guard) = device.device_ptr(&stream);
    // SAFETY: a live allocation of two u32.
    assert_eq!(unsafe { (start as *const u32).add(1).read() }, 42);
    Ok(())
}

#[test]
fn overlapping_copies_move() -> Outcome {
    let stream = context()?.default_stream();
    let bytes: Vec<u8> = (0..100).collect();
    let device = stream.clone_htod(&bytes)?;
    let (start, guard) = device.device_ptr(&stream);
    // SAFETY: both ranges lie inside the allocation.
    unsafe { result::memcpy_dtod_sync(start + 1, start, 99) }?;
    drop(guard);
    let moved = stream.clone_dtoh(&device)?;
    assert_eq!((moved[0], moved[1], moved[99]), (0, 0, 98));
    Ok(())
}

#[test]
fn fills_of_wider_elements_repeat_them() -> Outcome {
    let stream = context()?.default_stream();
    let device = stream.alloc_zeros::<u8>(16)?;
    let (start, guard) = device.device_ptr(&stream);
    // SAFETY: the ranges lie inside the allocation, or are refused.
    unsafe {
        sys::cuMemsetD32_v2(start, 0x0403_0201, 2).result()?;
        sys::cuMemsetD16_v2(start + 8, 0x0605, 2).result()?;
        let odd = sys::cuMemsetD32_v2(start + 2, 0, 1).result();
        expect_error(odd, CUresult::CUDA_ERROR_INVALID_VALUE);
        let huge = sys::cuMemsetD32_v2(start, 0, usize::MAX).result();
        expect_error(huge, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    drop(guard);
    assert_eq!(
        stream.clone_dtoh(&device)?,
        [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 5, 6, 0, 0, 0, 0]
    );
    Ok(())
}

#[test]
fn pools_allocate_and_remember() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let properties = sys::CUmemPoolProps {
        allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: 0,
        },
        // SAFETY: plain integers, pointers and enumerations that have a 0.
        ..unsafe { std::mem::zeroed() }
    };
    use CUmemPool_attribute::{
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as THRESHOLD,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC as REUSE,
        CU_MEMPOOL_ATTR_USED_MEM_CURRENT as USED, CU_MEMPOOL_ATTR_USED_MEM_HIGH as USED_HIGH,
    };
    // SAFETY: handles and pointers are those of this test, and of the types that each attribute
    // asks for.
    unsafe {
        let pool = result::mem_pool::create(&properties)?;
        let read = |attribute| {
            let mut value = u64::MAX;
            result::mem_pool::get_attribute(pool, attribute, (&raw mut value).cast())
                .map(|()| value)
        };
        let first = result::mem_pool::alloc_async(pool, 1000, stream.cu_stream())?;
        let second = result::mem_pool::alloc_async(pool, 24, stream.cu_stream())?;
        assert_eq!(read(USED)?, 1024);
        result::free_async(first, stream.cu_stream())?;
        assert_eq!((read(USED)?, read(USED_HIGH)?), (24, 1024));
        let mut threshold = 1u64 << 40;
        result::mem_pool::set_attribute(pool, THRESHOLD, (&raw mut threshold).cast())?;
        assert_eq!(read(THRESHOLD)?, 1 << 40);
        let mut switch = [-1i32, -1];
        result::mem_pool::get_attribute(pool, REUSE, (&raw mut switch).cast())?;
        assert_eq!(
            switch,
            [1, -1],
            "a switch is an int: nothing behind it is written"
        );
        let mut access = sys::CUmemAccessDesc {
            location: properties.location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        sys::cuMemPoolSetAccess(pool, &access, 1).result()?;
        access.flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
        expect_error(
            sys::cuMemPoolSetAccess(pool, &access, 1).result(),
            CUresult::CUDA_ERROR_NOT_SUPPORTED,
        );
        access.location.id = 1;
        expect_error(
            sys::cuMemPoolSetAccess(pool, &access, 1).result(),
            CUresult::CUDA_ERROR_INVALID_DEVICE,
        );
        result::mem_pool::trim_to(pool, 0)?;
        result::free_async(second, stream.cu_stream())?;
        result::mem_pool::destroy(pool)?;
        let stale = result::mem_pool::alloc_async(pool, 1, stream.cu_stream());
        expect_error(stale, CUresult::CUDA_ERROR_INVALID_HANDLE);
        let default = result::device::get_default_mem_pool(0)?;
        assert_eq!(result::device::get_mem_pool(0)?, default);
        expect_error(
            result::mem_pool::destroy(default),
            CUresult::CUDA_ERROR_INVALID_VALUE,
        );
    }
    Ok(())
}
