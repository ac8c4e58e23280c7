//! Faults of a kernel: kind, place, thread.

mod page;
mod report;

use std::fmt;

pub use page::Page;
use report::{and_at, at, exhausted, unfenced, waited_for};

/// A kernel did something that a GPU forbids, or that it cannot do here. The launch ends; later
/// launches work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Kernel name.
    pub kernel: String,
    /// Source file and line, when the PTX has line information.
    pub source: Option<(String, u32)>,
    /// Block index (x, y, z).
    pub block: [u32; 3],
    /// Index of the first thread concerned within its block (x, y, z).
    pub thread: [u32; 3],
    /// Lanes of that thread's warp that ran the instruction, one bit each.
    pub lanes: u32,
    /// Threads that did not take part in a block barrier, which may be why.
    pub missing: Option<MissingThreads>,
}

/// Threads of the block that did not take part in a barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingThreads {
    /// A branch leads some threads past the `__syncthreads()` at this file and line, if the PTX has
    /// line information.
    Past(Option<(String, u32)>),
    /// So many threads had returned when the others passed the last barrier.
    Returned(u32),
}

/// The kinds of fault, with what each needs to be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside every allocation, array or window.
    #[error("out-of-bounds {0}")]
    OutOfBounds(BadAccess),
    /// An access to device memory that was freed.
    #[error("use of freed memory: {0}")]
    UseAfterFree(BadAccess),
    /// An address that is not a multiple of the access size.
    #[error("misaligned {0}")]
    Misaligned(BadAccess),
    /// A use of bytes that were loaded from memory that nobody wrote.
    #[error("read of memory that nobody wrote: {}", .0.access)]
    UninitialisedRead(UnsetRead),
    /// A register that is used before anything is assigned to it.
    #[error("use of a variable that was never set")]
    UninitialisedRegister,
    /// Two accesses to the same bytes that nothing orders, at least one of them a write.
    #[error("race: {}, and an earlier {} that nothing orders", .0.what(), .0.other.verb())]
    Race(Race),
    /// A bulk copy or a product of a warpgroup reads or overwrites shared memory that ordinary
    /// stores wrote, which are ordered before it, but without a fence for the asynchronous proxy.
    #[error("no proxy fence: {}, which an earlier store wrote", .0.what())]
    MissingProxyFence(Race),
    /// A block ended while a bulk copy may still read or write its shared memory.
    #[error(
        "unfinished bulk copy: the block ends, and nobody has waited for this copy from or to its shared memory"
    )]
    UnfinishedBulkCopy,
    /// An access to the target of an asynchronous copy that its thread has not waited for, or a
    /// copy whose source changed meanwhile.
    #[error("copy in flight: {}", .0.what())]
    UnfinishedCopy(BadCopy),
    /// A shuffle that reads a lane that does not take part in it.
    #[error("shuffle reads lane {source}, but only lanes {active:#010x} take part")]
    InactiveLane {
        /// The lane that is read.
        r#source: u32, // thiserror takes a `source` for a cause
        /// Lanes that take part.
        active: u32,
    },
    /// More instructions in one warp than the budget allows: most likely an endless loop.
    #[error("endless loop: one warp ran more than {budget} instructions")]
    Runaway {
        /// Instructions that one warp may run.
        budget: u64,
    },
    /// More instructions in all warps of the launch together than its budget allows.
    #[error("long launch: its warps ran more than {budget} instructions together")]
    LongLaunch {
        /// Instructions that the launch may run.
        budget: u64,
    },
    /// A branch by index (`brx.idx`) beyond its table of targets.
    #[error("bad branch: index {index} into a table of {targets} targets")]
    BadBranch {
        /// The index.
        index: u32,
        /// Targets in the table.
        targets: u32,
    },
    /// An instruction that the simulator does not know.
    #[error("the simulator does not know the instruction {text}")]
    UnknownInstruction {
        /// Opcode and PTX line.
        text: String,
    },
    /// A call that the simulator cannot make: of a function that it does not know, or in a
    /// recursion too deep for it.
    #[error("the simulator cannot call {text}")]
    UnknownCall {
        /// The function, and why.
        text: String,
    },
    /// A call through a pointer that points to no function which takes what the call passes.
    #[error("bad call: the pointer is the address of no function with {parameters} parameters")]
    BadCall {
        /// Number of parameters that the call passes.
        parameters: usize,
    },
    /// An operation on a barrier in shared memory (`mbarrier`) that it does not allow.
    #[error("bad mbarrier: {what}")]
    BadMbarrier {
        /// The mistake.
        what: String,
    },
    /// An operand of a bulk copy (`cp.async.bulk`, `cp.reduce.async.bulk`) that it does not allow.
    #[error("bad bulk copy: {operand} {what}")]
    BadBulkCopy {
        /// The operand, by its name in the PTX manual.
        operand: &'static str,
        /// The mistake.
        what: String,
    },
    /// A copy of a box of a tensor, of which a tensor map says more than its allocation holds.
    #[error("out-of-bounds {0}")]
    TensorOutOfBounds(BadTensor),
    /// The kernel ran `trap`.
    #[error("the kernel ran a trap instruction")]
    Trap,
    /// A device `assert` failed.
    #[error("assertion failed: {message} ({place})")]
    Assertion {
        /// The failed condition.
        message: String,
        /// File and line as compiled.
        place: String,
    },
    /// Threads of one warp wait at different barriers, or some wait at a barrier and others
    /// elsewhere.
    #[error(
        "divergent barrier: other threads of the warp are {}",
        at(other, "elsewhere")
    )]
    DivergentBarrier {
        /// Place of the other threads.
        other: Option<(String, u32)>,
    },
    /// Warps of one block have met at different `__syncthreads()`, and are out of step since.
    #[error(
        "different barriers: warps of the block met here and {}, and have been out of step since",
        at(other, "at another place")
    )]
    DifferentBarriers {
        /// The other one of those at which they have met.
        other: Option<(String, u32)>,
    },
    /// A `.sync` operation names lanes that never arrive, or is run by a lane that it does not
    /// name.
    #[error("warp operation with mask {members:#010x}, but lanes {present:#010x} are there")]
    MissingLanes {
        /// The mask of the operation.
        members: u32,
        /// Lanes that are there.
        present: u32,
    },
    /// Lanes that run one `.sync` operation together pass different masks.
    #[error(
        "warp operation with different masks: lane {lane} names {members:#010x}, lane {other} names {other_members:#010x}"
    )]
    DifferentMasks {
        /// A lane.
        lane: u32,
        /// Its mask, without lanes that have left. It names the other one.
        members: u32,
        /// The other lane.
        other: u32,
        /// The other lane's mask, without lanes that have left.
        other_members: u32,
    },
    /// All warps of the block wait for each other.
    #[error("deadlock: every warp of the block waits{}", waited_for(barriers))]
    Deadlock {
        /// The barriers in shared memory whose phases warps wait for.
        barriers: Vec<WaitedBarrier>,
    },
    /// A warp waits for registers (`setmaxnreg.inc`) that no other one gives back.
    #[error("setmaxnreg waits for ever: {}", exhausted(*wanted, per_thread, *free))]
    RegistersExhausted {
        /// Registers that each of its threads asks for.
        wanted: u32,
        /// Registers of each thread, by warp.
        per_thread: Vec<u32>,
        /// Registers of the block that nobody has.
        free: u32,
    },
    /// Something that a cluster of blocks does not allow.
    #[error("bad use of a cluster: {what}")]
    BadCluster {
        /// The mistake.
        what: String,
    },
    /// A number of registers that `setmaxnreg` does not take.
    #[error("bad setmaxnreg: {what}")]
    BadRegisterCount {
        /// The mistake.
        what: String,
    },
    /// The four warps of a warpgroup do not come to one `wgmma.mma_async` together, with the same
    /// descriptors.
    #[error(
        "warpgroup out of step: this warp is at a wgmma.mma_async, and {what}{}",
        and_at(other)
    )]
    WarpgroupOutOfStep {
        /// What differs.
        what: String,
        /// Place of the other warp.
        other: Option<(String, u32)>,
    },
    /// A matrix descriptor of `wgmma` describes a tile that is not all in shared memory, or was
    /// copied there with another swizzle.
    #[error("bad matrix descriptor: {what}")]
    BadDescriptor {
        /// The operand, its descriptor's fields, and where it leaves shared memory or what copied
        /// it.
        what: String,
    },
    /// An access to a register that a product of the warpgroup (`wgmma.mma_async`) may still write
    /// or read.
    #[error("product in flight: {}", .0.what())]
    ProductInFlight(RegisterInFlight),
    /// A product of a warpgroup whose register was accessed, or that is the first one, without a
    /// `wgmma.fence` before it.
    #[error("missing wgmma.fence: {}", unfenced(register, access))]
    MissingProductFence {
        /// Place of the access.
        access: Option<(String, u32)>,
        /// The register; `None` if no `wgmma.fence` has been run before the first product.
        register: Option<ProductRegister>,
    },
    /// Blocks wait for blocks that cannot start: the device holds no more at the same time.
    #[error(
        "deadlock: the {resident} blocks that fit on the device wait, and {left} others cannot start"
    )]
    GridDeadlock {
        /// Blocks that are on the device, all of which wait.
        resident: u64,
        /// Blocks that have not started.
        left: u64,
    },
    /// A barrier number above 15, a count that is not a multiple of 32, or counts that differ.
    #[error("bad barrier: number {id}, thread count {count}")]
    BadBarrier {
        /// Barrier number.
        id: u32,
        /// Thread count asked for.
        count: u32,
    },
}

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Device memory.
    Global,
    /// Shared memory of a block.
    Shared,
    /// Local memory of a thread.
    Local,
    /// Parameters of the kernel.
    Parameter,
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryKind::Global => "global",
            MemoryKind::Shared => "shared",
            MemoryKind::Local => "local",
            MemoryKind::Parameter => "parameter",
        })
    }
}

