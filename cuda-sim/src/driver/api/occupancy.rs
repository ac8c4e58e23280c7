//! Occupancy: resident blocks of a kernel on a multiprocessor.
//!
//! Limited by threads, blocks and shared memory, and by registers if the PTX text has the
//! compiler's report.

use crate::{
    device::WARP_SIZE,
    driver::{
        ffi::{Code, Error, Handle, Out, Result, guard},
        module::Function,
        state::driver,
    },
    settings::device,
};

/// `CUoccupancyB2DSize`: dynamic shared memory in bytes that blocks of so many threads need.
type BlockToShared = extern "C" fn(i32) -> usize;

/// `CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE`, which has no effect.
const FLAGS: u32 = 1;

/// Blocks of `threads` threads and `dynamic` bytes of dynamic shared memory that fit on a
/// multiprocessor; 0 if none.
fn resident_blocks(function: &Function, threads: u32, dynamic: usize) -> u32 {
    if threads > function.kernel.threads_that_fit() {
        return 0;
    }
    let kernel = &function.kernel;
    let shared = u64::from(kernel.shared_bytes).saturating_add(dynamic as u64);
    device().resident_blocks(threads, kernel.registers(), shared)
}

fn check_flags(flags: u32) -> Result {
    if flags & !FLAGS == 0 {
        Ok(())
    } else {
        Err(Error::value(format!("{flags:#x} are no occupancy flags")))
    }
}

fn positive(argument: &str, value: i32) -> Result<u32> {
    u32::try_from(value)
        .ok()
        .filter(|&value| value > 0)
        .ok_or_else(|| Error::value(format!("{argument} is {value}, must be at least 1")))
}

/// Blocks that fit on a multiprocessor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: Out<i32>,
    function: Handle,
    threads: i32,
    dynamic: usize,
) -> Code {
    // SAFETY: the same arguments, under the same promises.
    unsafe {
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic, 0)
    }
}

/// Blocks that fit on a multiprocessor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: Out<i32>,
    function: Handle,
    threads: i32,
    dynamic: usize,
    flags: u32,
) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        check_flags(flags)?;
        let threads = positive("blockSize", threads)?;
        let resident = resident_blocks(&function, threads, dynamic);
        blocks.set("numBlocks", resident as i32)
    })
}

/// The block size with the most resident threads, and the grid that fills the device with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxPotentialBlockSize(
    grid: Out<i32>,
    block: Out<i32>,
    function: Handle,
    shared: Option<BlockToShared>,
    dynamic: usize,
    limit: i32,
) -> Code {
    // SAFETY: the same arguments, under the same promises.
    unsafe {
        cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared, dynamic, limit, 0)
    }
}

/// The block size with the most resident threads, and the grid that fills the device with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    grid: Out<i32>,
    block: Out<i32>,
    function: Handle,
    shared: Option<BlockToShared>,
    dynamic: usize,
    limit: i32,
    flags: u32,
) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        check_flags(flags)?;
        grid.check("minGridSize")?;
        let most = function.kernel.threads_that_fit();
        let most = u32::try_from(limit)
            .ok()
            .filter(|&limit| limit > 0)
            .map_or(most, |limit| limit.min(most));
        let mut best = (0, 0, 0); // resident threads, threads of a block, blocks
        // Whole warps from the largest down, so that of equals the largest block wins; and the
        // limit itself.
        let sizes =
            std::iter::once(most).chain((1..most.div_ceil(WARP_SIZE)).rev().map(|n| n * WARP_SIZE));
        for threads in sizes {
            let dynamic = shared.map_or(dynamic, |shared| shared(threads as i32));
            let blocks = resident_blocks(&function, threads, dynamic);
            if blocks * threads > best.0 {
                best = (blocks * threads, threads, blocks);
            }
        }
        let (_, threads, blocks) = best;
        if threads == 0 {
            return Err(Error::value(format!(
                "no block of `{}` fits on a multiprocessor",
                function.kernel.name
            )));
        }
        grid.set("minGridSize", (blocks * device().multiprocessors) as i32)?;
        block.set("blockSize", threads as i32)
    })
}

/// Dynamic shared memory in bytes that each of `blocks` blocks on a multiprocessor can have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyAvailableDynamicSMemPerBlock(
    bytes: Out<usize>,
    function: Handle,
    blocks: i32,
    threads: i32,
) -> Code {
    guard(|| {
        let function = driver()?.function(function)?;
        let (blocks, threads) = (
            positive("numBlocks", blocks)?,
            positive("blockSize", threads)?,
        );
        if resident_blocks(&function, threads, 0) < blocks {
            return Err(Error::value(format!(
                "{blocks} blocks of {threads} threads of `{}` do not fit on a multiprocessor",
                function.kernel.name
            )));
        }
        let device = device();
        let grain = device.capability.shared_grain;
        let each = device.capability.shared_per_multiprocessor / blocks / grain * grain;
        let each = (each - device.capability.shared_reserved_per_block)
            .min(device.capability.shared_per_block_optin);
        bytes.set(
            "dynamicSmemSize",
            (each - function.kernel.shared_bytes) as usize,
        )
    })
}
