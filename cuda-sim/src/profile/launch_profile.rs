//! Profile of one launch: its shape, its counters in all and by source line, and its modelled time.

use super::counters::Counters;
use crate::model::ModelledTime;
use crate::program::ptxas_report::Resources;

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
    /// What the compiler reported for the modelled device: `None` if the PTX text has no report in its head.
    pub resources: Option<Resources>,
    /// Sums over the whole launch.
    pub total: Counters,
    /// Bytes of the sectors of device memory that the launch read, each counted once: the DRAM traffic with an endless
    /// cache. Atomic operations read and write. Sectors that the launch wrote before it read them count too, so that the
    /// figure does not depend on the order of blocks.
    pub compulsory_read_bytes: u64,
    /// Bytes of the sectors that the launch wrote, each counted once.
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
