//! A decoded kernel, ready to run.

use std::sync::Arc;

use super::analysis::joined_loads::Join;
use super::analysis::latency::Latency;
use super::analysis::phases::Phases;
use super::instruction::{Constant, Instruction};
use super::op::{Flow, R, Special};
use super::ptxas_report::Resources;
use crate::device::{MAX_THREADS_PER_BLOCK, REGISTERS, WARP_SIZE};
use crate::exec::register_pool::STEP;
use crate::fault::FaultKind;
use crate::ptx::SourceLine;
use crate::settings::device;

/// A kernel, ready to run.
#[derive(Debug)]
pub struct Kernel {
    /// Name in PTX.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Bytes of the parameter block.
    pub param_bytes: usize,
    /// Static shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// Local memory per thread, in bytes.
    pub local_bytes: u32,
    /// Threads per block that the kernel was compiled for (`__launch_bounds__`), at most 1024.
    pub max_threads: u32,
    /// The compiler knows with how many registers threads start: `setmaxnreg` has an effect.
    pub(crate) bounds_registers: bool,
    /// Blocks of a cluster that the kernel was compiled for (`__cluster_dims__`).
    pub cluster: Option<[u32; 3]>,
    /// True if its threads may meet those of other blocks of their cluster, or access their memory.
    pub(crate) uses_clusters: bool,
    /// The compiler's report for the simulated device.
    pub(crate) resources: Option<Resources>,
    pub(crate) code: Vec<Instruction>,
    /// By instruction: the one that it is counted with; `None` if it is not counted.
    pub(crate) counted_at: Vec<Option<u32>>,
    /// Source line of each instruction.
    pub(crate) source: Vec<SourceLine>,
    pub(crate) files: Arc<Vec<(u32, String)>>,
    /// Registers with a value that no instruction writes.
    pub(crate) constants: Vec<(R, Constant)>,
    pub(crate) specials: Vec<(R, Special)>,
    /// 32-lane planes per warp.
    pub(crate) planes: u32,
    /// Number of first planes that hold `constants` and `specials`.
    pub(crate) pinned_planes: u32,
    pub(crate) predicates: u32,
    pub(crate) branch_tables: Vec<Vec<u32>>,
    /// By number of a product of a warpgroup: its accumulators.
    pub(crate) accumulators: Vec<Vec<R>>,
    /// By plane: whether it holds an operand of such a product, or a copy of one. Empty if the
    /// kernel has no such products.
    pub(crate) product_registers: Vec<bool>,
    /// Faults of threads at unknown operations.
    pub(crate) unsupported: Vec<Unsupported>,
    /// Number of registers that may be used unset.
    pub(crate) tracked: u32,
    /// Flow of unset bytes through operations.
    pub(crate) flows: Vec<Flow>,
    /// Number of memory accesses.
    pub(crate) sites: u32,
    /// For each, the first one of its stretch that has the same base register, if it is another
    /// one.
    pub(crate) leaders: Vec<Option<u32>>,
    /// Latency of each basic block, in parts that end at barriers.
    pub(crate) latencies: Vec<Latency>,
    pub(crate) phases: Phases,
    /// By memory access: whether the assembler joins it with others.
    pub(crate) joins: Vec<Join>,
    /// True if a thread may synchronise by a fence, acquire or release.
    pub(crate) has_fences: bool,
    /// True if a thread may wait for the phase of a barrier in shared memory: warps may have roles
    /// then, and take different times.
    pub(crate) has_roles: bool,
    /// True if a thread may change device memory by an atomic operation.
    pub(crate) has_atomics: bool,
    /// True if results may depend on the order of blocks.
    pub(crate) blocks_communicate: bool,
    pub(crate) shared_arrays: Vec<SharedArray>,
    /// By memory access: start and end, in bytes, of the shared array that its addresses are
    /// computed from; `None` if it is not known.
    pub(crate) arrays: Vec<Option<(u64, u64)>>,
    /// Offset of dynamic shared memory.
    pub(crate) dynamic_shared_offset: u32,
}

/// An instruction or call that a thread must not come to.
#[derive(Debug, Clone)]
pub(crate) enum Unsupported {
    /// An instruction: opcode and PTX line.
    Instruction(String),
    /// A call: the function, and why.
    Call(String),
    /// A call through a pointer to no function with so many parameters.
    Pointed { parameters: usize },
}

impl Unsupported {
    /// The fault of a thread that comes there.
    pub(crate) fn fault(&self) -> FaultKind {
        match self.clone() {
            Unsupported::Instruction(text) => FaultKind::UnknownInstruction { text },
            Unsupported::Call(text) => FaultKind::UnknownCall { text },
            Unsupported::Pointed { parameters } => FaultKind::BadCall { parameters },
        }
    }
}

/// One kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Offset in the parameter block, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub bytes: usize,
    /// Alignment in bytes.
    pub align: usize,
}

/// An array in shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedArray {
    pub name: String,
    /// Offset of its first byte.
    pub start: u64,
    /// Size; `None` for dynamic shared memory, which goes to the end.
    pub bytes: Option<u64>,
}

/// A place in a kernel's source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    pub file: String,
    pub line: u32,
}

impl Kernel {
    /// Registers per thread; 0 if the compiler's report is missing.
    pub(crate) fn registers(&self) -> u32 {
        self.resources.map_or(0, |resources| resources.registers)
    }

    /// Maximum threads per block, by its `__launch_bounds__` and the device.
    pub(crate) fn bound(&self) -> u32 {
        match self.max_threads {
            0 => MAX_THREADS_PER_BLOCK,
            bound => bound.min(MAX_THREADS_PER_BLOCK),
        }
    }

    /// Maximum threads per block, by its registers too.
    pub(crate) fn threads_that_fit(&self) -> u32 {
        self.bound().min(device().max_threads(self.registers()))
    }

    /// Registers per thread with which a block of so many warps starts: of the compiler's report,
    /// or else the most that a block of its bounds may have.
    pub(crate) fn registers_at_launch(&self, warps: usize) -> u32 {
        match self.registers() {
            0 => {
                let threads = self
                    .max_threads
                    .min(warps as u32 * WARP_SIZE)
                    .max(WARP_SIZE);
                (REGISTERS / threads).min(256) / STEP * STEP
            }
            registers => registers.next_multiple_of(STEP),
        }
    }

    /// True if it asks for the workspace of `grid.sync()`.
    pub(crate) fn uses_grid_workspace(&self) -> bool {
        let is_half = |special| matches!(special, Special::EnvReg(1 | 2));
        self.specials.iter().any(|&(_, special)| is_half(special))
    }

    /// Name, first byte and size of the shared array that holds an address.
    pub(crate) fn shared_array(&self, address: u64) -> Option<(&str, u64, Option<u64>)> {
        let holds = |array: &&SharedArray| {
            let end = array.bytes.map_or(u64::MAX, |bytes| array.start + bytes);
            (array.start..end).contains(&address)
        };
        let array = self.shared_arrays.iter().find(holds)?;
        Some((&array.name, array.start, array.bytes))
    }

    /// Source place of the instruction at `pc`. The virtual root `/k/` of workspace files is taken
    /// off.
    pub(crate) fn source_of(&self, pc: u32) -> Option<Source> {
        let line = self.source.get(pc as usize).filter(|s| s.line != 0)?;
        let (_, file) = self.files.iter().find(|(number, _)| *number == line.file)?;
        Some(Source {
            file: file.strip_prefix("/k/").unwrap_or(file).to_string(),
            line: line.line,
        })
    }
}
