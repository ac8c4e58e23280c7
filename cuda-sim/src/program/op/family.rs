//! Families of operations that only change registers. The executor has a file for each.

use super::operation::Op;

/// A module of `exec/operations` that runs operations on registers. The order is that of `Handlers::compute`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Integer,
    Bits,
    Float,
    Data,
    Predicate,
}

impl Op {
    /// Its family; `None` if it does more than change registers.
    pub(crate) fn family(&self) -> Option<Family> {
        match self {
            Op::IntUnary { .. }
            | Op::IntBinary { .. }
            | Op::IntTernary { .. }
            | Op::MadWide { .. }
            | Op::Count { .. }
            | Op::Carry { .. } => Some(Family::Integer),
            Op::Bits { .. }
            | Op::BitExtract { .. }
            | Op::BitInsert { .. }
            | Op::SignExtend { .. } => Some(Family::Bits),
            Op::FloatUnary { .. }
            | Op::FloatBinary { .. }
            | Op::Fma { .. }
            | Op::FloatTest { .. } => Some(Family::Float),
            Op::Move { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::Convert { .. }
            | Op::ConvertPair { .. }
            | Op::Select { .. }
            | Op::SelectSign { .. }
            | Op::Cvta { .. }
            | Op::IsSpace { .. } => Some(Family::Data),
            Op::Compare { .. }
            | Op::CompareValue { .. }
            | Op::PredicateLogic { .. }
            | Op::PredicateMove { .. } => Some(Family::Predicate),
            Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
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
            | Op::Unknown { .. } => None,
        }
    }
}