/// One bad memory access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAccess {
    /// Memory that it accesses.
    pub space: MemoryKind,
    /// Store or atomic; otherwise a load.
    pub write: bool,
    /// Address within the space.
    pub address: u64,
    /// Bytes of the access.
    pub bytes: u32,
    /// The allocation or array that holds the address, or that is closest to it.
    pub nearest: Option<Nearest>,
    /// The allocation on the other side of the address, if that is near too.
    pub neighbour: Option<Nearest>,
    /// Bytes by which the address is too large because an unsigned 32-bit index went below zero:
    /// the size of 2^32 elements, or 0. The allocations are those near the address without them.
    pub wrapped: u64,
}

/// A row of a box that lies beyond the allocation of its tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTensor {
    /// The access to the row.
    pub access: BadAccess,
    /// The first dimension of the tensor map with which it goes beyond the allocation, from 0.
    pub dimension: u32,
    /// Elements that the tensor map has in this dimension.
    pub elements: u64,
    /// Bytes from one of them to the next.
    pub stride: u64,
}

/// A read of memory that nobody wrote. The fault's own place is that of the use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsetRead {
    /// The load.
    pub access: BadAccess,
    /// File and line of the load, if something else uses its value.
    pub loaded: Option<(String, u32)>,
}

impl UnsetRead {
    /// A read by the instruction that uses it, as far as is known.
    pub(crate) fn new(access: BadAccess) -> UnsetRead {
        UnsetRead {
            access,
            loaded: None,
        }
    }
}

