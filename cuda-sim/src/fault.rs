//! What went wrong in a kernel, and where.

use std::fmt;

/// A kernel did something that a GPU forbids, or that it cannot do here. The launch ends; later launches work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
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
}

/// The kinds of fault, with what each needs to be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside every allocation, array or window.
    OutOfBounds(BadAccess),
    /// An access to device memory that was freed.
    UseAfterFree(BadAccess),
    /// An address that is not a multiple of the access size.
    Misaligned(BadAccess),
    /// A load of bytes that nobody wrote.
    UninitialisedRead(BadAccess),
    /// A register that is used before anything is assigned to it.
    UninitialisedRegister,
    /// Two accesses to the same bytes that nothing orders, at least one of them a write.
    Race(Race),
    /// A shuffle that reads a lane that does not take part in it.
    InactiveLane {
        /// The lane that is read.
        source: u32,
        /// Lanes that take part.
        active: u32,
    },
    /// More instructions in one warp than the budget allows: most likely an endless loop.
    Runaway {
        /// Instructions that one warp may run.
        budget: u64,
    },
    /// More instructions in all warps of the launch together than its budget allows.
    LongLaunch {
        /// Instructions that the launch may run.
        budget: u64,
    },
    /// A branch by index (`brx.idx`) beyond its table of targets.
    BadBranch {
        /// The index.
        index: u32,
        /// Targets in the table.
        targets: u32,
    },
    /// An instruction that the simulator does not know.
    UnknownInstruction {
        /// Opcode and PTX line.
        text: String,
    },
    /// The kernel ran `trap`.
    Trap,
    /// A device `assert` failed.
    Assertion {
        /// The failed condition.
        message: String,
        /// File and line as compiled.
        place: String,
    },
    /// Threads of one warp wait at different barriers, or some wait at a barrier and others elsewhere.
    DivergentBarrier {
        /// Where the other threads are.
        other: Option<(String, u32)>,
    },
    /// Warps of one block have met at different `__syncthreads()`, and are out of step since.
    DifferentBarriers {
        /// The other one of those at which they have met.
        other: Option<(String, u32)>,
    },
    /// A `.sync` operation names lanes that never arrive, or is run by a lane that it does not name.
    MissingLanes {
        /// The mask of the operation.
        members: u32,
        /// Lanes that are there.
        present: u32,
    },
    /// Lanes that run one `.sync` operation together pass different masks.
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
    Deadlock,
    /// Blocks wait for blocks that cannot start: the device holds no more at the same time.
    GridDeadlock {
        /// Blocks that are on the device, all of which wait.
        resident: u64,
        /// Blocks that have not started.
        left: u64,
    },
    /// A barrier number above 15, a count that is not a multiple of 32, or counts that differ.
    BadBarrier {
        /// Barrier number.
        id: u32,
        /// Thread count asked for.
        count: u32,
    },
}

/// One bad memory access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAccess {
    /// `global`, `shared`, `local` or `parameter`.
    pub space: &'static str,
    /// Store or atomic; otherwise a load.
    pub write: bool,
    /// Address within the space.
    pub address: u64,
    /// Bytes of the access.
    pub bytes: u32,
    /// The allocation that holds or is nearest to the address, or the array's size.
    pub nearest: Option<Nearest>,
}

/// Two accesses that nothing orders. The fault's own place is that of the later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// The later access.
    pub access: BadAccess,
    /// The earlier access.
    pub other: RaceSide,
    /// They are one store of a warp: its threads store different values to one place.
    pub at_once: bool,
    /// They are accesses of one block.
    pub within_block: bool,
}

/// The earlier side of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceSide {
    /// It wrote; otherwise it read.
    pub write: bool,
    /// File and line.
    pub source: Option<(String, u32)>,
    /// Its block; `None` if several.
    pub block: Option<[u32; 3]>,
    /// Its thread; `None` if several.
    pub thread: Option<[u32; 3]>,
}

