//! Profile of one launch: its shape, its counters in all and by source line, and its modelled time.

use super::counters::Counters;
use super::phase::Phase;
use crate::model::{self, ModelledTime, Work};
use crate::program::ptxas_report::Resources;
use crate::settings::device;

/// Profile of one launch.
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
    /// The compiler's report for the modelled device: `None` if the PTX text has no report in its
    /// head.
    pub resources: Option<Resources>,
    /// Sums over the whole launch.
    pub total: Counters,
    /// Bytes of the sectors of device memory that the launch read, each counted once: the DRAM
    /// traffic with an endless cache. Atomic operations read and write. Sectors that the launch
    /// wrote before it read them count too, so that the figure does not depend on the order of
    /// blocks.
    pub compulsory_read_bytes: u64,
    /// Bytes of the sectors that the launch wrote, each counted once.
    pub compulsory_write_bytes: u64,
    /// Instructions of tensor cores, once per warp, that ran while the block had asynchronous
    /// copies that it had begun and not waited for.
    pub tensor_during_copies: u64,
    /// Counters by source line, ordered by file and line. Instructions without a line are under
    /// line 0 of file "".
    pub lines: Vec<LineProfile>,
    /// Work of each phase: of the code between barriers.
    pub phases: Vec<Phase>,
    /// Bytes of the kernel's arrays in local memory, per thread, before the assembler keeps them in
    /// registers.
    pub local_bytes: u32,
    /// The most atomic operations, of single threads, that one address of device memory got, at
    /// most: 65,536 groups of addresses are told apart.
    pub atomics_at_one_address: u64,
    /// Where warps wait for phases of barriers in shared memory, and so may have roles: clocks of
    /// the chains of the slowest warp of each block, added up. 0 elsewhere.
    pub slowest_warps: u64,
    /// Time on the modelled device.
    pub time: ModelledTime,
}

impl LaunchProfile {
    /// Modelled time of a launch with `times` as many blocks, in which each set of blocks does what
    /// the blocks of this launch did, on device memory of its own: of more sequences of the same
    /// length, for example.
    pub fn repeated(&self, times: u64) -> ModelledTime {
        let compulsory_bytes = self.compulsory_read_bytes + self.compulsory_write_bytes;
        let blocks: u64 = self.grid.iter().map(|&size| u64::from(size)).product();
        let work = Work {
            phases: self
                .phases
                .iter()
                .map(|phase| phase.repeated(times))
                .collect(),
            compulsory_bytes: compulsory_bytes * times,
            blocks: blocks * times,
            threads: self.block.iter().product(),
            shared_bytes: self.shared_bytes,
            resources: self.resources,
            local_bytes: self.local_bytes,
            // Each has memory of its own.
            atomics_at_one_address: self.atomics_at_one_address,
            slowest_warps: self.slowest_warps * times,
        };
        model::time(device(), &work)
    }
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