/// Two accesses that nothing orders. The fault's own place is that of the later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// The later access.
    pub access: BadAccess,
    /// Who makes it.
    pub by: Agent,
    /// The earlier access.
    pub other: RaceSide,
    /// They are one store of a warp: its threads store different values to one place.
    pub at_once: bool,
    /// They are accesses of one block.
    pub within_block: bool,
    /// The two threads follow one another in the launch.
    pub adjacent: bool,
    /// They are parts of an update such as `sum += x`: a load, and the store of what was made of
    /// it.
    pub update: bool,
}

/// An asynchronous copy (`cp.async`) in flight, and what went wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadCopy {
    /// The access to its target in shared memory; or, if the source has changed, its read of the
    /// source.
    pub access: BadAccess,
    /// File and line of the copy.
    pub source: Option<(String, u32)>,
    /// The thread that copies, in the block of the fault.
    pub thread: Option<[u32; 3]>,
    /// Its source changed before its thread had waited for it; the fault's own place is that of the
    /// wait.
    pub source_changed: bool,
    /// Two lanes of one instruction copy to this place.
    pub at_once: bool,
}

/// Who makes an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// A thread.
    Thread,
    /// A bulk copy (`cp.async.bulk`), for the thread that began it.
    BulkCopy,
    /// A product of a warpgroup (`wgmma`), which reads its operands.
    Product,
}

/// A barrier in shared memory for whose phase a warp waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitedBarrier {
    /// Its array and place in it, if that is known; else its address.
    pub name: String,
    /// Arrivals that the phase has had.
    pub arrived: u32,
    /// Arrivals of each phase.
    pub of: u32,
    /// Bytes that the phase waits for; negative if more have come than were announced.
    pub missing_bytes: i64,
    /// Bytes that the phase was told to expect. `None` without checks, which count them.
    pub expected_bytes: Option<u64>,
    /// Parity of the phase that is not over.
    pub parity: u32,
    /// Warps that wait.
    pub warps: Vec<u32>,
}

/// A register of a product that has not been waited for. The fault's own place is that of the
/// access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterInFlight {
    /// The register.
    pub register: ProductRegister,
    /// It is written; otherwise it is read.
    pub write: bool,
    /// The product is in a group.
    pub committed: bool,
    /// File and line of the product.
    pub product: Option<(String, u32)>,
}

/// A register of a product of a warpgroup, by its place in the list of operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductRegister {
    /// Of D.
    Accumulator(u32),
    /// Of A.
    Fragment(u32),
}

