//! Occupancy: how many blocks of a kernel fit on a multiprocessor.
//!
//! By threads, blocks and shared memory. Registers, which also limit it on a GPU, are unknown: PTX has none.

use crate::{
    device,
    driver::{
        ffi::Out,
        handle::Handle,
        module::Function,
        state::driver,
        status::{Code, Error, Result, guard},
    },
};

/// `CUoccupancyB2DSize`: dynamic shared memory in bytes that blocks of so many threads need.
type BlockToShared = extern "C" fn(i32) -> usize;

/// `CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE`, which changes nothing here.
const FLAGS: u32 = 1;

/// Blocks of `threads` threads and `dynamic` bytes of dynamic shared memory that fit on a multiprocessor; 0 if none.
fn resident_blocks(function: &Function, threads: u32, dynamic: usize) -> u32 {
    if threads == 0 || threads > function.max_threads() {
        return 0;
    }
    let shared = u64::from(function.kernel.shared_bytes).saturating_add(dynamic as u64);
    if shared > u64::from(device::SHARED_PER_BLOCK_OPTIN) {
        return 0;
    }
    let shared =
        (shared as u32 + device::SHARED_RESERVED_PER_BLOCK).next_multiple_of(device::SHARED_GRAIN);
    let by_threads =
        device::MAX_THREADS_PER_MULTIPROCESSOR / threads.next_multiple_of(device::WARP_SIZE);
    let by_shared = device::SHARED_PER_MULTIPROCESSOR / shared;
    device::MAX_BLOCKS_PER_MULTIPROCESSOR
        .min(by_threads)
        .min(by_shared)
}

fn max_active_blocks(
    blocks: Out<i32>,
    function: Handle,
    threads: i32,
    dynamic: usize,
    flags: u32,
) -> Result {
    let function = driver()?.functions.get(function)?;
    check_flags(flags)?;
    let threads = positive("blockSize", threads)?;
    blocks.set(
        "numBlocks",
        resident_blocks(&function, threads, dynamic) as i32,
    )
}

fn max_potential_block(
    grid: Out<i32>,
    block: Out<i32>,
    function: Handle,
    shared: Option<BlockToShared>,
    dynamic: usize,
    limit: i32,
    flags: u32,
) -> Result {
    let function = driver()?.functions.get(function)?;
    check_flags(flags)?;
    grid.check("minGridSize")?;
    let most = function.max_threads();
    let most = u32::try_from(limit)
        .ok()
        .filter(|&limit| limit > 0)
        .map_or(most, |limit| limit.min(most));
    let mut best = (0, 0, 0); // resident threads, threads of a block, blocks
    // Whole warps from the largest down, so that of equals the largest block wins; and the limit itself.
    let sizes = std::iter::once(most).chain(
        (1..most.div_ceil(device::WARP_SIZE))
            .rev()
            .map(|n| n * device::WARP_SIZE),
    );
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
    grid.set("minGridSize", (blocks * device::MULTIPROCESSORS) as i32)?;
    block.set("blockSize", threads as i32)
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
    guard(|| max_active_blocks(blocks, function, threads, dynamic, 0))
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
    guard(|| max_active_blocks(blocks, function, threads, dynamic, flags))
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
    guard(|| max_potential_block(grid, block, function, shared, dynamic, limit, 0))
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
    guard(|| max_potential_block(grid, block, function, shared, dynamic, limit, flags))
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
        let function = driver()?.functions.get(function)?;
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
        let each = device::SHARED_PER_MULTIPROCESSOR / blocks / device::SHARED_GRAIN
            * device::SHARED_GRAIN;
        let each = (each - device::SHARED_RESERVED_PER_BLOCK).min(device::SHARED_PER_BLOCK_OPTIN);
        bytes.set(
            "dynamicSmemSize",
            (each - function.kernel.shared_bytes) as usize,
        )
    })
}
