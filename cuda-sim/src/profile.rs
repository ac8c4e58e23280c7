//! What a launch did, counted: in all, and by source line.
//!
//! Counters are exact, and the same on every run, for every number of threads and every schedule, as long as the
//! kernel itself does the same. The words are those of Nsight Compute: a *request* is one warp instruction that
//! accesses memory, a *sector* is 32 bytes of global memory, a *wavefront* is one pass through the banks of shared
//! memory.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use crate::device::device;
use crate::exec::tally::{Tallies, Traffic, Transfers};
use crate::memory::sectors::SECTOR;
use crate::model::{self, ModelledTime, Work};
use crate::program::op::{Op, Type};
use crate::program::{Kernel, Latency};

/// A launch that has ended, as it was counted.
#[derive(Debug)]
pub(crate) struct Record {
    pub kernel: Arc<Kernel>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub tallies: Tallies,
}

impl Record {
    /// Everything, in words and by line.
    pub(crate) fn profile(&self) -> LaunchProfile {
        let mut lines: BTreeMap<(String, u32), Counters> = BTreeMap::new();
        let mut total = Counters::default();
        for pc in 0..self.kernel.code.len() {
            let counters = self.counters(pc);
            if counters == Counters::default() {
                continue;
            }
            total += counters;
            let place = self.kernel.source_of(pc as u32);
            let key = place.map_or((String::new(), 0), |s| (s.file, s.line));
            *lines.entry(key).or_default() += counters;
        }
        let lines = lines
            .into_iter()
            .map(|((file, line), counters)| LineProfile {
                file,
                line,
                counters,
            });
        LaunchProfile {
            kernel: self.kernel.name.clone(),
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            resources: self.kernel.resources,
            total,
            compulsory_read_bytes: self.tallies.sectors_read * SECTOR,
            compulsory_write_bytes: self.tallies.sectors_written * SECTOR,
            lines: lines.collect(),
            time: self.time_of(&total),
        }
    }

    /// Time on the simulated device.
    pub(crate) fn time(&self) -> ModelledTime {
        let mut total = Counters::default();
        for pc in 0..self.kernel.code.len() {
            total += self.counters(pc);
        }
        self.time_of(&total)
    }

    fn time_of(&self, total: &Counters) -> ModelledTime {
        let work = Work {
            counters: total,
            compulsory_bytes: (self.tallies.sectors_read + self.tallies.sectors_written) * SECTOR,
            blocks: self.grid.iter().map(|&size| u64::from(size)).product(),
            threads: self.block.iter().product(),
            shared_bytes: self.shared_bytes,
            resources: self.kernel.resources,
            latency_clocks: self.latency_clocks(),
        };
        model::time(device(), &work)
    }

    /// Clocks that the warps would take if each ran alone, in all.
    fn latency_clocks(&self) -> u64 {
        let of = |latency: &Latency| {
            let counted_at = self.kernel.counted_at[latency.at as usize];
            let tally = counted_at.map(|at| self.tallies.instructions[at as usize]);
            tally.map_or(0, |tally| tally.warps * u64::from(latency.clocks))
        };
        self.kernel.latencies.iter().map(of).sum()
    }

    /// What the instruction at `pc` did.
    fn counters(&self, pc: usize) -> Counters {
        let op = &self.kernel.code[pc].op;
        let Some(counted_at) = self.kernel.counted_at[pc] else {
            return Counters::default();
        };
        let tally = self.tallies.instructions[counted_at as usize];
        if tally.warps == 0 {
            return Counters::default();
        }
        let mut counters = Counters {
            warp_instructions: tally.warps,
            lane_instructions: tally.lanes,
            divergent_branches: self.tallies.instructions[pc].splits,
            ..Counters::default()
        };
        let class = op.class();
        counters.classes[class as usize] = tally.warps;
        let flops = op.flops() * tally.lanes;
        match class {
            Class::Float64 => counters.flops_f64 = flops,
            Class::Tensor => counters.flops_tensor = flops,
            _ => counters.flops_f32 = flops,
        }
        if op.is_branch() {
            counters.branches = tally.warps;
        }
        if op.is_barrier() {
            counters.barriers = tally.warps;
        }
        let (access, kind) = match op {
            Op::Load { access, .. } => (access, 0),
            Op::Store { access, .. } => (access, 1),
            Op::Atomic { access, .. } => (access, 2),
            _ => return counters,
        };
        let bytes = u64::from(access.bytes());
        let Traffic {
            global,
            shared,
            local,
        } = self.tallies.traffic[access.site as usize];
        let sectors = |t: Transfers| Sectors {
            requests: t.requests,
            sectors: t.units,
            bytes: t.lanes * bytes,
        };
        let wavefronts = Wavefronts {
            requests: shared.requests,
            wavefronts: shared.units,
            ideal: shared.ideal,
            bytes: shared.lanes * bytes,
        };
        counters.local = sectors(local);
        // Local memory lies side by side: four sectors to a line.
        counters.cache_lines = global.ideal + local.units.div_ceil(4);
        match kind {
            0 => (counters.global_loads, counters.shared_loads) = (sectors(global), wavefronts),
            1 => (counters.global_stores, counters.shared_stores) = (sectors(global), wavefronts),
            _ => {
                (counters.global_atomics, counters.shared_atomics) = (sectors(global), wavefronts);
                if access.ty == Type::F32 {
                    counters.flops_f32 += tally.lanes;
                }
            }
        }
        counters
    }
}

