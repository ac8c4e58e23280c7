//! Unset bytes on their way through an operation.

use super::LoadedUnset;
use super::unset::{Found, Unset, first_use, set};
use crate::exec::access::lane_operands::lane_place;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::lanes::shuffle_source;
use crate::exec::operations::predicate::condition;
use crate::exec::registers::Registers;
use crate::program::analysis::byte_flow::{depends_on_values, recipes};
use crate::program::op::{
    Access, Address, Condition, IntBinary, LeftFactor, Logic, MemorySpace, Op, R, Use,
    WarpgroupProduct, on_registers,
};

impl LoadedUnset {
    /// Follows the bytes through an operation that the lanes of `mask` are about to run.
    pub(super) fn follow(
        &mut self,
        registers: &Registers,
        op: &Op,
        mask: u32,
    ) -> Result<(), Found> {
        match *op {
            Op::Track(_) => return Ok(()),
            Op::Store {
                access, address, a, ..
            } => {
                self.uses(address.base, mask)?;
                return self.store(registers, &access, &address, &a, mask);
            }
            Op::Select { d, a, b, p, .. } => {
                let mut new = self.of(b).cloned().unwrap_or(Unset::NONE);
                let chosen = self.of(a).unwrap_or(&Unset::NONE);
                new.update(condition(registers, p), chosen);
                new.add_all(mask, self.of_predicate(p.p));
                self.set(d, mask, &new);
            }
            Op::FloatTest { d, a, .. } | Op::IsSpace { d, a, .. } => {
                let new = self.made_of(&[a]);
                self.set_predicate(d, mask, &new);
            }
            Op::Compare {
                d, q, a, b, with, ..
            } => {
                let new = self.compared(registers, self.made_of(&[a, b]), with);
                for d in [Some(d), q].into_iter().flatten() {
                    self.set_predicate(d, mask, &new);
                }
            }
            Op::ComparePair {
                d, q, a, b, with, ..
            } => {
                let halves = self.halves_made_of(&[a, b]);
                for (d, half) in [d, q].into_iter().zip(halves) {
                    let new = self.compared(registers, half, with);
                    self.set_predicate(d, mask, &new);
                }
            }
            Op::CompareValue { d, a, b, with, .. } => {
                let new = self.compared(registers, self.made_of(&[a, b]), with);
                self.set(d, mask, &new);
            }
            Op::ComparePairValue { d, a, b, with, .. } => {
                let halves = self.halves_made_of(&[a, b]);
                let [mut new, high] = halves.map(|half| self.compared(registers, half, with));
                new.bytes[2..].fill(0);
                (2..4).for_each(|to| new.add(to, high.lanes(), &high.origins));
                self.set(d, mask, &new);
            }
            Op::PredicateLogic { op, d, a, b } => {
                let new = self.combined(registers, op, self.condition(a), a, b);
                self.set_predicate(d, mask, &new);
            }
            Op::PredicateMove { d, a } => {
                let new = self.condition(a);
                self.set_predicate(d, mask, &new);
            }
            Op::Carry {
                carry_in,
                carry_out,
                d,
                a,
                b,
                c,
                ..
            } => {
                let mut new = self.made_of(&[a, b, c]);
                if carry_in {
                    new.add_all(mask, self.carry.as_deref());
                }
                self.set(d, mask, &new);
                if carry_out {
                    set(&mut self.carry, mask, &new);
                }
            }
            Op::Shuffle {
                op,
                d,
                p,
                a,
                b,
                c,
                members,
            } => {
                [b, c, members]
                    .iter()
                    .try_for_each(|r| self.uses(*r, mask))?;
                let from = self.of(a).unwrap_or(&Unset::NONE);
                let (b, c) = (registers.read(b), registers.read(c));
                let mut new = Unset::NONE;
                for lane in lanes(mask) {
                    let (source, inside) = shuffle_source(op, lane as u32, b[lane], c[lane]);
                    let source = if inside { source as usize } else { lane };
                    let origins = [from.origins[source]; 32];
                    for (to, bytes) in from.bytes.iter().enumerate() {
                        new.add(to, (bytes >> source & 1) << lane, &origins);
                    }
                }
                self.set(d, mask, &new);
                p.into_iter()
                    .for_each(|p| self.set_predicate(p, mask, &Unset::NONE));
            }
            Op::Accumulators(accumulators) => {
                let using = mask & condition(registers, accumulators.adds);
                self.spread(op, mask & !using, None);
            }
            Op::MatrixProduct(product) => self.product(&product),
            Op::MatrixProduct64(product) => self.product64(&product),
            // Its sums follow when all warps have come (`follow_unset_product`).
            Op::WarpgroupProduct(WarpgroupProduct { a, b, .. }) => {
                self.uses(b, mask)?;
                if let LeftFactor::Shared(descriptor) = a {
                    self.uses(descriptor, mask)?;
                }
            }
            Op::MatrixLoad(matrices) => {
                self.uses(matrices.address.base, matrices.row_lanes(mask))?;
                self.spread(op, mask, None);
            }
            Op::MatrixStore(matrices) => {
                self.uses(matrices.address.base, matrices.row_lanes(mask))?;
            }
            _ if matches!(op, on_registers!()) => self.compute(registers, op, mask),
            _ => {
                let mut used = Ok(());
                let mut op = *op;
                op.for_each_register(&mut |usage, r| {
                    if usage == Use::Read && used.is_ok() {
                        used = self.uses(*r, mask);
                    }
                });
                op.for_each_predicate(&mut |usage, p| {
                    if usage == Use::Read && used.is_ok() {
                        used = first_use(self.of_predicate(p), mask);
                    }
                });
                used?;
                self.spread(&op, mask, None);
            }
        }
        Ok(())
    }

