//! Which part of a multiprocessor an operation keeps busy, and how much arithmetic it is.

use super::op::{FloatUnary, MemorySpace, Op, Type};
use crate::profile::Class;

impl Op {
    /// The class that the operation is counted under. Generic accesses count as global.
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
            Op::Compare { ty, .. } | Op::CompareValue { ty, .. } => of_type(*ty),
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
            | Op::ConvertPair { .. }
            | Op::Select { .. }
            | Op::SelectSign { .. } => Class::Move,
            Op::Load { address, .. } | Op::Store { address, .. } | Op::Atomic { address, .. } => {
                of_space(address.space)
            }
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

    /// Floating-point operations of one lane: two for a fused multiply-add, one for other arithmetic.
    pub(crate) fn flops(&self) -> u64 {
        match self {
            Op::Fma { .. } => 2,
            Op::FloatBinary { .. } => 1,
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
            _ => 0,
        }
    }

    /// Whether the operation is a block barrier.
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(self, Op::Barrier { .. })
    }

    /// Whether threads of a warp may go different ways here.
    pub(crate) fn is_branch(&self) -> bool {
        matches!(self, Op::Branch { .. } | Op::BranchTable { .. })
    }
}