/// One launch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LaunchProfile {
    /// Kernel name.
    pub kernel: String,
    /// Blocks (x, y, z).
    pub grid: [u32; 3],
    /// Threads per block (x, y, z).
    pub block: [u32; 3],
    /// Shared memory per block in bytes, static and dynamic.
    pub shared_bytes: u32,
    /// What the compiler reported for the modelled device: `None` if the PTX text has no report in its head.
    pub resources: Option<Resources>,
    /// Sums over the whole launch.
    pub total: Counters,
    /// Sectors of device memory that the launch read, each once, in bytes: what has to come from DRAM even with an
    /// endless cache. Atomic operations read and write. What the launch itself wrote before it read it counts too, so
    /// that the figure does not depend on the order of blocks.
    pub compulsory_read_bytes: u64,
    /// Sectors that the launch wrote, each once, in bytes.
    pub compulsory_write_bytes: u64,
    /// Counters by source line, ordered by file and line. Instructions without a line are under line 0 of file "".
    pub lines: Vec<LineProfile>,
    /// Time on the modelled device.
    pub time: ModelledTime,
}

/// Counters of one source line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineProfile {
    /// File, as the compiler saw it, without the virtual root `/k/`.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Its counters.
    pub counters: Counters,
}

/// What `ptxas` said of a kernel for one architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Architecture, as in `sm_90`.
    pub architecture: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of registers stored to local memory, per thread.
    pub spill_stores: u32,
    /// Bytes of registers loaded back.
    pub spill_loads: u32,
}

/// What instructions did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Instructions, once per warp that ran them.
    pub warp_instructions: u64,
    /// Instructions, once per thread that ran them with its guard true.
    pub lane_instructions: u64,
    /// Warp instructions by [`Class`]; see [`Counters::of`].
    pub classes: [u64; Class::ALL.len()],
    /// f32 operations: an addition or multiplication is one, a fused multiply-add two.
    pub flops_f32: u64,
    /// f64 operations, counted alike.
    pub flops_f64: u64,
    /// Operations of the tensor cores, counted alike.
    pub flops_tensor: u64,
    /// Loads from global memory, and generic loads that went there.
    pub global_loads: Sectors,
    /// Stores to global memory.
    pub global_stores: Sectors,
    /// Atomic operations on global memory.
    pub global_atomics: Sectors,
    /// Loads, stores and atomic operations on local memory: arrays that do not fit in registers.
    pub local: Sectors,
    /// Cache lines of 128 bytes that the requests of global and local memory touched, each line once per request; of a
    /// request of global memory as many as if its first thread's address began a line.
    pub cache_lines: u64,
    /// Loads from shared memory.
    pub shared_loads: Wavefronts,
    /// Stores to shared memory.
    pub shared_stores: Wavefronts,
    /// Atomic operations on shared memory.
    pub shared_atomics: Wavefronts,
    /// Branches that some of a warp's threads could take, once per warp.
    pub branches: u64,
    /// Those that split a warp.
    pub divergent_branches: u64,
    /// Block barriers, once per warp that arrived.
    pub barriers: u64,
}

/// Traffic of global or local memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sectors {
    /// Warp instructions.
    pub requests: u64,
    /// Sectors of 32 bytes that the requests touched, each sector once per request.
    pub sectors: u64,
    /// Bytes that the threads asked for.
    pub bytes: u64,
}

/// Traffic of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wavefronts {
    /// Warp instructions.
    pub requests: u64,
    /// Passes through the 32 banks of 4 bytes.
    pub wavefronts: u64,
    /// Passes that would do if no two words shared a bank.
    pub ideal: u64,
    /// Bytes that the threads asked for.
    pub bytes: u64,
}

