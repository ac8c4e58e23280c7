//! Bytes of registers that were loaded from memory that nobody had written.
//!
//! Such a load is no mistake by itself: a `float4` may have a `w` that nobody sets, and a word the
//! fourth byte of three of colour. From the first such load on, the warp keeps for each byte of its
//! registers the lanes in which it is unset, with the place of the load. It follows the bytes
//! through operations ([`byte_flow`]), with the values of the other operands: a shift by a register
//! moves them, a mask clears them. The report comes when a lane uses one: as an address or a
//! condition of control, for other lanes, in a product of matrices, in an atomic operation.
//!
//! A store copies the bytes: they are unset in its target, too. But device memory is where results
//! go: a store to it of no set byte is a use, and one of a computed number of which a byte is
//! unset. What may be unset beside others is any byte of a copy, a whole element of a vector, or
//! half of a word: a field, not a part of a number.
//!
//! Registers that may be used before they are set are another matter ([`super::unset_registers`]).

use super::{Step, Warp};
use crate::exec::access::lane_operands::lane_place;
use crate::exec::checks::unwritten_bytes::{LoadedBytes, UnsetLoad};
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{OtherSide, WarpFault};
use crate::exec::lane_mask::lanes;
use crate::exec::operations::lanes::shuffle_source;
use crate::exec::operations::predicate::condition;
use crate::exec::registers::Registers;
use crate::fault::{FaultKind, UnsetRead};
use crate::program::analysis::byte_flow::{depends_on_values, recipes};
use crate::program::op::{
    Access, Address, Condition, IntBinary, Logic, MemorySpace, Op, P, R, Use, on_registers,
};

/// Unset lanes of a register, for each byte; of a predicate, in the first.
#[derive(Debug, Clone)]
struct Unset {
    bytes: [u32; 8],
    /// Of the lanes with an unset byte.
    origins: [UnsetLoad; 32],
}

impl Unset {
    const NONE: Unset = Unset {
        bytes: [0; 8],
        origins: [UnsetLoad {
            pc: 0,
            space: MemorySpace::Global,
            at: 0,
            bytes: 0,
            computed: false,
        }; 32],
    };

    /// The lanes in which a byte is unset.
    fn lanes(&self) -> u32 {
        self.bytes.iter().fold(0, |all, lanes| all | lanes)
    }

    /// Byte `to` is unset in `new` lanes, which come from `origins`.
    fn add(&mut self, to: usize, new: u32, origins: &[UnsetLoad; 32]) {
        for lane in lanes(new & !self.lanes()) {
            self.origins[lane] = origins[lane];
        }
        for lane in lanes(new) {
            self.origins[lane].computed |= origins[lane].computed;
        }
        self.bytes[to] |= new;
    }

    /// The same bytes of a result of arithmetic.
    fn computed(mut self) -> Unset {
        self.origins
            .iter_mut()
            .for_each(|load| load.computed = true);
        self
    }

    /// All bytes are unset in the lanes of `mask` in which a byte of `other` is.
    fn add_all(&mut self, mask: u32, other: Option<&Unset>) {
        let Some(other) = other else { return };
        (0..8).for_each(|to| self.add(to, other.lanes() & mask, &other.origins));
    }

    /// Takes over the lanes of `mask`.
    fn update(&mut self, mask: u32, new: &Unset) {
        for (byte, new) in self.bytes.iter_mut().zip(new.bytes) {
            *byte = *byte & !mask | new & mask;
        }
        for lane in lanes(mask & new.lanes()) {
            self.origins[lane] = new.origins[lane];
        }
    }
}

/// A use of an unset byte by a lane.
type Found = (u32, UnsetLoad);

/// The unset bytes of the registers of a warp. `None`: all bytes are set.
#[derive(Default)]
pub(super) struct LoadedUnset {
    registers: Vec<Option<Box<Unset>>>,
    predicates: Vec<Option<Box<Unset>>>,
    carry: Option<Box<Unset>>,
}

impl LoadedUnset {
    fn of(&self, r: R) -> Option<&Unset> {
        self.registers.get(r.0 as usize)?.as_deref()
    }

    fn of_predicate(&self, p: P) -> Option<&Unset> {
        self.predicates.get(p.0 as usize)?.as_deref()
    }

    /// The lanes in which a predicate is unset.
    fn lanes_of(&self, p: P) -> u32 {
        self.of_predicate(p).map_or(0, Unset::lanes)
    }

    fn set(&mut self, d: R, mask: u32, new: &Unset) {
        set(slot(&mut self.registers, d.0), mask, new);
    }

    fn set_predicate(&mut self, d: P, mask: u32, new: &Unset) {
        set(slot(&mut self.predicates, d.0), mask, new);
    }

    /// True if no register is unset.
    pub(super) fn is_empty(&self) -> bool {
        let all = self.registers.iter().chain(&self.predicates);
        all.chain([&self.carry]).all(Option::is_none)
    }

    /// True if the operation has an operand or a result that is unset.
    fn concerns(&self, op: &Op) -> bool {
        let mut found = matches!(op, Op::Carry { .. }) && self.carry.is_some();
        let mut op = *op;
        op.for_each_register(&mut |_, r| found |= self.of(*r).is_some());
        op.for_each_predicate(&mut |_, p| found |= self.of_predicate(p).is_some());
        found
    }

    /// The lanes of `mask` use a register.
    fn uses(&self, r: R, mask: u32) -> Result<(), Found> {
        first_use(self.of(r), mask)
    }

