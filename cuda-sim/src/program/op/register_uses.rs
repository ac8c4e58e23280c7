//! Registers that an operation reads and writes. The match has no wildcard: a register that is left out would keep its old
//! number when registers are allocated, and hold the value of another.

use super::operands::R;
use super::operation::Op;
use super::tracking::Tracking;
use super::warp::BarrierKind;

/// How an operation uses a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

impl Op {
    /// Calls `f` for each general register, reads before writes.
    pub(crate) fn for_each_register(&mut self, f: &mut dyn FnMut(Use, &mut R)) {
        use Use::{Read, Write};
        match self {
            Op::IntUnary { d, a, .. }
            | Op::Count { d, a, .. }
            | Op::FloatUnary { d, a, .. }
            | Op::Move { d, a, .. }
            | Op::Convert { d, a, .. }
            | Op::Narrow { d, a, .. }
            | Op::Cvta { d, a, .. } => {
                f(Read, a);
                f(Write, d);
            }
            Op::IntBinary { d, a, b, .. }
            | Op::FloatBinary { d, a, b, .. }
            | Op::ConvertPair { d, a, b, .. }
            | Op::Select { d, a, b, .. }
            | Op::CompareValue { d, a, b, .. }
            | Op::ComparePairValue { d, a, b, .. }
            | Op::SignExtend { d, a, bits: b, .. } => {
                f(Read, a);
                f(Read, b);
                f(Write, d);
            }
            Op::IntTernary { d, a, b, c, .. }
            | Op::MadWide { d, a, b, c, .. }
            | Op::Bits { d, a, b, c, .. }
            | Op::BitExtract {
                d,
                a,
                start: b,
                length: c,
                ..
            }
            | Op::Carry { d, a, b, c, .. }
            | Op::Fma { d, a, b, c, .. }
            | Op::Half { d, a, b, c, .. }
            | Op::SelectSign { d, a, b, c, .. } => {
                f(Read, a);
                f(Read, b);
                f(Read, c);
                f(Write, d);
            }
            Op::BitInsert {
                d,
                a,
                b,
                start,
                length,
                ..
            } => {
                for r in [a, b, start, length] {
                    f(Read, r);
                }
                f(Write, d);
            }
            Op::FloatTest { a, .. } | Op::IsSpace { a, .. } => f(Read, a),
            Op::Pack {
                count, d, parts, ..
            } => {
                parts[..usize::from(*count)]
                    .iter_mut()
                    .for_each(|r| f(Read, r));
                f(Write, d);
            }
            Op::Unpack { parts, a, .. } => {
                f(Read, a);
                parts.iter_mut().flatten().for_each(|r| f(Write, r));
            }
            Op::Compare { a, b, .. } | Op::ComparePair { a, b, .. } => {
                f(Read, a);
                f(Read, b);
            }
            Op::Load { address, d, .. } => {
                f(Read, &mut address.base);
                d.iter_mut().flatten().for_each(|r| f(Write, r));
            }
            Op::Store { access, address, a } => {
                f(Read, &mut address.base);
                a[..usize::from(access.count)]
                    .iter_mut()
                    .for_each(|r| f(Read, r));
            }
            Op::Atomic {
                address, d, b, c, ..
            } => {
                f(Read, &mut address.base);
                f(Read, b);
                f(Read, c);
                d.iter_mut().for_each(|r| f(Write, r));
            }
            Op::MatrixProduct(product) => {
                let sources = product.a.iter_mut().chain(&mut product.b);
                sources.chain(&mut product.c).for_each(|r| f(Read, r));
                product.d.iter_mut().for_each(|r| f(Write, r));
            }
            Op::MatrixLoad(load) => {
                f(Read, &mut load.address.base);
                let written = &mut load.d[..usize::from(load.count)];
                written.iter_mut().for_each(|r| f(Write, r));
            }
            Op::CopyAsync(copy) => {
                f(Read, &mut copy.source.base);
                f(Read, &mut copy.target.base);
                f(Read, &mut copy.size);
            }
            Op::Shuffle {
                d,
                a,
                b,
                c,
                members,
                ..
            } => {
                for r in [a, b, c, members] {
                    f(Read, r);
                }
                f(Write, d);
            }
            Op::Vote { members, .. } | Op::WarpBarrier { members } => f(Read, members),
            Op::Elect { d, members, .. } => {
                f(Read, members);
                d.iter_mut().for_each(|r| f(Write, r));
            }
            Op::Ballot { d, members, .. } => {
                f(Read, members);
                f(Write, d);
            }
            Op::MatchAny { d, a, members, .. }
            | Op::MatchAll { d, a, members, .. }
            | Op::Reduce { d, a, members, .. } => {
                f(Read, a);
                f(Read, members);
                f(Write, d);
            }
            Op::ActiveMask { d } | Op::Clock { d, .. } => f(Write, d),
            Op::BranchTable { index, .. } => f(Read, index),
            Op::Barrier { kind, id, count } => {
                f(Read, id);
                count.iter_mut().for_each(|r| f(Read, r));
                if let BarrierKind::CountTrue { d, .. } = kind {
                    f(Write, d);
                }
            }
            Op::Print {
                d,
                format,
                arguments,
            } => {
                f(Read, format);
                f(Read, arguments);
                d.iter_mut().for_each(|r| f(Write, r));
            }
            Op::AssertFail {
                message,
                file,
                line,
            } => {
                for r in [message, file, line] {
                    f(Read, r);
                }
            }
            Op::Track(Tracking::Shuffle { b, c, .. }) => {
                f(Read, b);
                f(Read, c);
            }
            Op::Track(Tracking::Stored { address, .. }) => f(Read, &mut address.base),
            Op::Track(
                Tracking::Set { .. }
                | Tracking::Check { .. }
                | Tracking::Flow { .. }
                | Tracking::Select { .. },
            )
            | Op::PredicateLogic { .. }
            | Op::PredicateMove { .. }
            | Op::Branch { .. }
            | Op::Exit
            | Op::Fence { .. }
            | Op::CopyCommit
            | Op::CopyWait { .. }
            | Op::Nothing
            | Op::Yield
            | Op::Trap
            | Op::Unknown { .. } => {}
        }
    }
}