/// Kinds of instruction, by the part of a multiprocessor that runs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Fused multiply-add on f32.
    Fma32,
    /// Other f32 arithmetic: add, multiply, minimum, comparison.
    Float32,
    /// f64 arithmetic.
    Float64,
    /// f16 and bf16 arithmetic.
    Half,
    /// Tensor cores.
    Tensor,
    /// Special functions: reciprocal, square root, exp2, log2, sine.
    Special,
    /// Integers, bits, addresses, comparisons of integers, predicates.
    Integer,
    /// Moves, selections and conversions.
    Move,
    /// Loads and stores of global memory, and atomics.
    Global,
    /// Those of shared memory.
    Shared,
    /// Those of local memory.
    Local,
    /// Loads of kernel parameters.
    Parameter,
    /// Shuffles, votes, `__syncwarp`.
    Warp,
    /// Block barriers and fences.
    Barrier,
    /// Branches, exits, calls.
    Control,
    /// The rest.
    Other,
}

impl Class {
    /// All of them, in the order of [`Counters::classes`].
    pub const ALL: [Class; 16] = [
        Class::Fma32,
        Class::Float32,
        Class::Float64,
        Class::Half,
        Class::Tensor,
        Class::Special,
        Class::Integer,
        Class::Move,
        Class::Global,
        Class::Shared,
        Class::Local,
        Class::Parameter,
        Class::Warp,
        Class::Barrier,
        Class::Control,
        Class::Other,
    ];

    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Class::Fma32 => "fma f32",
            Class::Float32 => "f32",
            Class::Float64 => "f64",
            Class::Half => "f16",
            Class::Tensor => "tensor",
            Class::Special => "special",
            Class::Integer => "integer",
            Class::Move => "move",
            Class::Global => "global",
            Class::Shared => "shared",
            Class::Local => "local",
            Class::Parameter => "parameter",
            Class::Warp => "warp",
            Class::Barrier => "barrier",
            Class::Control => "control",
            Class::Other => "other",
        }
    }
}

impl Counters {
    /// Warp instructions of one class.
    pub fn of(&self, class: Class) -> u64 {
        self.classes[class as usize]
    }

    /// Global traffic of all kinds.
    pub fn global(&self) -> Sectors {
        let mut sum = self.global_loads;
        sum += self.global_stores;
        sum += self.global_atomics;
        sum
    }

    /// Shared traffic of all kinds.
    pub fn shared(&self) -> Wavefronts {
        let mut sum = self.shared_loads;
        sum += self.shared_stores;
        sum += self.shared_atomics;
        sum
    }

    /// Threads that took part in an instruction, on average: at most 32. Threads whose guard is false take no part, so a
    /// branch that is not taken counts as 0.
    pub fn lanes_per_instruction(&self) -> f64 {
        self.lane_instructions as f64 / self.warp_instructions.max(1) as f64
    }
}

impl Sectors {
    /// Bytes asked for as a share of bytes moved. Above 1 where threads read the same word.
    pub fn efficiency(&self) -> f64 {
        self.bytes as f64 / (self.sectors * 32).max(1) as f64
    }

    /// Sectors per request; 4 is what 32 threads with 4 bytes each need.
    pub fn per_request(&self) -> f64 {
        self.sectors as f64 / self.requests.max(1) as f64
    }
}

impl Wavefronts {
    /// Passes as a multiple of what would do: 1 without bank conflicts.
    pub fn conflict_degree(&self) -> f64 {
        if self.ideal == 0 {
            return 1.0;
        }
        self.wavefronts as f64 / self.ideal as f64
    }
}

impl AddAssign for Sectors {
    fn add_assign(&mut self, other: Sectors) {
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.bytes += other.bytes;
    }
}

impl AddAssign for Wavefronts {
    fn add_assign(&mut self, other: Wavefronts) {
        self.requests += other.requests;
        self.wavefronts += other.wavefronts;
        self.ideal += other.ideal;
        self.bytes += other.bytes;
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.warp_instructions += other.warp_instructions;
        self.lane_instructions += other.lane_instructions;
        for (sum, more) in self.classes.iter_mut().zip(other.classes) {
            *sum += more;
        }
        self.flops_f32 += other.flops_f32;
        self.flops_f64 += other.flops_f64;
        self.flops_tensor += other.flops_tensor;
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        self.global_atomics += other.global_atomics;
        self.local += other.local;
        self.cache_lines += other.cache_lines;
        self.shared_loads += other.shared_loads;
        self.shared_stores += other.shared_stores;
        self.shared_atomics += other.shared_atomics;
        self.branches += other.branches;
        self.divergent_branches += other.divergent_branches;
        self.barriers += other.barriers;
    }
}