    /// Follows the bytes through an operation that the lanes of `mask` are about to run.
    fn follow(&mut self, registers: &Registers, op: &Op, mask: u32) -> Result<(), Found> {
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
    fn spread(&mut self, op: &Op, mask: u32, by: Option<&Unset>) {
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

    fn condition(&self, condition: Condition) -> Unset {
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

impl Warp {
    /// Follows unset bytes through an operation that the lanes of the step are about to run.
    pub(super) fn follow_unset(
        &mut self,
        worker: &HostThread<'_>,
        step: Step<'_>,
    ) -> Result<(), WarpFault> {
        let Some(unset) = &mut self.loaded_unset else {
            return Ok(());
        };
        if !unset.concerns(step.op) {
            return Ok(());
        }
        let followed = unset.follow(&self.registers, step.op, step.mask);
        followed.map_err(|found| self.unset_fault(worker, step, found))
    }

    /// The guard of an operation decides for the lanes of `present` whether they run it. If it is
    /// unset, so are the results; everything else that depends on it is a use.
    pub(super) fn follow_unset_guard(
        &mut self,
        worker: &HostThread<'_>,
        step: Step<'_>,
        guard: Condition,
        present: u32,
    ) -> Result<(), WarpFault> {
        let Some(unset) = &mut self.loaded_unset else {
            return Ok(());
        };
        let by = unset.condition(guard);
        let concerned = by.lanes() & present;
        if concerned == 0 || matches!(step.op, Op::Track(_)) {
            return Ok(());
        }
        if matches!(step.op, on_registers!()) {
            unset.spread(step.op, concerned, Some(&by));
            return Ok(());
        }
        let lane = concerned.trailing_zeros();
        let found = (lane, by.origins[lane as usize]);
        Err(self.unset_fault(worker, step, found))
    }

    /// Notes the unset bytes that the load of the step has got.
    #[cold]
    pub(super) fn note_unset(
        &mut self,
        worker: &HostThread<'_>,
        step: Step<'_>,
        loaded: &LoadedBytes,
    ) {
        let Op::Load { access, d, .. } = *step.op else {
            unreachable!("only loads get unset bytes")
        };
        let unset = self.loaded_unset.get_or_insert_default();
        let size = access.ty.bytes();
        for (element, d) in (0..u32::from(access.count)).zip(d) {
            let Some(d) = d else { continue };
            let mut new = Unset::NONE;
            for lane in lanes(step.mask) {
                let place = &loaded[lane];
                let bytes = place.unset >> (element * size) & ((1 << size) - 1);
                if bytes == 0 {
                    continue;
                }
                let at = place.at + u64::from(element * size);
                let first = at + u64::from(bytes.trailing_zeros());
                let copied = worker
                    .checks
                    .copied_from(self.number, place.space, first, lane);
                let origin = copied.unwrap_or(UnsetLoad {
                    pc: step.pc,
                    space: place.space,
                    at,
                    bytes: size,
                    computed: false,
                });
                let extended = access.ty.is_signed() && bytes >> (size - 1) & 1 != 0;
                for byte in 0..8 {
                    if bytes >> byte & 1 != 0 || extended && byte >= size {
                        new.add(byte as usize, 1 << lane, &[origin; 32]);
                    }
                }
            }
            unset.set(d, step.mask, &new);
        }
    }

    /// Behind a store: the unset bytes that it has stored are unset in memory.
    pub(super) fn store_unset(&mut self, worker: &mut HostThread<'_>, step: Step<'_>) {
        let Op::Store { access, address, a } = *step.op else {
            return;
        };
        let Some(unset) = self.loaded_unset.take() else {
            return;
        };
        let size = access.ty.bytes() as usize;
        let mut warp = self.active(step.kernel, step.mask, step.pc);
        for (element, a) in a.iter().take(usize::from(access.count)).enumerate() {
            let Some(stored) = unset.of(*a) else { continue };
            for (byte, unset) in stored.bytes[..size].iter().enumerate() {
                for lane in lanes(unset & step.mask) {
                    let (space, at) = lane_place(warp.registers, &address, lane);
                    let at = at + (element * size + byte) as u64;
                    let load = stored.origins[lane];
                    worker.checks.unwrite_copy(&mut warp, space, at, lane, load);
                }
            }
        }
        self.loaded_unset = Some(unset);
    }

    /// The fault of a lane that uses an unset byte.
    #[cold]
    fn unset_fault(
        &mut self,
        worker: &HostThread<'_>,
        step: Step<'_>,
        (lane, origin): Found,
    ) -> WarpFault {
        let warp = self.active(step.kernel, step.mask, step.pc);
        let place = (origin.at, u64::from(origin.bytes));
        let access = worker
            .memory
            .bad_access(&warp, origin.space, false, place, None);
        WarpFault {
            other: Some(OtherSide {
                pc: origin.pc,
                thread: None,
                block: None,
            }),
            ..step.fault_of_lane(FaultKind::UninitialisedRead(UnsetRead::new(access)), lane)
        }
    }
}

/// The first lane of `mask` in which a register is unset, and its load.
fn first_use(unset: Option<&Unset>, mask: u32) -> Result<(), Found> {
    let used = unset.map_or(0, |unset| unset.lanes() & mask);
    match unset {
        Some(unset) if used != 0 => {
            let lane = used.trailing_zeros();
            Err((lane, unset.origins[lane as usize]))
        }
        _ => Ok(()),
    }
}

fn slot(slots: &mut Vec<Option<Box<Unset>>>, number: u32) -> &mut Option<Box<Unset>> {
    let number = number as usize;
    if slots.len() <= number {
        slots.resize(number + 1, None);
    }
    &mut slots[number]
}

fn set(slot: &mut Option<Box<Unset>>, mask: u32, new: &Unset) {
    if slot.is_none() && new.lanes() & mask == 0 {
        return;
    }
    let old = slot.get_or_insert_with(|| Box::new(Unset::NONE));
    old.update(mask, new);
    if old.lanes() == 0 {
        *slot = None;
    }
}
