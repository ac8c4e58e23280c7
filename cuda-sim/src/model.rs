//! Time on a named GPU, from counted work.

/// What a launch would take, by the model. It does not see latency, caches other than what is said here, or overlap
/// with other launches.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelledTime {
    /// Name of the modelled device: `h100`.
    pub device: &'static str,
    /// Seconds from launch to end.
    pub seconds: f64,
    /// The resource that takes longest.
    pub bound: Resource,
    /// Seconds that each resource would take alone, with all of the device at work.
    pub parts: Vec<(Resource, f64)>,
    /// Blocks that fit on one multiprocessor at once.
    pub blocks_per_multiprocessor: u32,
    /// Warps that are resident, as a share of what the multiprocessor can hold.
    pub occupancy: f64,
    /// Rounds of blocks: blocks of the grid over blocks that are resident on the whole device.
    pub waves: f64,
}

/// To be modelled.
pub(crate) fn time() -> ModelledTime {
    ModelledTime {
        device: "h100",
        seconds: 0.0,
        bound: Resource::Launch,
        parts: Vec::new(),
        blocks_per_multiprocessor: 0,
        occupancy: 0.0,
        waves: 0.0,
    }
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
