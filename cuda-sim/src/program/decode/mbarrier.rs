//! Arrival barriers: `mbarrier`, and `cp.async.mbarrier.arrive`.

use super::operands::{Mods, Operands, given, unpacked};
use crate::program::instruction::Constant;
use crate::program::lower::Lowering;
use crate::program::op::{Access, Arrival, IntBinary, Mbarrier, MbarrierOp, Op, Order, R, Type};
use crate::ptx::Operand;

impl<'a> Lowering<'a> {
    pub(super) fn mbarrier(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        if mods.take("pending_count") {
            mods.take("b64").then_some(())?;
            return self.pending_count(operands);
        }
        let op = mods.pick([
            ("init", Name::Init),
            ("inval", Name::Inval),
            ("arrive", Name::Arrive { drops: false }),
            ("arrive_drop", Name::Arrive { drops: true }),
            ("expect_tx", Name::ExpectBytes),
            ("complete_tx", Name::CompleteBytes),
            ("test_wait", Name::Wait { rests: false }),
            ("try_wait", Name::Wait { rests: true }),
        ])?;
        let is_arrival = matches!(op, Name::Arrive { .. });
        let expects_bytes = is_arrival && mods.take("expect_tx");
        let is_never_last = mods.take("noComplete");
        let parity = mods.take("parity");
        let order = match op {
            Name::Init | Name::Inval => None,
            Name::ExpectBytes | Name::CompleteBytes => Some("relaxed"),
            Name::Arrive { .. } => Some("release"),
            Name::Wait { .. } => Some("acquire"),
        };
        let mut is_relaxed = false;
        if let Some(order) = order {
            is_relaxed = mods.take("relaxed");
            let _ = is_relaxed || mods.take(order);
            let _ = mods.take("cta") || mods.take("cluster");
        }
        mods.take("b64").then_some(())?;
        let (mut d, one) = (None, self.number(1));
        let (at, op, a) = match op {
            Name::Init => {
                let count = self.source(operands.get(1)?, Type::U32)?;
                (0, MbarrierOp::Init, count)
            }
            Name::Inval => (0, MbarrierOp::Inval, one),
            Name::ExpectBytes | Name::CompleteBytes => {
                let bytes = self.source(operands.get(1)?, Type::U32)?;
                let op = match op {
                    Name::ExpectBytes => MbarrierOp::ExpectBytes,
                    _ => MbarrierOp::CompleteBytes,
                };
                (0, op, bytes)
            }
            Name::Arrive { drops } => {
                d = given(operands.get(0)?.unless_sink(), |d| self.target(d, true))?;
                let count = given(operands.get(2), |count| self.source(count, Type::U32))?;
                if count.is_none() && (is_never_last || expects_bytes) {
                    return None;
                }
                let arrival = Arrival {
                    drops,
                    is_never_last,
                    expects_bytes,
                    releases: !is_relaxed,
                };
                (1, MbarrierOp::Arrive(arrival), count.unwrap_or(one))
            }
            Name::Wait { rests } => {
                let p = self.predicate(operands.get(0)?)?;
                let ty = if parity { Type::U32 } else { Type::U64 };
                let phase = self.source(operands.get(2)?, ty)?;
                // How long a thread may sleep has no effect here.
                given(operands.get(3), |hint| self.source(hint, Type::U32))?;
                (1, MbarrierOp::Wait { p, parity, rests }, phase)
            }
        };
        let is_wait = matches!(op, MbarrierOp::Wait { .. });
        if (parity && !is_wait) || (is_never_last && !is_arrival) {
            return None;
        }
        self.on_mbarrier(op, mods, operands.get(at)?, d, a)
    }

    /// `cp.async.mbarrier.arrive`, whose first words are taken.
    pub(super) fn copies_arrive(
        &mut self,
        mods: &mut Mods<'a>,
        operands: Operands<'_, 'a>,
    ) -> Option<Op> {
        mods.take("arrive").then_some(())?;
        let counted = mods.take("noinc");
        mods.take("b64").then_some(())?;
        let one = self.number(1);
        let op = MbarrierOp::CopiesArrive { counted };
        self.on_mbarrier(op, mods, operands.get(0)?, None, one)
    }

    fn on_mbarrier(
        &mut self,
        op: MbarrierOp,
        mods: &mut Mods<'a>,
        address: &Operand<'a>,
        d: Option<R>,
        a: R,
    ) -> Option<Op> {
        Some(Op::Mbarrier(Mbarrier {
            op,
            access: Access::one(Type::U64, Order::Relaxed),
            address: self.shared_address(mods, address)?,
            d,
            a,
        }))
    }

    /// The pending count is the lowest part of a state; see [`crate::exec::operations::mbarrier`].
    fn pending_count(&mut self, operands: Operands<'_, 'a>) -> Option<Op> {
        let d = self.target(operands.get(0)?, false)?;
        let state = self.source(operands.get(1)?, Type::U64)?;
        let low = self.scratch(false);
        let rest = self.scratch(false);
        let mask = self.constant(Constant::Narrow(Mbarrier::MAX_COUNT));
        self.emit_before(unpacked([low, rest], 32, state));
        Some(Op::IntBinary {
            op: IntBinary::And,
            ty: Type::U32,
            d,
            a: low,
            b: mask,
        })
    }
}

/// The name of an instruction.
#[derive(Clone, Copy)]
enum Name {
    Init,
    Inval,
    Arrive { drops: bool },
    ExpectBytes,
    CompleteBytes,
    Wait { rests: bool },
}
