//! Bytes of registers that were loaded from memory that nobody had written.
//!
//! Such a load is no mistake by itself: a `float4` may have a `w` that nobody sets, and a word the
//! fourth byte of three of colour. From the first such load on, the warp keeps for each byte of its
//! registers the lanes in which it is unset, with the place of the load. It follows the bytes
//! through operations (`byte_flow`), with the values of the other operands: a shift by a register
//! moves them, a mask clears them. The report comes when a lane uses one: as an address or a
//! condition of control, for other lanes, in an atomic operation. Products of matrices pass them on
//! to the rows and columns that they concern (`matrices`).
//!
//! A store copies the bytes: they are unset in its target, too. But device memory is where results
//! go: a store to it of no set byte is a use, and one of a computed number of which a byte is
//! unset. What may be unset beside others is any byte of a copy, a whole element of a vector, or
//! half of a word: a field, not a part of a number.
//!
//! Registers that may be used before they are set are another matter: `unset_registers`.

mod follow;
mod matrices;
mod unset;

use self::unset::{Found, Unset, first_use, set, slot};
use super::{Step, Warp};
use crate::exec::access::lane_operands::lane_place;
use crate::exec::checks::unwritten_bytes::{LoadedBytes, UnsetLoad};
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{OtherSide, WarpFault};
use crate::exec::lane_mask::lanes;
use crate::fault::{FaultKind, UnsetRead};
use crate::program::op::{Condition, Op, P, R, on_registers};

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
