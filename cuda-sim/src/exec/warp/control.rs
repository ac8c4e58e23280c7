//! Control flow of a warp: branches, exits, block barriers.

use std::ops::ControlFlow;

use super::fragments::{Fragment, Rest};
use super::{Pause, Step, Warp};
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::WarpFault;
use crate::exec::lane_mask::FULL;
use crate::fault::FaultKind;
use crate::program::op::{Fence, Mbarrier, MbarrierOp, Op, R};

impl Warp {
    /// Takes a branch: moves the fragment, and `meeting` with it, if all of its threads go the same
    /// way. Breaks if the fragment has been put back.
    #[inline(always)]
    pub(super) fn branch(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        fragment: &mut Fragment,
        meeting: &mut u32,
        target: u32,
    ) -> Result<ControlFlow<Option<Pause>>, WarpFault> {
        let Step { pc, mask, .. } = step;
        if mask == 0 {
            fragment.pc += 1;
            return Ok(ControlFlow::Continue(()));
        }
        let rest = fragment.mask & !mask;
        if rest != 0 {
            worker.counters.tallies.instructions[pc as usize].splits += 1;
            self.put(fragment.at(target).only(mask));
            self.put(fragment.at(pc + 1).only(rest));
            return Ok(ControlFlow::Break(None));
        }
        fragment.pc = target;
        if target <= pc {
            self.check_budget(step)?;
            if let Some(pause) = self.tire(*fragment) {
                return Ok(ControlFlow::Break(pause));
            }
            *meeting = self.meeting_point(target);
        }
        // A jump forward may go past the meeting point: then this fragment waits there.
        if target > *meeting {
            self.put(*fragment);
            return Ok(ControlFlow::Break(None));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// True if the threads of `mask` rest at a wait for an mbarrier, at which they did so or not
    /// before: `try_wait`, and the phase is over for none of them.
    pub(super) fn must_rest(&self, op: &Mbarrier, mask: u32, rest: Rest) -> bool {
        let MbarrierOp::Wait { p, rests: true, .. } = op.op else {
            return false;
        };
        let waits = mask != 0 && self.registers.predicate(p) & mask == 0;
        waits && rest != Rest::MustAnswer && !self.is_restless
    }

    /// A fragment comes to an operation that the whole warp runs. Threads whose guard is false go
    /// on; the others wait, parked, for the rest of the warp. True if all are there.
    fn is_whole(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        fragment: Fragment,
    ) -> bool {
        let Step { pc, mask, .. } = step;
        if mask == self.live {
            return true;
        }
        self.uncount(worker, pc, mask);
        match mask == fragment.mask {
            true => self.put(fragment.parked()),
            false => self.split_by_guard(fragment, mask),
        }
        false
    }

    /// `barrier.cluster` and `setmaxnreg`, of the whole warp. Breaks if it must wait for its other
    /// threads, or, with a pause, for others.
    pub(super) fn come_to_resource(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        fragment: Fragment,
    ) -> Result<ControlFlow<Option<Pause>>, WarpFault> {
        if !self.is_whole(worker, step, fragment) {
            return Ok(ControlFlow::Break(None));
        }
        let goes_on = match *step.op {
            Op::ClusterBarrier { waits, relaxed } => {
                self.meet_cluster(worker, step, waits, relaxed)?
            }
            Op::SetMaxRegisters { increases, count } => {
                self.set_max_registers(worker, step, increases, count.into())?
            }
            _ => unreachable!("neither of the two"),
        };
        if goes_on {
            return Ok(ControlFlow::Continue(()));
        }
        self.poll();
        self.phase_wait = Some(step.pc);
        self.uncount(worker, step.pc, step.mask);
        self.put(fragment);
        Ok(ControlFlow::Break(Some(Pause::Waiting)))
    }

    /// `barrier.cluster`. False if the warp must wait for others.
    fn meet_cluster(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        waits: bool,
        relaxed: bool,
    ) -> Result<bool, WarpFault> {
        if !waits && !relaxed {
            worker.checks.fence(self.number, Fence::Device);
        }
        let Some(cluster) = &mut worker.cluster else {
            unreachable!("a kernel that uses clusters runs in one")
        };
        let checks = &mut worker.checks;
        let clocks = checks.enabled.then_some(&mut checks.shared.clocks);
        if !waits {
            let ends = cluster.arrive(self.number, clocks);
            worker.changed |= ends.map_err(|kind| step.fault(kind))?;
            return Ok(true);
        }
        let over = cluster.wait((self.number, step.mask), clocks);
        over.map_err(|kind| step.fault(kind))
    }

    /// `setmaxnreg`. False if it must wait for registers that other warps give back.
    fn set_max_registers(
        &self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        increases: bool,
        count: u32,
    ) -> Result<bool, WarpFault> {
        let pool = &mut worker.registers;
        if let Err(what) = pool.check(self.number, increases, count) {
            return Err(step.fault(FaultKind::BadRegisterCount { what }));
        }
        let is_set = pool.set(self.number, count);
        worker.changed |= is_set;
        Ok(is_set)
    }

    /// Takes a branch by a table. The fragment has been put back in pieces.
    pub(super) fn branch_by_table(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        fragment: Fragment,
        table: u32,
        index: R,
    ) -> Result<(), WarpFault> {
        let Step {
            kernel, pc, mask, ..
        } = step;
        let targets = &kernel.branch_tables[table as usize];
        if let Some((lane, index)) = self.beyond_table(mask, targets.len(), index) {
            let targets = targets.len() as u32;
            return Err(step.fault_of_lane(FaultKind::BadBranch { index, targets }, lane));
        }
        let jump = self.branch_by_lane(fragment, mask, targets, index);
        worker.counters.tallies.instructions[pc as usize].splits += u64::from(jump.splits);
        if jump.backward {
            self.check_budget(step)?;
        }
        self.effort += u32::from(jump.backward);
        Ok(())
    }

    /// A warp that has run more instructions than it may is in an endless loop.
    #[inline(always)]
    fn check_budget(&self, step: Step<'_>) -> Result<(), WarpFault> {
        let budget = step.budget;
        match self.executed > budget {
            true => Err(step.fault(FaultKind::Runaway { budget })),
            false => Ok(()),
        }
    }

    /// The threads in `mask` leave the kernel.
    pub(super) fn leave(&mut self, fragment: &mut Fragment, mask: u32) -> Result<(), WarpFault> {
        self.live &= !mask;
        if let Some(fault) = self.left_behind(mask) {
            return Err(fault);
        }
        // Whoever waits for these threads need not any more.
        self.fragments.iter_mut().for_each(|f| f.parked = false);
        fragment.mask &= !mask;
        Ok(())
    }

    /// Parks the threads at a product of a warpgroup. The warp pauses there if all its threads are
    /// there.
    pub(super) fn come_to_product(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        fragment: Fragment,
    ) -> Result<Option<Pause>, WarpFault> {
        if step.mask != 0 && self.live != FULL {
            return Err(step.fault(FaultKind::MissingLanes {
                members: FULL,
                present: self.live,
            }));
        }
        if !self.is_whole(worker, step, fragment) {
            return Ok(None);
        }
        if self.loaded_unset.is_some() {
            self.follow_unset(worker, step)?;
        }
        self.put(fragment.parked());
        Ok(Some(Pause::Product { pc: step.pc }))
    }

    /// Parks the threads at a block barrier. The warp pauses there if all its threads are there.
    pub(super) fn come_to_barrier(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        fragment: Fragment,
    ) -> Option<Pause> {
        if !self.is_whole(worker, step, fragment) {
            return None;
        }
        self.put(fragment.parked());
        Some(Pause::Barrier { pc: step.pc })
    }
}
