//! Time on a named GPU, from counted work. `MODEL.md` explains the formulas and has the table of
//! constants.

use crate::device::{Device, SCHEDULERS, WARP_SIZE};
use crate::memory::sectors::SECTOR;
use crate::profile::Counters;
use crate::program::op::Class;
use crate::program::ptxas_report::Resources;

/// Seconds from the start of an empty kernel to the start of the next: NVIDIA developer forums,
/// "Too much time for kernel launch latency", about 3 microseconds on recent GPUs.
/// (`gpu-small-kernels` of <https://github.com/te42kyfo/gpu-benches>: 2.5 on an H200, 2.7 on an
/// A100, for kernels that move 64 KiB.) That copies and fills cost the same to start is an
/// estimate.
const LAUNCH_SECONDS: f64 = 3e-6;
/// Bytes of a cache line, and of a wavefront of shared memory.
const LINE: u64 = 128;
/// Bytes that one multiprocessor gets from the second-level cache per clock: NVIDIA A100 Tensor
/// Core GPU Architecture white paper, "64 bytes/clock per SM".
const L2_PORT_BYTES: u32 = 64;

/// Modelled time of a launch alone, without overlap with other launches.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelledTime {
    /// Name of the modelled device: `h100`.
    pub device: &'static str,
    /// Seconds from launch to end: [`seconds_of`](Self::seconds_of) its parts.
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
    /// Rounds in which the busiest multiprocessor gets its blocks.
    pub rounds: u64,
    /// Blocks of the busiest multiprocessor over its fair share: 1 or more.
    pub imbalance: f64,
}

impl ModelledTime {
    /// Seconds of a launch with these parts: the launch overhead, and the longest of what the
    /// multiprocessors' pipelines take together, latency, L2 cache and device memory.
    pub fn seconds_of(parts: &[(Resource, f64)]) -> f64 {
        let (mut launch, mut longest): (f64, f64) = (0.0, 0.0);
        let mut pipelines = Vec::new();
        for &(resource, seconds) in parts {
            match resource {
                Resource::Launch => launch = seconds,
                Resource::Latency | Resource::L2 | Resource::Dram => longest = longest.max(seconds),
                _ => pipelines.push(seconds),
            }
        }
        launch + longest.max(together(&pipelines))
    }

    /// Imbalance and rounds of a grid of `blocks` blocks, on a device with so many multiprocessors
    /// and resident blocks on each. Imbalance is the blocks of the busiest multiprocessor over its
    /// fair share, 1 or more; rounds are those in which it runs them.
    pub fn distribution(blocks: f64, multiprocessors: f64, resident: f64) -> (f64, f64) {
        let most = (blocks / multiprocessors).ceil();
        (most * multiprocessors / blocks, (most / resident).ceil())
    }
}

/// The 4-norm of the pipelines' times: a little longer than the longest, the more of them are
/// nearly as long. Square roots are exact on every machine, other roots are not.
fn together(times: &[f64]) -> f64 {
    let longest = times.iter().copied().fold(0.0, f64::max);
    if longest == 0.0 {
        return 0.0;
    }
    let fourth = |time: &f64| {
        let square = (time / longest) * (time / longest);
        square * square
    };
    longest * times.iter().map(fourth).sum::<f64>().sqrt().sqrt()
}

/// Counted work of a launch that the model uses.
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
    /// Clocks that the warps would take if each ran alone, in all.
    pub latency_clocks: u64,
}

