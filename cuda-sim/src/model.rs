//! Time on a named GPU, from counted work. `MODEL.md` explains the formulas and has the table of constants.

use crate::device::{Device, SCHEDULERS, WARP_SIZE};
use crate::profile::{Class, Counters, Resources};
use crate::shadow::SECTOR;

/// Seconds from the start of an empty kernel to the start of the next: NVIDIA developer forums, "Too much time for
/// kernel launch latency", about 3 microseconds on recent GPUs. (`gpu-small-kernels` of
/// <https://github.com/te42kyfo/gpu-benches>: 2.5 on an H200, 2.7 on an A100, for kernels that move 64 KiB.) That copies
/// and fills cost the same to start is an estimate.
const LAUNCH_SECONDS: f64 = 3e-6;
/// Warps of a scheduler that hide the latency of arithmetic: CUDA C++ Programming Guide, "Multiprocessor Level", 4
/// clocks from one instruction to the next that depends on it.
const HIDING_WARPS: u32 = 4;
/// Bytes that one multiprocessor gets from the second-level cache per clock: NVIDIA A100 Tensor Core GPU Architecture
/// white paper, "64 bytes/clock per SM".
const L2_PORT_BYTES: u32 = 64;

/// What a launch would take, by the model. It does not see memory latency, caches other than what is said here, or
/// overlap with other launches.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelledTime {
    /// Name of the modelled device: `h100`.
    pub device: &'static str,
    /// Seconds from launch to end: the launch overhead, and the longest of the other [`parts`](Self::parts).
    pub seconds: f64,
    /// The part that takes longest.
    pub bound: Resource,
    /// Seconds that each resource would take alone, on the multiprocessor that has most to do.
    pub parts: Vec<(Resource, f64)>,
    /// Blocks that fit on one multiprocessor at once.
    pub blocks_per_multiprocessor: u32,
    /// Warps that are resident, as a share of what the multiprocessor can hold.
    pub occupancy: f64,
    /// Rounds of blocks: blocks of the grid over blocks that are resident on the whole device.
    pub waves: f64,
    /// How much longer a multiprocessor takes than if blocks could be shared out evenly and had warps enough to hide
    /// latency: 1 or more.
    pub imbalance: f64,
}

/// What a launch did, as far as the model looks at it.
pub(crate) struct Work<'a> {
    pub counters: &'a Counters,
    /// Bytes that must come from or go to device memory.
    pub compulsory_bytes: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory of a block in bytes.
    pub shared_bytes: u32,
    pub resources: Option<Resources>,
}