    /// The results of `op` are unset where `by` is, in all bytes, and set in the other lanes of
    /// `mask`.
    pub(super) fn spread(&mut self, op: &Op, mask: u32, by: Option<&Unset>) {
        let mut new = Unset::NONE;
        new.add_all(mask, by);
        let mut op = *op;
        op.for_each_predicate(&mut |usage, p| {
            if usage == Use::Write {
                self.set_predicate(p, mask, &new);
            }
        });
        op.for_each_register(&mut |usage, r| {
            if usage == Use::Write {
                self.set(*r, mask, &new);
            }
        });
    }

    /// Follows the bytes through an operation that moves or computes.
    fn compute(&mut self, registers: &Registers, op: &Op, mask: u32) {
        let mut results = Vec::new();
        let mut run = |known: &dyn Fn(R) -> Option<u64>, mask: u32| {
            for recipe in recipes(op, known).into_iter().flatten() {
                let mut new = Unset::NONE;
                for (r, bytes) in recipe.from {
                    let Some(from) = self.of(r) else { continue };
                    for (to, needed) in bytes.iter().enumerate() {
                        for byte in lanes(u32::from(*needed)) {
                            new.add(to, from.bytes[byte] & mask, &from.origins);
                        }
                    }
                }
                let is_copy = matches!(op, Op::Move { .. } | Op::Pack { .. } | Op::Unpack { .. });
                let new = if is_copy { new } else { new.computed() };
                results.push((recipe.d, mask, new));
            }
        };
        if depends_on_values(op) {
            let wide = matches!(op, Op::IntBinary { op: IntBinary::And | IntBinary::Or, ty, .. } if ty.is_wide());
            for lane in lanes(mask) {
                let known = |r: R| {
                    let is_unset = self.of(r).is_some_and(|r| r.lanes() >> lane & 1 != 0);
                    (!is_unset).then(|| match wide {
                        true => registers.read::<u64>(r)[lane],
                        false => u64::from(registers.read::<u32>(r)[lane]),
                    })
                };
                run(&known, 1 << lane);
            }
        } else {
            run(&|_| None, mask);
        }
        if results.is_empty() {
            let new = self.made_of(&op.registers(Use::Read));
            results.extend(
                op.registers(Use::Write)
                    .into_iter()
                    .map(|d| (d, mask, new.clone())),
            );
        }
        for (d, mask, new) in results {
            self.set(d, mask, &new);
        }
    }