/// An allocation near an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// Number of the allocation, counted from the start of the program; `None` for shared or local memory.
    pub id: Option<u64>,
    /// What the program calls it: a shared array's name, `argument 0` of the kernel.
    pub name: Option<String>,
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl Fault {
    /// The CUDA error that a GPU would report (values of `CUresult`).
    pub fn cuda_error(&self) -> u32 {
        match self.kind {
            FaultKind::OutOfBounds(_) | FaultKind::UseAfterFree(_) => 700, // CUDA_ERROR_ILLEGAL_ADDRESS
            FaultKind::Misaligned(_) => 716, // CUDA_ERROR_MISALIGNED_ADDRESS
            FaultKind::Runaway { .. }
            | FaultKind::LongLaunch { .. }
            | FaultKind::GridDeadlock { .. } => 702, // CUDA_ERROR_LAUNCH_TIMEOUT
            FaultKind::BadBranch { .. } => 718, // CUDA_ERROR_INVALID_PC
            FaultKind::UnknownInstruction { .. } => 715, // CUDA_ERROR_ILLEGAL_INSTRUCTION
            FaultKind::Assertion { .. } => 710, // CUDA_ERROR_ASSERT
            FaultKind::Trap
            | FaultKind::UninitialisedRead(_)
            | FaultKind::UninitialisedRegister
            | FaultKind::Race(_)
            | FaultKind::InactiveLane { .. }
            | FaultKind::DivergentBarrier { .. }
            | FaultKind::DifferentBarriers { .. }
            | FaultKind::MissingLanes { .. }
            | FaultKind::DifferentMasks { .. }
            | FaultKind::Deadlock
            | FaultKind::BadBarrier { .. } => 719, // CUDA_ERROR_LAUNCH_FAILED
        }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.kind)?;
        writeln!(f, "  kernel  {}", self.kernel)?;
        match &self.source {
            Some((file, line)) => writeln!(f, "  source  {file}:{line}")?,
            None => writeln!(f, "  source  unknown: the PTX has no line information")?,
        }
        let [bx, by, bz] = self.block;
        let [tx, ty, tz] = self.thread;
        write!(f, "  block   ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})")?;
        if self.lanes.count_ones() > 1 {
            write!(
                f,
                ", in a warp with {} active threads",
                self.lanes.count_ones()
            )?;
        }
        if let FaultKind::Race(race) = &self.kind {
            write!(f, "\n  other   {}", race.other)?;
        }
        if let FaultKind::OutOfBounds(a)
        | FaultKind::UseAfterFree(a)
        | FaultKind::Misaligned(a)
        | FaultKind::UninitialisedRead(a)
        | FaultKind::Race(Race { access: a, .. }) = &self.kind
        {
            write!(f, "\n  memory  {}", Place(a))?;
        }
        write!(f, "\n  cause   {}", self.kind.usual_cause())
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::OutOfBounds(a) => write!(f, "out-of-bounds {a}"),
            FaultKind::UseAfterFree(a) => write!(f, "use of freed memory: {a}"),
            FaultKind::Misaligned(a) => write!(f, "misaligned {a}"),
            FaultKind::UninitialisedRead(a) => write!(f, "read of memory that nobody wrote: {a}"),
            FaultKind::UninitialisedRegister => write!(f, "use of a variable that was never set"),
            FaultKind::Race(race) => {
                let first = if race.other.write { "write" } else { "read" };
                write!(
                    f,
                    "race: {}, and an earlier {first} that nothing orders",
                    race.access
                )
            }
            FaultKind::InactiveLane { source, active } => write!(
                f,
                "shuffle reads lane {source}, but only lanes {active:#010x} take part"
            ),
            FaultKind::Runaway { budget } => write!(
                f,
                "endless loop: one warp ran more than {budget} instructions"
            ),
            FaultKind::LongLaunch { budget } => write!(
                f,
                "long launch: its warps ran more than {budget} instructions together"
            ),
            FaultKind::BadBranch { index, targets } => write!(
                f,
                "bad branch: index {index} into a table of {targets} targets"
            ),
            FaultKind::UnknownInstruction { text } => {
                write!(f, "the simulator does not know the instruction {text}")
            }
            FaultKind::Trap => write!(f, "the kernel ran a trap instruction"),
            FaultKind::Assertion { message, place } => {
                write!(f, "assertion failed: {message} ({place})")
            }
            FaultKind::DivergentBarrier {
                other: Some((file, line)),
            } => {
                write!(
                    f,
                    "divergent barrier: other threads of the warp wait at {file}:{line}"
                )
            }
            FaultKind::DivergentBarrier { other: None } => {
                write!(
                    f,
                    "divergent barrier: other threads of the warp wait elsewhere"
                )
            }
            FaultKind::DifferentBarriers { other } => {
                write!(
                    f,
                    "different barriers: the warps of the block are out of step, since this one met that at "
                )?;
                match other {
                    Some((file, line)) => write!(f, "{file}:{line}"),
                    None => write!(f, "another place"),
                }
            }
            FaultKind::MissingLanes { members, present } => {
                write!(
                    f,
                    "warp operation with mask {members:#010x}, but lanes {present:#010x} are there"
                )
            }
            FaultKind::DifferentMasks {
                lane,
                members,
                other,
                other_members,
            } => write!(
                f,
                "warp operation with different masks: lane {lane} names {members:#010x}, lane {other} names {other_members:#010x}"
            ),
            FaultKind::Deadlock => write!(f, "deadlock: every warp of the block waits"),
            FaultKind::GridDeadlock { resident, left } => write!(
                f,
                "deadlock: the {resident} blocks that fit on the device wait, and {left} others cannot start"
            ),
            FaultKind::BadBarrier { id, count } => {
                write!(f, "bad barrier: number {id}, thread count {count}")
            }
        }
    }
}

