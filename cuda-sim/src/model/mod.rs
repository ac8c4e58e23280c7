//! Time on a named GPU, from counted work. `MODEL.md` explains the formulas and has the table of
//! constants.

use crate::device::{Device, SCHEDULERS, WARP_SIZE};
use crate::memory::sectors::SECTOR;
use crate::profile::Phase;
use crate::program::ptxas_report::Resources;

/// Seconds from the start of an empty kernel to the start of the next: NVIDIA developer forums,
/// "Too much time for kernel launch latency", about 3 microseconds on recent GPUs.
/// (`gpu-small-kernels` of <https://github.com/te42kyfo/gpu-benches>: 2.5 on an H200, 2.7 on an
/// A100, for kernels that move 64 KiB.) That copies and fills cost the same to start is an
/// estimate.
const LAUNCH_SECONDS: f64 = 3e-6;
/// Seconds of it that a kernel saves if it waits in its stream behind other work: about 2
/// microseconds are left (`gpu-small-kernels`, less what its kernels take themselves).
const QUEUED_SECONDS: f64 = 1e-6;
/// Clocks between two atomic operations on one address of global memory: NVIDIA Kepler Tuning
/// Guide, "Global Memory Atomic Operations": one per clock.
const ATOMIC_CLOCKS: u64 = 1;
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
                pipeline if pipeline.is_pipeline() => pipelines.push(seconds),
                _ => longest = longest.max(seconds),
            }
        }
        launch + longest.max(together(&pipelines))
    }

    /// Seconds from the end of what was before the launch in its stream; `behind`: that had not
    /// ended when the launch was submitted.
    pub fn seconds_behind(&self, behind: bool) -> f64 {
        self.seconds - if behind { QUEUED_SECONDS } else { 0.0 }
    }

    /// The longest of pipelines (together), latency, L2 and device memory, and the second-longest,
    /// without the launch overhead. Where the first of two kernels are alike, the one whose second
    /// is shorter hides more.
    pub fn longest_two(&self) -> [f64; 2] {
        let seconds = |wanted: &dyn Fn(Resource) -> bool| -> Vec<f64> {
            let parts = self.parts.iter().filter(|(resource, _)| wanted(*resource));
            parts.map(|(_, seconds)| *seconds).collect()
        };
        let pipelines = together(&seconds(&|resource| resource.is_pipeline()));
        let mut seconds =
            seconds(&|resource| !resource.is_pipeline() && resource != Resource::Launch);
        seconds.push(pipelines);
        seconds.sort_unstable_by(|a, b| b.total_cmp(a));
        [seconds[0], seconds[1]]
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
pub(crate) struct Work {
    pub phases: Vec<Phase>,
    /// Bytes that must come from or go to device memory.
    pub compulsory_bytes: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory of a block in bytes.
    pub shared_bytes: u32,
    pub resources: Option<Resources>,
    /// Bytes of the PTX's local memory, per thread.
    pub local_bytes: u32,
    /// The most atomic operations that one address of device memory got.
    pub atomics_at_one_address: u64,
    /// Clocks of chains of the slowest warp of each block, added up; 0 if all are taken for alike.
    pub slowest_warps: u64,
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
    let blocks = work.blocks.max(1) as f64;
    let (imbalance, rounds) =
        ModelledTime::distribution(blocks, multiprocessors, f64::from(resident));
    let local = LocalMemory::new(device, work, resident);
    let phases: Vec<Phase> = work.phases.iter().map(|phase| local.of(phase)).collect();
    let mut total = Phase::default();
    phases.iter().for_each(|phase| total += *phase);
    total.wavefronts += local.spilled_lines(work);
    // On the busiest multiprocessor.
    let share = imbalance / multiprocessors;
    let pipelines = pipeline_seconds(device, &total, share);
    // Chains of the warp that a block waits for.
    let slowest = match work.slowest_warps {
        0 => 1.0,
        clocks => (clocks * u64::from(warps)) as f64 / total.latency_clocks as f64,
    };
    // A block alone, one phase after the other.
    let alone = |phase: &Phase| {
        let busy = pipelines_of_phase(device, phase, 1.0 / blocks);
        let mean = phase.latency_clocks as f64 / (blocks * f64::from(warps) * device.clock_hz());
        let latency = mean * slowest;
        busy.max(latency)
    };
    let latency = rounds * phases.iter().map(alone).sum::<f64>();
    // If the first-level caches were endless, each would get each sector once.
    let caches = u64::from(device.multiprocessors).min(work.blocks);
    let l2_bytes =
        (total.sectors * SECTOR).min(work.compulsory_bytes * caches) + local.l2_bytes(&total, work);
    let l2_rate = device.l2_bytes_per_clock * device.clock_hz();
    let turns = (work.atomics_at_one_address * ATOMIC_CLOCKS) as f64 / device.clock_hz();
    let l2 = (l2_bytes as f64 * share / port(device)).max(l2_bytes as f64 / l2_rate);
    let l2 = l2.max(turns);
    let dram = work.compulsory_bytes as f64 / device.dram_bytes_per_second;
    let mut parts = vec![(Resource::Launch, LAUNCH_SECONDS)];
    parts.extend(pipelines);
    parts.extend([
        (Resource::Latency, latency),
        (Resource::L2, l2),
        (Resource::Dram, dram),
    ]);
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

/// Seconds that each pipeline of a multiprocessor takes for this share of some work.
fn pipeline_seconds(device: &Device, work: &Phase, share: f64) -> [(Resource, f64); 7] {
    let rates = device.capability;
    let at = |units: u64, rate: u32| units as f64 * share / (f64::from(rate) * device.clock_hz());
    let lanes = |warps: u64, rate: u32| at(warps * u64::from(WARP_SIZE), rate);
    let lines = |lines: u64| at(lines * LINE, rates.shared_bytes_per_clock);
    let tensor = (at(work.tensor / 2, rates.tensor_fmas)
        + at(work.tensor_tf32 / 2, rates.tensor_tf32_fmas)
        + at(work.tensor_int8 / 2, rates.tensor_int8_fmas))
        / rates.mma_sync_share
        + at(work.wgmma / 2, rates.tensor_fmas)
        + at(work.tensor_f64 / 2, rates.tensor_f64_fmas);
    [
        (Resource::Issue, at(work.instructions, SCHEDULERS)),
        (Resource::Fp32, lanes(work.fp32, rates.fp32_lanes)),
        (Resource::Fp64, lanes(work.fp64, rates.fp64_lanes)),
        (Resource::Special, lanes(work.special, rates.special_lanes)),
        (Resource::Tensor, tensor),
        (
            Resource::LoadStore,
            lanes(work.global_requests, rates.load_store_lanes) + lines(work.shared_requests),
        ),
        (Resource::Shared, lines(work.wavefronts)),
    ]
}

/// Seconds in which this share of a phase's work is done, if nothing else is.
fn pipelines_of_phase(device: &Device, phase: &Phase, share: f64) -> f64 {
    let waited = Phase {
        wavefronts: phase.wavefronts - phase.later_wavefronts,
        sectors: phase.sectors - phase.later_sectors,
        ..*phase
    };
    let pipelines = pipeline_seconds(device, &waited, share).map(|(_, seconds)| seconds);
    let l2 = (waited.sectors * SECTOR) as f64 * share / port(device);
    together(&pipelines).max(l2)
}

/// Bytes per second that a multiprocessor gets from the second-level cache.
fn port(device: &Device) -> f64 {
    f64::from(L2_PORT_BYTES) * device.clock_hz()
}

/// What becomes of local memory: the assembler keeps arrays in registers if its report has no frame
/// for them; the rest stays in the first-level cache if it fits.
struct LocalMemory {
    is_gone: bool,
    fits: bool,
}

impl LocalMemory {
    fn new(device: &Device, work: &Work, resident: u32) -> LocalMemory {
        let spilled = work.resources.map_or(0, |report| report.spill_stores);
        let frame = match work.resources {
            Some(report) => report.frame,
            None => work.local_bytes,
        };
        let threads = u64::from(work.threads) * u64::from(resident);
        let shared = u64::from(work.shared_bytes) * u64::from(resident);
        let cache = u64::from(device.capability.l1_bytes).saturating_sub(shared);
        LocalMemory {
            is_gone: frame <= spilled,
            fits: threads * u64::from(frame.max(spilled)) <= cache,
        }
    }

    fn of(&self, phase: &Phase) -> Phase {
        let mut phase = *phase;
        if self.is_gone {
            (phase.local_requests, phase.local_sectors) = (0, 0);
        }
        phase.instructions += phase.local_requests;
        phase.global_requests += phase.local_requests;
        phase.wavefronts += phase.local_sectors.div_ceil(4);
        phase
    }

    /// Bytes of spilled registers.
    fn spilled(work: &Work) -> u64 {
        let warps = u64::from(work.threads.div_ceil(WARP_SIZE)) * work.blocks;
        let bytes = work.resources.map_or(0, |report| {
            u64::from(report.spill_stores) + u64::from(report.spill_loads)
        });
        bytes * u64::from(WARP_SIZE) * warps
    }

    fn spilled_lines(&self, work: &Work) -> u64 {
        LocalMemory::spilled(work) / LINE
    }

    fn l2_bytes(&self, total: &Phase, work: &Work) -> u64 {
        if self.fits {
            return 0;
        }
        total.local_sectors * SECTOR + LocalMemory::spilled(work)
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
    /// The unit that is both shared memory and first-level cache: wavefronts.
    Shared,
    /// A block alone, one phase after the other: each takes as long as its chains of dependent
    /// instructions or its work, and once for each round of blocks.
    Latency,
    /// The second-level cache: sectors that the first level misses, or atomic operations on one
    /// address.
    L2,
    /// Device memory: compulsory bytes.
    Dram,
}

impl Resource {
    /// True for the pipelines of a multiprocessor, which slow each other down.
    fn is_pipeline(self) -> bool {
        !matches!(
            self,
            Resource::Launch | Resource::Latency | Resource::L2 | Resource::Dram
        )
    }

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