    /// A store. To device memory it is a use if it stores no set byte, or half of a half-word that
    /// was computed.
    fn store(
        &self,
        registers: &Registers,
        access: &Access,
        address: &Address,
        a: &[R; 4],
        mask: u32,
    ) -> Result<(), Found> {
        let size = access.ty.bytes() as usize;
        let elements = &a[..usize::from(access.count)];
        let (mut used, mut nothing_set) = (0, mask);
        for unset in elements.iter().map(|a| self.of(*a).unwrap_or(&Unset::NONE)) {
            for half in unset.bytes[..size].chunks(2) {
                let [both, either] = [
                    half[0] & half[half.len() - 1],
                    half[0] | half[half.len() - 1],
                ];
                nothing_set &= both;
                let part = lanes(mask & either & !both);
                let computed = part.filter(|&lane| unset.origins[lane].computed);
                used |= computed.fold(0, |all, lane| all | 1 << lane);
            }
        }
        let to_device =
            |lane: &usize| lane_place(registers, address, *lane).0 == MemorySpace::Global;
        let Some(lane) = lanes(used | nothing_set).find(to_device) else {
            return Ok(());
        };
        let unset = elements.iter().filter_map(|a| self.of(*a));
        let mut unset = unset.filter(|unset| unset.lanes() >> lane & 1 != 0);
        let load = unset.next().map(|unset| unset.origins[lane]);
        load.map_or(Ok(()), |load| Err((lane as u32, load)))
    }

    /// The lanes in which a value made of these registers is unset.
    fn made_of(&self, operands: &[R]) -> Unset {
        let mut new = Unset::NONE;
        for r in operands {
            new.add_all(u32::MAX, self.of(*r));
        }
        new.computed()
    }

    pub(super) fn condition(&self, condition: Condition) -> Unset {
        self.of_predicate(condition.p)
            .cloned()
            .unwrap_or(Unset::NONE)
    }

    /// As [`LoadedUnset::made_of`], of the low and of the high halves of registers.
    fn halves_made_of(&self, operands: &[R]) -> [Unset; 2] {
        [0..2, 2..4].map(|bytes| {
            let mut new = Unset::NONE;
            for from in operands.iter().filter_map(|r| self.of(*r)) {
                let unset = from.bytes[bytes.clone()]
                    .iter()
                    .fold(0, |all, lanes| all | lanes);
                (0..8).for_each(|to| new.add(to, unset, &from.origins));
            }
            new.computed()
        })
    }

    /// The lanes in which a comparison is unset, as `new` says, or what it is combined `with`.
    fn compared(
        &self,
        registers: &Registers,
        mut new: Unset,
        with: Option<(Logic, Condition)>,
    ) -> Unset {
        let Some((op, other)) = with else { return new };
        let decided = match op {
            Logic::And => !condition(registers, other),
            Logic::Or => condition(registers, other),
            Logic::Xor => 0,
        } & !self.lanes_of(other.p);
        new.bytes.iter_mut().for_each(|lanes| *lanes &= !decided);
        new.add_all(u32::MAX, self.of_predicate(other.p));
        new
    }

    /// The lanes in which `a` and `b` together are unset: not where one of them decides.
    fn combined(
        &self,
        registers: &Registers,
        op: Logic,
        mut new: Unset,
        a: Condition,
        b: Condition,
    ) -> Unset {
        new.add_all(u32::MAX, self.of_predicate(b.p));
        let decides = |c: Condition| {
            let holds = condition(registers, c);
            !self.lanes_of(c.p)
                & match op {
                    Logic::And => !holds,
                    Logic::Or => holds,
                    Logic::Xor => 0,
                }
        };
        let decided = decides(a) | decides(b);
        new.bytes.iter_mut().for_each(|lanes| *lanes &= !decided);
        new
    }
}
