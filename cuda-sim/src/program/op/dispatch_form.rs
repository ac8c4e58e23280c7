//! Handler forms of operations on registers: one for each frequent operation, one per family for
//! all others.
//!
//! The executor has a function for each form and instruction set: the code of the family, compiled
//! for the operations of that form alone. One call runs an operation, without a further match.

use super::arithmetic::{
    Comparison, FloatBinary, FloatMode, FloatUnary, IntBinary, IntTernary, Type,
};
use super::operation::{Op, between_lanes, matrix_operations, warp_operations};

/// Calls a macro with the given tokens and all forms: the operations that have it, the family (a
/// module of `exec`), and its name. The first form that matches an operation is its form.
macro_rules! with_forms {
    ($then:ident $($given:tt)*) => {
        $then! {
            $($given)*
            Op::FloatBinary { op: FloatBinary::Add, wide: false, mode: FloatMode::PLAIN, .. } => float::AddFloat;
            Op::FloatBinary { op: FloatBinary::Sub, wide: false, mode: FloatMode::PLAIN, .. } => float::SubFloat;
            Op::FloatBinary { op: FloatBinary::Mul, wide: false, mode: FloatMode::PLAIN, .. } => float::MulFloat;
            Op::FloatBinary { op: FloatBinary::Max, wide: false, mode: FloatMode::PLAIN, .. } => float::MaxFloat;
            Op::Fma { wide: false, mode: FloatMode::PLAIN, .. } => float::Fma;
            Op::FloatUnary { op: FloatUnary::Exp2, wide: false, mode: FloatMode::PLAIN, .. } => float::Exp2;
            Op::IntBinary { op: IntBinary::Add, ty: Type::U32 | Type::S32, .. } => integer::Add;
            Op::IntBinary { op: IntBinary::Add, ty: Type::U64 | Type::S64, .. } => integer::AddWide;
            Op::IntBinary { op: IntBinary::And, ty: Type::U32 | Type::S32, .. } => integer::And;
            Op::IntBinary { op: IntBinary::ShiftLeft, ty: Type::U32 | Type::S32, .. } => integer::ShiftLeft;
            Op::IntTernary { op: IntTernary::MadLow, ty: Type::U32 | Type::S32, .. } => integer::MadLow;
            Op::Move { wide: false, .. } => data::Move;
            Op::Move { wide: true, .. } => data::MoveWide;
            Op::Compare { op: Comparison::Lt, ty: Type::S32, q: None, with: None, .. } => predicate::Less;
            Op::Compare { op: Comparison::Ge, ty: Type::S32, q: None, with: None, .. } => predicate::AtLeast;
            Op::Compare { op: Comparison::Ne, ty: Type::S32, q: None, with: None, .. } => predicate::Differs;
            Op::IntUnary { .. } | Op::IntBinary { .. } | Op::IntTernary { .. } | Op::MadWide { .. } | Op::Count { .. }
                | Op::Carry { .. } => integer::OtherInteger;
            Op::Bits { .. } | Op::BitExtract { .. } | Op::BitInsert { .. } | Op::SignExtend { .. } => bits::AnyBits;
            Op::FloatUnary { .. } | Op::FloatBinary { .. } | Op::Fma { .. } | Op::FloatTest { .. } => float::OtherFloat;
            Op::Half { .. } | Op::Narrow { .. } | Op::ConvertPair { .. } | Op::ConvertBytes { .. } => half::AnyHalf;
            Op::Pack { .. } | Op::Unpack { .. } | Op::Convert { .. } | Op::Select { .. }
                | Op::SelectSign { .. } | Op::Cvta { .. } | Op::IsSpace { .. } => data::OtherData;
            Op::Compare { .. } | Op::CompareValue { .. } | Op::ComparePair { .. } | Op::ComparePairValue { .. }
                | Op::PredicateLogic { .. } | Op::PredicateMove { .. } => predicate::OtherPredicate;
        }
    };
}
pub(crate) use with_forms;

macro_rules! define_forms {
    ($($pattern:pat => $family:ident::$name:ident;)*) => {
        /// Handler form of an operation on registers alone.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Form { $($name,)* }

        impl Form {
            pub(crate) const COUNT: usize = [$(Form::$name),*].len();
        }

        impl Op {
            /// Its form; `None` if it does more than change registers.
            pub(crate) fn form(&self) -> Option<Form> {
                match self {
                    $($pattern => Some(Form::$name),)*
                    between_lanes!()
                    | Op::Load { .. }
                    | Op::Store { .. }
                    | Op::Atomic { .. }
                    | Op::CopyAsync(_)
                    | Op::BulkCopy(_)
                    | matrix_operations!()
                    | Op::WarpgroupProduct(_)
                    | Op::Mbarrier(_)
                    | warp_operations!() => None,
                }
            }

            /// All forms whose functions can run it.
            #[cfg(test)]
            pub(crate) fn forms(&self) -> Vec<Form> {
                let mut forms = Vec::new();
                $(if matches!(self, $pattern) {
                    forms.push(Form::$name);
                })*
                forms
            }
        }
    };
}
with_forms!(define_forms);