/// The earlier side of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceSide {
    /// It wrote; otherwise it read.
    pub write: bool,
    /// Who made the access.
    pub by: Agent,
    /// File and line.
    pub source: Option<(String, u32)>,
    /// Its block; `None` if several.
    pub block: Option<[u32; 3]>,
    /// Its thread; `None` if several.
    pub thread: Option<[u32; 3]>,
}

/// An allocation or array at or near an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// Number of the allocation, counted from the start of the program; `None` for shared or local
    /// memory.
    pub id: Option<u64>,
    /// Name in the program: a shared array's, or `argument 0` of the kernel.
    pub name: Option<String>,
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// An address at most so many bytes from an allocation is near it.
const NEAR: i64 = 64 << 10;

impl Nearest {
    /// Bytes from an address to the start; negative behind it.
    pub(crate) fn distance_from(&self, address: u64) -> i64 {
        self.start.wrapping_sub(address) as i64
    }

    /// The address is near, on either side, or within.
    pub(crate) fn is_near(&self, address: u64) -> bool {
        let past_end = (self.bytes as i64).saturating_add(NEAR);
        (-past_end..=NEAR).contains(&self.distance_from(address))
    }

    /// The address is near and before the start.
    pub(crate) fn is_close_behind(&self, address: u64) -> bool {
        (1..=NEAR).contains(&self.distance_from(address))
    }
}

impl Fault {
    /// The source lines that it names, file and number: its own, that of the other side of a race
    /// or of what is in flight, that of a barrier which threads have missed.
    pub fn places(&self) -> Vec<&(String, u32)> {
        let other = match &self.kind {
            FaultKind::DivergentBarrier { other }
            | FaultKind::DifferentBarriers { other }
            | FaultKind::WarpgroupOutOfStep { other, .. } => other.as_ref(),
            FaultKind::Race(race) | FaultKind::MissingProxyFence(race) => {
                race.other.source.as_ref()
            }
            FaultKind::UninitialisedRead(read) => read.loaded.as_ref(),
            FaultKind::UnfinishedCopy(copy) => copy.source.as_ref(),
            FaultKind::ProductInFlight(register) => register.product.as_ref(),
            FaultKind::MissingProductFence { access, .. } => access.as_ref(),
            _ => None,
        };
        let missed = match &self.missing {
            Some(MissingThreads::Past(barrier)) => barrier.as_ref(),
            _ => None,
        };
        let places = self.source.iter().chain(other).chain(missed);
        let mut places: Vec<&(String, u32)> = places.collect();
        places.dedup();
        places
    }

    /// The CUDA error that a GPU would report (values of `CUresult`).
    pub fn cuda_error(&self) -> u32 {
        match self.kind {
            // CUDA_ERROR_ILLEGAL_ADDRESS
            FaultKind::OutOfBounds(_)
            | FaultKind::TensorOutOfBounds(_)
            | FaultKind::UseAfterFree(_) => 700,
            FaultKind::Misaligned(_) => 716, // CUDA_ERROR_MISALIGNED_ADDRESS
            FaultKind::Runaway { .. }
            | FaultKind::LongLaunch { .. }
            | FaultKind::GridDeadlock { .. } => 702, // CUDA_ERROR_LAUNCH_TIMEOUT
            FaultKind::BadBranch { .. } | FaultKind::BadCall { .. } => 718, // CUDA_ERROR_INVALID_PC
            // CUDA_ERROR_ILLEGAL_INSTRUCTION
            FaultKind::UnknownInstruction { .. }
            | FaultKind::UnknownCall { .. }
            | FaultKind::BadBulkCopy { .. } => 715,
            FaultKind::Assertion { .. } => 710, // CUDA_ERROR_ASSERT
            FaultKind::Trap
            | FaultKind::UninitialisedRead(_)
            | FaultKind::UninitialisedRegister
            | FaultKind::Race(_)
            | FaultKind::MissingProxyFence(_)
            | FaultKind::UnfinishedBulkCopy
            | FaultKind::UnfinishedCopy(_)
            | FaultKind::InactiveLane { .. }
            | FaultKind::DivergentBarrier { .. }
            | FaultKind::DifferentBarriers { .. }
            | FaultKind::MissingLanes { .. }
            | FaultKind::DifferentMasks { .. }
            | FaultKind::Deadlock { .. }
            | FaultKind::RegistersExhausted { .. }
            | FaultKind::BadRegisterCount { .. }
            | FaultKind::BadCluster { .. }
            | FaultKind::WarpgroupOutOfStep { .. }
            | FaultKind::BadDescriptor { .. }
            | FaultKind::ProductInFlight(_)
            | FaultKind::MissingProductFence { .. }
            | FaultKind::BadMbarrier { .. }
            | FaultKind::BadBarrier { .. } => 719, // CUDA_ERROR_LAUNCH_FAILED
        }
    }
}
