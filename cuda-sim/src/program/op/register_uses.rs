//! Registers that an operation reads and writes. The match has no wildcard: a register that is left
//! out would keep its old number when registers are allocated, and hold the value of another.

use super::matrix::{MatrixProduct, MatrixProduct64, Sums};
use super::mbarrier::{Mbarrier, MbarrierOp};
use super::operands::{P, R};
use super::operation::{Op, matrix_operations, on_general_registers};
use super::tracking::{Tracking, UsingLanes};
use super::warp::BarrierKind;
use super::warpgroup::{Accumulators, LeftFactor, WarpgroupProduct};

/// Use of a register by an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

impl Op {
    /// Calls `f` for each general register, reads before writes.
    pub(crate) fn for_each_register(&mut self, f: &mut dyn FnMut(Use, &mut R)) {
        match self {
            Op::IntUnary { d, a, .. }
            | Op::Count { d, a, .. }
            | Op::FloatUnary { d, a, .. }
            | Op::Move { d, a, .. }
            | Op::Convert { d, a, .. }
            | Op::Narrow { d, a, .. }
            | Op::Cvta { d, a, .. }
            | Op::MatrixTranspose { d, a } => each(f, [a], [d]),
            Op::IntBinary { d, a, b, .. }
            | Op::FloatBinary { d, a, b, .. }
            | Op::ConvertPair { d, a, b, .. }
            | Op::ConvertBytes { d, a, b, .. }
            | Op::Select { d, a, b, .. }
            | Op::CompareValue { d, a, b, .. }
            | Op::ComparePairValue { d, a, b, .. }
            | Op::SignExtend { d, a, bits: b, .. } => each(f, [a, b], [d]),
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
            | Op::SelectSign { d, a, b, c, .. } => each(f, [a, b, c], [d]),
            Op::BitInsert {
                d,
                a,
                b,
                start,
                length,
                ..
            } => each(f, [a, b, start, length], [d]),
            Op::FloatTest { a, .. } | Op::IsSpace { a, .. } => each(f, [a], []),
            Op::Pack {
                count, d, parts, ..
            } => each(f, &mut parts[..usize::from(*count)], [d]),
            Op::Unpack { parts, a, .. } => each(f, [a], parts.iter_mut().flatten()),
            Op::Compare { a, b, .. } | Op::ComparePair { a, b, .. } => each(f, [a, b], []),
            Op::Load { address, d, .. } => {
                each(f, [&mut address.base], d.iter_mut().flatten());
            }
            Op::Store { access, address, a } => {
                let values = &mut a[..usize::from(access.count)];
                each(f, [&mut address.base].into_iter().chain(values), []);
            }
            Op::Atomic {
                op,
                access,
                address,
                returns,
                d,
                a,
            } => {
                let values = &mut a[..op.values(access)];
                let written = &mut d[..if *returns {
                    usize::from(access.count)
                } else {
                    0
                }];
                each(f, [&mut address.base].into_iter().chain(values), written);
            }
            Op::Mbarrier(mbarrier) => {
                let Mbarrier { address, d, a, .. } = mbarrier;
                each(f, [&mut address.base, a], d);
            }
            Op::MatrixProduct(product) => {
                let counts = product.registers();
                let MatrixProduct { d, a, b, c, .. } = product;
                product_registers(f, counts, d, [a, b, c]);
            }
            Op::MatrixProduct64(product) => {
                let [left, sums] = product.registers();
                let MatrixProduct64 { d, a, b, c, .. } = product;
                let b = std::slice::from_mut(b);
                product_registers(f, [left, 1, sums], d, [a, b, c]);
            }
            Op::QuadPairProducts(products) => {
                let [c, d] = [products.c_type, products.d_type].map(Sums::registers_of_quad_pairs);
                let sources = products.a.iter_mut().chain(&mut products.b);
                each(f, sources.chain(&mut products.c[..c]), &mut products.d[..d]);
            }
            Op::WarpgroupProduct(WarpgroupProduct { a, b, .. }) => {
                let a = match a {
                    LeftFactor::Registers(fragments) => fragments.as_mut_slice(),
                    LeftFactor::Shared(descriptor) => std::slice::from_mut(descriptor),
                };
                each(f, a.iter_mut().chain([b]), []);
            }
            Op::Accumulators(Accumulators { count, c, d, .. }) => {
                let count = usize::from(*count);
                each(f, &mut c[..count], &mut d[..count]);
            }
            Op::MatrixStart(start) => each(f, [&mut start.address.base, &mut start.stride], []),
            Op::MatrixLoad(matrices) => {
                let written = &mut matrices.r[..usize::from(matrices.count)];
                each(f, [&mut matrices.address.base], written);
            }
            Op::MatrixStore(matrices) => {
                let stored = &mut matrices.r[..usize::from(matrices.count)];
                each(
                    f,
                    [&mut matrices.address.base].into_iter().chain(stored),
                    [],
                );
            }
            Op::CopyAsync(copy) => {
                let (source, target) = (&mut copy.source, &mut copy.target);
                each(f, [&mut source.base, &mut target.base, &mut copy.size], []);
            }
            Op::BulkCopy(copy) => {
                each(f, copy.extent_registers(), []);
                let (source, target) = (&mut copy.source.base, &mut copy.target.base);
                let barrier = copy.barrier.as_mut().map(|barrier| &mut barrier.base);
                let rest = barrier.into_iter().chain([&mut copy.blocks]);
                each(f, [source, target].into_iter().chain(rest), []);
            }
            Op::Shuffle {
                d,
                a,
                b,
                c,
                members,
                ..
            } => each(f, [a, b, c, members], [d]),
            Op::Vote { members, .. } | Op::WarpBarrier { members } => each(f, [members], []),
            Op::Elect { d, members, .. } => each(f, [members], d),
            Op::Ballot { d, members, .. } => each(f, [members], [d]),
            Op::MatchAny { d, a, members, .. }
            | Op::MatchAll { d, a, members, .. }
            | Op::Reduce { d, a, members, .. } => each(f, [a, members], [d]),
            Op::ActiveMask { d } | Op::Clock { d, .. } => each(f, [], [d]),
            Op::BranchTable { index, .. } => each(f, [index], []),
            Op::Barrier { kind, id, count } => {
                let result = match kind {
                    BarrierKind::CountTrue { d, .. } => Some(d),
                    _ => None,
                };
                each(f, [id].into_iter().chain(count), result);
            }
            Op::Print {
                d,
                format,
                arguments,
            } => each(f, [format, arguments], d),
            Op::AssertFail {
                message,
                file,
                line,
            } => each(f, [message, file, line], []),
            Op::Track(Tracking::Shuffle { b, c, .. }) => each(f, [b, c], []),
            Op::Track(Tracking::Check {
                lanes: UsingLanes::Reading { size, .. },
                ..
            }) => each(f, [size], []),
            Op::Track(Tracking::Stored { address, .. }) => each(f, [&mut address.base], []),
            Op::Track(
                Tracking::Set { .. }
                | Tracking::Check {
                    lanes: UsingLanes::Of(_) | UsingLanes::Where(_),
                    ..
                }
                | Tracking::Flow { .. }
                | Tracking::Select { .. },
            )
            | Op::PredicateLogic { .. }
            | Op::PredicateMove { .. }
            | Op::Branch { .. }
            | Op::Exit
            | Op::Fence(_)
            | Op::ClusterBarrier { .. }
            | Op::SetMaxRegisters { .. }
            | Op::CopyCommit
            | Op::CopyWait { .. }
            | Op::BulkCommit
            | Op::BulkWait { .. }
            | Op::ProductFence
            | Op::ProductCommit
            | Op::ProductWait { .. }
            | Op::Nothing
            | Op::Yield
            | Op::Trap
            | Op::Unknown { .. } => {}
        }
    }

