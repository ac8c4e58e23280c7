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
    /// More instructions in one warp than the budget allows: most likely an endless loop.
    Runaway {
        /// Instructions that one warp may run.
        budget: u64,
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
    /// A `.sync` operation names lanes that never arrive, or is run by a lane that it does not name.
    MissingLanes {
        /// The mask of the operation.
        members: u32,
        /// Lanes that are there.
        present: u32,
    },
    /// All warps of the block wait for each other.
    Deadlock,
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
    /// `global`, `shared`, `local` or `parameter` memory.
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

/// An allocation near an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// Number of the allocation, counted from the start of the program; `None` for shared or local memory.
    pub id: Option<u64>,
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
            FaultKind::Runaway { .. } => 702, // CUDA_ERROR_LAUNCH_TIMEOUT
            FaultKind::UnknownInstruction { .. } => 715, // CUDA_ERROR_ILLEGAL_INSTRUCTION
            FaultKind::Assertion { .. } => 710, // CUDA_ERROR_ASSERT
            FaultKind::Trap
            | FaultKind::DivergentBarrier { .. }
            | FaultKind::MissingLanes { .. }
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
        if let FaultKind::OutOfBounds(a) | FaultKind::UseAfterFree(a) | FaultKind::Misaligned(a) =
            &self.kind
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
            FaultKind::Runaway { budget } => write!(
                f,
                "endless loop: one warp ran more than {budget} instructions"
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
            FaultKind::MissingLanes { members, present } => {
                write!(
                    f,
                    "warp operation with mask {members:#010x}, but lanes {present:#010x} are there"
                )
            }
            FaultKind::Deadlock => write!(f, "deadlock: every warp of the block waits"),
            FaultKind::BadBarrier { id, count } => {
                write!(f, "bad barrier: number {id}, thread count {count}")
            }
        }
    }
}

impl FaultKind {
    /// One sentence on how this usually comes about.
    fn usual_cause(&self) -> &'static str {
        match self {
            FaultKind::OutOfBounds(_) => {
                "an index is not tested against the size; look at the last block and at ragged sizes"
            }
            FaultKind::UseAfterFree(_) => {
                "the host dropped the buffer, or kept its address, before this launch"
            }
            FaultKind::Misaligned(_) => {
                "a vector load or a cast pointer needs an address that is a multiple of its size"
            }
            FaultKind::Runaway { .. } => {
                "a loop whose condition never changes, or threads that wait for one that cannot run; raise CUDA_SIM_BUDGET if the kernel is just long"
            }
            FaultKind::UnknownInstruction { .. } => {
                "the kernel uses a feature that is not simulated; it may run on a GPU"
            }
            FaultKind::Trap => "the kernel asked for it: __trap() or an unreachable place",
            FaultKind::Assertion { .. } => "the condition in the kernel's assert was false",
            FaultKind::DivergentBarrier { .. } => {
                "__syncthreads() inside a branch or loop that not all threads of the block take alike"
            }
            FaultKind::MissingLanes { .. } => {
                "the mask names lanes that took another branch or left; compute it before the branch"
            }
            FaultKind::Deadlock => {
                "warps wait at barriers with different numbers or counts, or one warp left before its barrier"
            }
            FaultKind::BadBarrier { .. } => {
                "barrier numbers go from 0 to 15, and a count is a multiple of 32 that all warps agree on"
            }
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
        let name = match near.id {
            Some(id) => format!(
                "allocation #{id} ({} bytes at {:#x})",
                near.bytes, near.start
            ),
            None => format!("the {} bytes of {} memory", near.bytes, self.0.space),
        };
        if address < near.start {
            write!(f, "{} bytes before {name}", near.start - address)
        } else if address >= end {
            write!(f, "{} bytes past the end of {name}", address - end)
        } else {
            write!(f, "byte {} of {name}", address - near.start)
        }
    }
}
