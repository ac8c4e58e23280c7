//! Class of an operation: the part of a multiprocessor that it keeps busy, and the arithmetic that it does.

use super::arithmetic::{FloatUnary, Type};
use super::half::HalfOp;
use super::memory::MemorySpace;
use super::operation::Op;

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
    /// Loads, stores and atomics of shared memory.
    Shared,
    /// Loads, stores and atomics of local memory.
    Local,
    /// Loads of kernel parameters.
    Parameter,
    /// Asynchronous copies to shared memory, their groups and waits.
    Copy,
    /// Shuffles, votes, `__syncwarp`.
    Warp,
    /// Block barriers and fences.
    Barrier,
    /// Branches, exits, calls.
    Control,
    /// All other instructions.
    Other,
}

impl Class {
    /// All of them, in the order of [`Counters::classes`](crate::Counters::classes).
    pub const ALL: [Class; 17] = [
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
        Class::Copy,
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
            Class::Copy => "async copy",
            Class::Warp => "warp",
            Class::Barrier => "barrier",
            Class::Control => "control",
            Class::Other => "other",
        }
    }
}

impl Op {
    /// Its class. Generic accesses count as global.
    pub(crate) fn class(&self) -> Class {
        let float = |wide: bool, class: Class| if wide { Class::Float64 } else { class };
        let of_space = |space: MemorySpace| match space {
            MemorySpace::Generic | MemorySpace::Global => Class::Global,
            MemorySpace::Shared => Class::Shared,
            MemorySpace::Local => Class::Local,
            MemorySpace::Param => Class::Parameter,
        };
        let of_type = |ty: Type| match ty {
            Type::F16 | Type::Bf16 => Class::Half,
            Type::F32 => Class::Float32,
            Type::F64 => Class::Float64,
            _ => Class::Integer,
        };
        match self {
            Op::Fma { wide, .. } => float(*wide, Class::Fma32),
            Op::FloatUnary { op, wide, .. } => match op {
                FloatUnary::Neg | FloatUnary::Abs => float(*wide, Class::Float32),
                FloatUnary::Sqrt
                | FloatUnary::Reciprocal
                | FloatUnary::Exp2
                | FloatUnary::Log2
                | FloatUnary::ReciprocalSqrt
                | FloatUnary::Sin
                | FloatUnary::Cos
                | FloatUnary::Tanh => float(*wide, Class::Special),
            },
            Op::FloatBinary { wide, .. } | Op::FloatTest { wide, .. } => {
                float(*wide, Class::Float32)
            }
            Op::Half { op, .. } => match op {
                HalfOp::Exp2 | HalfOp::Tanh => Class::Special,
                _ => Class::Half,
            },
            Op::Compare { ty, .. }
            | Op::ComparePair { ty, .. }
            | Op::ComparePairValue { ty, .. }
            | Op::CompareValue { ty, .. } => of_type(*ty),
            Op::IntUnary { .. }
            | Op::IntBinary { .. }
            | Op::IntTernary { .. }
            | Op::MadWide { .. }
            | Op::Count { .. }
            | Op::Bits { .. }
            | Op::BitExtract { .. }
            | Op::BitInsert { .. }
            | Op::SignExtend { .. }
            | Op::Carry { .. }
            | Op::Cvta { .. }
            | Op::IsSpace { .. }
            | Op::PredicateLogic { .. }
            | Op::PredicateMove { .. } => Class::Integer,
            Op::Move { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::Convert { .. }
            | Op::Narrow { .. }
            | Op::ConvertPair { .. }
            | Op::Select { .. }
            | Op::SelectSign { .. } => Class::Move,
            Op::Load { address, .. } | Op::Store { address, .. } | Op::Atomic { address, .. } => {
                of_space(address.space)
            }
            Op::CopyAsync(_) | Op::CopyCommit | Op::CopyWait { .. } => Class::Copy,
            Op::MatrixProduct(_) => Class::Tensor,
            Op::MatrixLoad(_) => Class::Shared,
            Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Ballot { .. }
            | Op::MatchAny { .. }
            | Op::MatchAll { .. }
            | Op::Reduce { .. }
            | Op::Elect { .. }
            | Op::WarpBarrier { .. }
            | Op::ActiveMask { .. } => Class::Warp,
            Op::Barrier { .. } | Op::Fence { .. } => Class::Barrier,
            Op::Branch { .. } | Op::BranchTable { .. } | Op::Exit | Op::Trap => Class::Control,
            Op::Nothing
            | Op::Yield
            | Op::Clock { .. }
            | Op::Print { .. }
            | Op::AssertFail { .. }
            | Op::Track(_)
            | Op::Unknown { .. } => Class::Other,
        }
    }

    /// Floating-point operations of one lane: two for a fused multiply-add, one for other arithmetic. Comparisons and
    /// conversions are none; atomic additions are counted with their traffic.
    pub(crate) fn flops(&self) -> u64 {
        match self {
            Op::Fma { .. } => 2,
            Op::FloatBinary { .. } => 1,
            // Of 16 × 8 sums, a 32nd.
            Op::MatrixProduct(product) => 8 * product.depth() as u64,
            Op::Half { op, mode, .. } => op.flops() * if mode.pair { 2 } else { 1 },
            Op::FloatUnary { op, .. } => match op {
                FloatUnary::Neg | FloatUnary::Abs => 0,
                FloatUnary::Sqrt
                | FloatUnary::Reciprocal
                | FloatUnary::Exp2
                | FloatUnary::Log2
                | FloatUnary::ReciprocalSqrt
                | FloatUnary::Sin
                | FloatUnary::Cos
                | FloatUnary::Tanh => 1,
            },
            Op::IntUnary { .. }
            | Op::IntBinary { .. }
            | Op::IntTernary { .. }
            | Op::MadWide { .. }
            | Op::Count { .. }
            | Op::Carry { .. }
            | Op::Bits { .. }
            | Op::BitExtract { .. }
            | Op::BitInsert { .. }
            | Op::SignExtend { .. }
            | Op::FloatTest { .. }
            | Op::Move { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::Convert { .. }
            | Op::Narrow { .. }
            | Op::ConvertPair { .. }
            | Op::Select { .. }
            | Op::SelectSign { .. }
            | Op::Cvta { .. }
            | Op::IsSpace { .. }
            | Op::Compare { .. }
            | Op::CompareValue { .. }
            | Op::ComparePair { .. }
            | Op::ComparePairValue { .. }
            | Op::PredicateLogic { .. }
            | Op::PredicateMove { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
            | Op::CopyAsync(_)
            | Op::MatrixLoad(_)
            | Op::CopyCommit
            | Op::CopyWait { .. }
            | Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Ballot { .. }
            | Op::MatchAny { .. }
            | Op::MatchAll { .. }
            | Op::Reduce { .. }
            | Op::Elect { .. }
            | Op::WarpBarrier { .. }
            | Op::ActiveMask { .. }
            | Op::Branch { .. }
            | Op::BranchTable { .. }
            | Op::Exit
            | Op::Barrier { .. }
            | Op::Fence { .. }
            | Op::Nothing
            | Op::Yield
            | Op::Clock { .. }
            | Op::Trap
            | Op::Print { .. }
            | Op::AssertFail { .. }
            | Op::Track(_)
            | Op::Unknown { .. } => 0,
        }
    }

    /// Whether the operation is a block barrier.
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(self, Op::Barrier { .. })
    }

    /// Whether threads of a warp may take different paths here.
    pub(crate) fn is_branch(&self) -> bool {
        matches!(self, Op::Branch { .. } | Op::BranchTable { .. })
    }
}