/// The modelled time of a launch. The same work gives the same bits.
pub(crate) fn time(device: &Device, work: &Work) -> ModelledTime {
    let warps = work.threads.div_ceil(WARP_SIZE);
    let registers = work.resources.map_or(0, |report| report.registers);
    // A launch that does not fit is refused before it runs.
    let resident = device
        .resident_blocks(work.threads, registers, work.shared_bytes.into())
        .max(1);
    let imbalance = imbalance(device, work.blocks, warps, resident);
    let multiprocessors = f64::from(device.multiprocessors);
    // Units of work in the whole grid, done at a rate per multiprocessor and clock.
    let spread = |units: u64, rate: u32| {
        units as f64 * imbalance / (multiprocessors * f64::from(rate) * device.clock_hz())
    };
    let counters = work.counters;
    let lanes = |classes: &[Class]| {
        let warps: u64 = classes.iter().map(|&class| counters.of(class)).sum();
        warps * u64::from(WARP_SIZE)
    };
    let spilled = work.resources.map_or(0, |report| {
        (u64::from(report.spill_stores) + u64::from(report.spill_loads)) * u64::from(WARP_SIZE)
    });
    let l2_bytes = (counters.global().sectors + counters.local.sectors) * SECTOR
        + spilled * u64::from(warps) * work.blocks;
    let l2_rate = device.l2_bytes_per_clock * device.clock_hz();
    let parts = vec![
        (Resource::Launch, LAUNCH_SECONDS),
        (
            Resource::Issue,
            spread(counters.warp_instructions, SCHEDULERS),
        ),
        (
            Resource::Fp32,
            spread(
                lanes(&[Class::Fma32, Class::Float32, Class::Half]),
                device.capability.fp32_lanes,
            ),
        ),
        (
            Resource::Fp64,
            spread(lanes(&[Class::Float64]), device.capability.fp64_lanes),
        ),
        (
            Resource::Special,
            spread(lanes(&[Class::Special]), device.capability.special_lanes),
        ),
        (
            Resource::Tensor,
            spread(counters.flops_tensor / 2, device.capability.tensor_fmas),
        ),
        (
            Resource::Shared,
            spread(
                counters.shared().wavefronts * 128,
                device.capability.shared_bytes_per_clock,
            ),
        ),
        (
            Resource::L2,
            spread(l2_bytes, L2_PORT_BYTES).max(l2_bytes as f64 / l2_rate),
        ),
        (
            Resource::Dram,
            work.compulsory_bytes as f64 / device.dram_bytes_per_second,
        ),
    ];
    let mut longest = parts[0];
    let mut busy: f64 = 0.0;
    for &(resource, seconds) in &parts[1..] {
        busy = busy.max(seconds);
        if seconds > longest.1 {
            longest = (resource, seconds);
        }
    }
    ModelledTime {
        device: device.name,
        seconds: LAUNCH_SECONDS + busy,
        bound: longest.0,
        parts,
        blocks_per_multiprocessor: resident,
        occupancy: f64::from(resident * warps * WARP_SIZE)
            / f64::from(device.capability.max_threads_per_multiprocessor),
        waves: work.blocks as f64 / (multiprocessors * f64::from(resident)),
        imbalance,
    }
}

/// The busiest multiprocessor's time, in blocks, over its fair share of the grid.
///
/// It gets its blocks in rounds. A round takes as long as its blocks one after the other at full rate, but no less than
/// the blocks would take that hide latency: with fewer warps, the multiprocessor waits.
fn imbalance(device: &Device, blocks: u64, warps: u32, resident: u32) -> f64 {
    let multiprocessors = u64::from(device.multiprocessors);
    let most = blocks.div_ceil(multiprocessors);
    let (rounds, rest) = (most / u64::from(resident), most % u64::from(resident));
    let hiding = f64::from(SCHEDULERS * HIDING_WARPS) / f64::from(warps);
    let mut time = rounds as f64 * f64::from(resident).max(hiding);
    if rest > 0 {
        time += (rest as f64).max(hiding);
    }
    time * multiprocessors as f64 / blocks.max(1) as f64
}

/// Seconds to copy `bytes` between host and device.
pub(crate) fn host_copy_seconds(device: &Device, bytes: usize) -> f64 {
    LAUNCH_SECONDS + bytes as f64 / device.host_bytes_per_second
}

/// Seconds in which device memory moves `bytes`, reads and writes counted each.
pub(crate) fn device_copy_seconds(device: &Device, bytes: usize) -> f64 {
    LAUNCH_SECONDS + bytes as f64 / device.dram_bytes_per_second
}

/// What a kernel may run out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Launch overhead: the kernel is too short for anything else.
    Launch,
    /// Instruction issue.
    Issue,
    /// f32 units.
    Fp32,
    /// f64 units.
    Fp64,
    /// Special function units.
    Special,
    /// Tensor cores.
    Tensor,
    /// Shared memory banks.
    Shared,
    /// The second-level cache: all sectors that requests touch.
    L2,
    /// Device memory: compulsory bytes.
    Dram,
}

impl Resource {
    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Launch => "launch",
            Resource::Issue => "issue",
            Resource::Fp32 => "fp32",
            Resource::Fp64 => "fp64",
            Resource::Special => "special",
            Resource::Tensor => "tensor",
            Resource::Shared => "shared",
            Resource::L2 => "L2",
            Resource::Dram => "DRAM",
        }
    }
}

#[cfg(test)]
mod tests;