/// Addresses below this are no pointers: nothing is ever allocated there.
const NO_POINTER: u64 = 64 << 10;

impl FaultKind {
    /// One sentence on how this usually comes about.
    fn usual_cause(&self) -> &'static str {
        match self {
            FaultKind::OutOfBounds(a) if a.space == "global" && a.address < NO_POINTER => {
                "a null pointer, or a number where the kernel takes an address; look at the arguments"
            }
            FaultKind::OutOfBounds(_) => {
                "an index is not tested against the size; look at the last block and at ragged sizes"
            }
            FaultKind::UseAfterFree(_) => {
                "the host dropped the buffer, or kept its address, before this launch"
            }
            FaultKind::Misaligned(_) => {
                "a vector load or a cast pointer needs an address that is a multiple of its size"
            }
            FaultKind::UninitialisedRead(a) if a.space == "global" => {
                "the buffer was allocated and not filled, or not all of it; alloc_zeros or a copy fills it"
            }
            FaultKind::UninitialisedRead(a) if a.space == "shared" => {
                "the threads did not fill the whole tile (ragged edges), or another warp fills it and no barrier lies between"
            }
            FaultKind::UninitialisedRead(_) => "an array of a thread is read where it was not set",
            FaultKind::UninitialisedRegister => {
                "a variable is set in one branch and used after another"
            }
            FaultKind::Race(race) if race.at_once => {
                "threads of one warp store different values to one place: use an atomic, or give each its own"
            }
            FaultKind::Race(race) if race.within_block => {
                "a __syncthreads() is missing between the two accesses (within a warp, a __syncwarp())"
            }
            FaultKind::Race(_) => {
                "blocks run in any order: use atomics, give each its own part, or split the kernel in two"
            }
            FaultKind::InactiveLane { .. } => {
                "the source lane took another branch, left, or is not in the mask; its value is undefined"
            }
            FaultKind::Runaway { .. } => {
                "a loop whose condition never changes, or threads that wait for one that cannot run; raise CUDA_SIM_BUDGET if the kernel is just long"
            }
            FaultKind::LongLaunch { .. } => {
                "a loop that runs too long in many blocks; raise CUDA_SIM_LAUNCH_BUDGET if there is just much to do"
            }
            FaultKind::BadBranch { .. } => {
                "a switch in PTX must compare its index with the number of targets before it branches"
            }
            FaultKind::UnknownInstruction { .. } => {
                "the kernel uses a feature that is not simulated; it may run on a GPU"
            }
            FaultKind::Trap => "the kernel asked for it: __trap() or an unreachable place",
            FaultKind::Assertion { .. } => "the condition in the kernel's assert was false",
            FaultKind::DifferentBarriers { .. } => {
                "some warps come to a __syncthreads() that others leave out: it stands in a branch or loop that not all warps take alike"
            }
            FaultKind::DivergentBarrier { .. } => {
                "__syncthreads() inside a branch or loop that not all threads of the block take alike"
            }
            FaultKind::MissingLanes { .. } => {
                "the mask names lanes that took another branch or left; compute it before the branch"
            }
            FaultKind::DifferentMasks { .. } => {
                "all lanes that a mask names must pass that mask; compute it for all of them alike"
            }
            FaultKind::Deadlock => {
                "warps wait at barriers with different numbers or counts, or one warp left before its barrier"
            }
            FaultKind::GridDeadlock { .. } => {
                "blocks wait for others, and not all of the grid fits on the device at once; launch no more blocks than the occupancy allows"
            }
            FaultKind::BadBarrier { .. } => {
                "barrier numbers go from 0 to 15, and a count is a multiple of 32 that all warps agree on"
            }
        }
    }
}