    /// Calls `f` for each predicate but that of its guard, reads before writes.
    pub(crate) fn for_each_predicate(&self, f: &mut dyn FnMut(Use, P)) {
        match *self {
            Op::FloatTest { d, .. } | Op::IsSpace { d, .. } => f(Use::Write, d),
            Op::Select { p, .. } | Op::Ballot { p, .. } => f(Use::Read, p.p),
            Op::Compare { d, q, with, .. } => {
                with.into_iter().for_each(|(_, c)| f(Use::Read, c.p));
                [Some(d), q]
                    .into_iter()
                    .flatten()
                    .for_each(|p| f(Use::Write, p));
            }
            Op::ComparePair { d, q, with, .. } => {
                with.into_iter().for_each(|(_, c)| f(Use::Read, c.p));
                [d, q].into_iter().for_each(|p| f(Use::Write, p));
            }
            Op::CompareValue { with, .. } | Op::ComparePairValue { with, .. } => {
                with.into_iter().for_each(|(_, c)| f(Use::Read, c.p));
            }
            Op::PredicateLogic { d, a, b, .. } => {
                [a, b].into_iter().for_each(|c| f(Use::Read, c.p));
                f(Use::Write, d);
            }
            Op::PredicateMove { d, a } => {
                f(Use::Read, a.p);
                f(Use::Write, d);
            }
            Op::Shuffle { p, .. } | Op::MatchAll { p, .. } => {
                p.into_iter().for_each(|p| f(Use::Write, p));
            }
            Op::Vote { d, p, .. } => {
                f(Use::Read, p.p);
                f(Use::Write, d);
            }
            Op::Elect { p, .. } => f(Use::Write, p),
            Op::Mbarrier(Mbarrier { op, .. }) => {
                if let MbarrierOp::Wait { p, .. } = op {
                    f(Use::Write, p);
                }
            }
            Op::CopyAsync(copy) => f(Use::Read, copy.ignore.p),
            Op::WarpgroupProduct(product) => f(Use::Read, product.adds.p),
            Op::Barrier { kind, .. } => match kind {
                BarrierKind::CountTrue { p, .. } => f(Use::Read, p.p),
                BarrierKind::AllTrue { d, p } | BarrierKind::AnyTrue { d, p } => {
                    f(Use::Read, p.p);
                    f(Use::Write, d);
                }
                BarrierKind::Threads | BarrierKind::Sync | BarrierKind::Arrive => {}
            },
            on_general_registers!()
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
            | Op::MatchAny { .. }
            | Op::Reduce { .. }
            | Op::WarpBarrier { .. }
            | Op::CopyCommit
            | Op::CopyWait { .. }
            | Op::BulkCopy(_)
            | Op::BulkCommit
            | Op::BulkWait { .. }
            | Op::ActiveMask { .. }
            | Op::Branch { .. }
            | Op::BranchTable { .. }
            | Op::Exit
            | Op::Fence(_)
            | Op::ClusterBarrier { .. }
            | Op::SetMaxRegisters { .. }
            | Op::Nothing
            | Op::Yield
            | Op::Clock { .. }
            | Op::Trap
            | Op::Print { .. }
            | Op::AssertFail { .. }
            | Op::Accumulators(_)
            | Op::Track(_)
            | Op::Unknown { .. }
            | matrix_operations!() => {}
        }
    }

    /// The registers that it reads, or those that it writes.
    pub(crate) fn registers(&self, wanted: Use) -> Vec<R> {
        let (mut op, mut found) = (*self, Vec::new());
        op.for_each_register(&mut |usage, r| {
            if usage == wanted {
                found.push(*r);
            }
        });
        found
    }
}

/// The registers of a product: the first ones of A, of B, and of C and D.
fn product_registers(
    f: &mut dyn FnMut(Use, &mut R),
    [left, right, sums]: [usize; 3],
    d: &mut [R],
    [a, b, c]: [&mut [R]; 3],
) {
    let factors = a[..left].iter_mut().chain(&mut b[..right]);
    each(f, factors.chain(&mut c[..sums]), &mut d[..sums]);
}

fn each<'r>(
    f: &mut dyn FnMut(Use, &mut R),
    reads: impl IntoIterator<Item = &'r mut R>,
    writes: impl IntoIterator<Item = &'r mut R>,
) {
    reads.into_iter().for_each(|r| f(Use::Read, r));
    writes.into_iter().for_each(|r| f(Use::Write, r));
}
