//! The trace of a launch.

use super::AccessKind;

/// Steps of one warp of a launch at the selected lines.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LaunchTrace {
    /// Kernel name in PTX.
    pub kernel: String,
    /// Blocks (x, y, z).
    pub grid: [u32; 3],
    /// Threads per block (x, y, z).
    pub threads: [u32; 3],
    /// Index of the block.
    pub block: [u32; 3],
    /// Number of the warp in its block.
    pub warp: u32,
    /// The shared arrays of the kernel, then what else was accessed, in the order of the first
    /// accesses.
    pub arrays: Vec<Array>,
    /// Steps of the warp, in order.
    pub steps: Vec<Step>,
    /// Steps that are not in `steps`, because there are more than
    /// [`Selection::steps`](super::Selection::steps), or because shared memory changed too often.
    pub left_out: u64,
}

/// An array, or an allocation of device memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Name of a shared array in the source; `argument 2` for device memory that an argument points
    /// into, or else `allocation #7`.
    pub name: String,
    /// The memory that it lies in.
    pub space: Space,
    /// Size in bytes.
    pub bytes: u64,
    /// Type of its elements, of those in [`Access::ty`]: a floating-point type if it was accessed
    /// as one, otherwise that of the first access; `u32` if there was none.
    pub ty: &'static str,
    /// First byte in the block's shared memory; 0 in other memories.
    pub start: u64,
}

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Device memory.
    Global,
    /// Shared memory of the block.
    Shared,
    /// Memory of one thread, for arrays that do not fit in registers.
    Local,
}

/// Instructions of one source line that the warp ran in a row, with the same lanes.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// File, as the compiler saw it, without the virtual root `/k/`; empty for instructions without
    /// a line.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Lanes that run the line, a bit each. The others are elsewhere, or have left the kernel.
    pub active: u32,
    /// The warp waits at a barrier of the block here.
    pub barrier: bool,
    /// Loads, stores and atomic operations, in order. Loads of parameters are left out. An
    /// asynchronous copy is a load, then a store.
    pub accesses: Vec<Access>,
    /// Words of shared memory that differ at the begin of this step from the end of the step
    /// before, because of other warps or of lines that are not recorded. At the first step: all
    /// that have been written.
    pub before: Vec<Word>,
    /// Words of shared memory that this step wrote and that hold something else now.
    pub after: Vec<Word>,
}

/// A word of a shared array. What nobody has written has no word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Index in [`LaunchTrace::arrays`].
    pub array: usize,
    /// Index of the word in the array, of 4 bytes each.
    pub index: u64,
    /// Value, as bits.
    pub bits: u32,
}

/// One memory instruction, or of one with generic addresses the lanes that access one kind of
/// memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// Number of the memory instruction in its kernel.
    pub instruction: u32,
    /// Kind of the access.
    pub kind: AccessKind,
    /// The memory.
    pub space: Space,
    /// Type of an element: `u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64`. Untyped bits count as
    /// unsigned.
    pub ty: &'static str,
    /// Elements of each lane: 1, 2 or 4.
    pub elements: u32,
    /// Bytes of each lane.
    pub bytes: u32,
    /// The lanes that make it, in order.
    pub lanes: Vec<Lane>,
    /// Sectors of 32 bytes that it touches, in global or local memory; 0 in shared memory.
    pub sectors: u64,
    /// Groups of lanes that shared memory serves one after the other; none in other memories.
    pub passes: Vec<Pass>,
}

/// Access of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// Its number, from 0 to 31.
    pub lane: u32,
    /// Index in [`LaunchTrace::arrays`].
    pub array: usize,
    /// First byte that it accesses, counted from the begin of the array.
    pub offset: u64,
    /// In shared memory, the bank of its first word; in global memory, the sector of its first
    /// byte, counted from that which holds the begin of the array; in local memory 0.
    pub place: u64,
    /// The elements, as bits: what is loaded or stored, or, of an atomic operation, what was there
    /// before any lane changed it. The load of an asynchronous copy has only the elements that it
    /// reads; a lane that reads none is left out. A load of matrices (`ldmatrix`) has the row whose
    /// address the lane has, in its first lanes.
    pub values: Vec<u64>,
}

/// Lanes that shared memory serves together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// The lanes, a bit each.
    pub lanes: u32,
    /// Wavefronts: 1 without bank conflicts.
    pub wavefronts: u32,
}

impl Access {
    /// Wavefronts of shared memory; 0 in other memories.
    pub fn wavefronts(&self) -> u32 {
        self.passes.iter().map(|pass| pass.wavefronts).sum()
    }
}