impl fmt::Display for RaceSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.write { "write" } else { "read" };
        match &self.source {
            Some((file, line)) => write!(f, "{what} at {file}:{line}")?,
            None => write!(f, "{what} at an unknown line")?,
        }
        match self.block {
            Some([x, y, z]) => write!(f, ", block ({x}, {y}, {z})")?,
            None => write!(f, ", several blocks")?,
        }
        match self.thread {
            Some([x, y, z]) => write!(f, ", thread ({x}, {y}, {z})"),
            None => write!(f, ", several threads"),
        }
    }
}

impl fmt::Display for BadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.write { "store" } else { "load" };
        write!(
            f,
            "{what} of {} bytes at {:#x} in {} memory",
            self.bytes, self.address, self.space
        )
    }
}

/// Where an address lies with respect to the nearest allocation.
struct Place<'a>(&'a BadAccess);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(near) = &self.0.nearest else {
            return write!(f, "no allocation is near this address");
        };
        let address = self.0.address;
        let end = near.start + near.bytes;
        let name = match (near.id, &near.name) {
            (Some(id), Some(name)) => {
                format!(
                    "{name}, allocation #{id} ({} bytes at {:#x})",
                    near.bytes, near.start
                )
            }
            (Some(id), None) => {
                format!(
                    "allocation #{id} ({} bytes at {:#x})",
                    near.bytes, near.start
                )
            }
            (None, Some(name)) => format!("shared array {name} ({} bytes)", near.bytes),
            (None, None) => format!("the {} bytes of {} memory", near.bytes, self.0.space),
        };
        let bytes = u64::from(self.0.bytes.max(1));
        // An address below 0 is a large one.
        let before = near.start.wrapping_sub(address) as i64;
        if before > 0 {
            write!(f, "{before} bytes before {name}")
        } else if address >= end {
            write!(f, "{} bytes past the end of {name}", address - end)
        } else {
            let offset = address - near.start;
            match &near.name {
                Some(short) if offset.is_multiple_of(bytes) => write!(
                    f,
                    "{short}[{}] in elements of {bytes} bytes, byte {offset} of {name}",
                    offset / bytes
                ),
                _ => write!(f, "byte {offset} of {name}"),
            }
        }
    }
}