/// The modelled time of a launch. The same work gives the same bits.
pub(crate) fn time(device: &Device, work: &Work) -> ModelledTime {
    let warps = work.threads.div_ceil(WARP_SIZE);
    let registers = work.resources.map_or(0, |report| report.registers);
    // A launch that does not fit is refused before it runs.
    let resident = device
        .resident_blocks(work.threads, registers, work.shared_bytes.into())
        .max(1);
    let multiprocessors = f64::from(device.multiprocessors);
    let (imbalance, rounds) = ModelledTime::distribution(
        work.blocks.max(1) as f64,
        multiprocessors,
        f64::from(resident),
    );
    // Units of work in the whole grid, done at a rate per multiprocessor and clock.
    let spread = |units: u64, rate: u32| {
        units as f64 * imbalance / (multiprocessors * f64::from(rate) * device.clock_hz())
    };
    let counters = work.counters;
    let rates = device.capability;
    let lanes = |warps: u64, rate: u32| spread(warps * u64::from(WARP_SIZE), rate);
    let spilled = work.resources.map_or(0, |report| {
        (u64::from(report.spill_stores) + u64::from(report.spill_loads)) * u64::from(WARP_SIZE)
    });
    // If the first-level caches were endless, each would get each sector once.
    let caches = u64::from(device.multiprocessors).min(work.blocks);
    let l2_bytes = (counters.global().sectors * SECTOR).min(work.compulsory_bytes * caches)
        + counters.local.sectors * SECTOR
        + spilled * u64::from(warps) * work.blocks;
    let requests =
        counters.global().requests + counters.local.requests + counters.shared().requests;
    let warps_of_grid = (u64::from(warps) * work.blocks).max(1);
    let l2_rate = device.l2_bytes_per_clock * device.clock_hz();
    let count = |class: Class| counters.of(class);
    let fp32 = count(Class::Fma32) + count(Class::Float32) + count(Class::Half);
    let fp32 = lanes(fp32, rates.fp32_lanes);
    let fp64 = lanes(count(Class::Float64), rates.fp64_lanes);
    let special = lanes(count(Class::Special), rates.special_lanes);
    let (tf32, f64) = (counters.flops_tensor_tf32, counters.flops_tensor_f64);
    let tensor = spread((counters.flops_tensor - tf32 - f64) / 2, rates.tensor_fmas)
        + spread(tf32 / 2, rates.tensor_tf32_fmas)
        + spread(f64 / 2, rates.tensor_f64_fmas)
        + spread(counters.ops_tensor_int8 / 2, rates.tensor_int8_fmas);
    let load_store = lanes(requests, rates.load_store_lanes);
    let lines = counters.shared().wavefronts + counters.cache_lines;
    let shared = spread(lines * LINE, rates.shared_bytes_per_clock);
    let latency = rounds * work.latency_clocks as f64 / (warps_of_grid as f64 * device.clock_hz());
    let l2 = spread(l2_bytes, L2_PORT_BYTES).max(l2_bytes as f64 / l2_rate);
    let dram = work.compulsory_bytes as f64 / device.dram_bytes_per_second;
    let issue = spread(counters.warp_instructions, SCHEDULERS);
    let parts = vec![
        (Resource::Launch, LAUNCH_SECONDS),
        (Resource::Issue, issue),
        (Resource::Fp32, fp32),
        (Resource::Fp64, fp64),
        (Resource::Special, special),
        (Resource::Tensor, tensor),
        (Resource::LoadStore, load_store),
        (Resource::Shared, shared),
        (Resource::Latency, latency),
        (Resource::L2, l2),
        (Resource::Dram, dram),
    ];
    let mut longest = parts[0];
    for &(resource, seconds) in &parts[1..] {
        if seconds > longest.1 {
            longest = (resource, seconds);
        }
    }
    ModelledTime {
        device: device.name,
        seconds: ModelledTime::seconds_of(&parts),
        bound: longest.0,
        parts,
        blocks_per_multiprocessor: resident,
        occupancy: f64::from(resident * warps * WARP_SIZE)
            / f64::from(device.capability.max_threads_per_multiprocessor),
        waves: work.blocks as f64 / (multiprocessors * f64::from(resident)),
        rounds: rounds as u64,
        imbalance,
    }
}

/// Seconds to copy `bytes` between host and device.
pub(crate) fn host_copy_seconds(device: &Device, bytes: usize) -> f64 {
    LAUNCH_SECONDS + bytes as f64 / device.host_bytes_per_second
}

/// Seconds in which device memory moves `bytes`, reads and writes counted each.
pub(crate) fn device_copy_seconds(device: &Device, bytes: usize) -> f64 {
    LAUNCH_SECONDS + bytes as f64 / device.dram_bytes_per_second
}

/// Resource that may limit a kernel.
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
    /// Load/store units: lanes of memory instructions.
    LoadStore,
    /// The unit that is both shared memory and first-level cache: wavefronts, and cache lines of
    /// global memory.
    Shared,
    /// Chains of dependent instructions, of as many warps as are resident at once.
    Latency,
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
            Resource::LoadStore => "load/store",
            Resource::Shared => "L1/shared",
            Resource::Latency => "latency",
            Resource::L2 => "L2",
            Resource::Dram => "DRAM",
        }
    }
}

#[cfg(test)]
mod ladder;
#[cfg(test)]
mod tests;
