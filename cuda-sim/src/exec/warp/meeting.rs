//! Operations between lanes, and of a whole warp: they run for the threads whose groups are
//! complete.

use super::convergence;
use super::fragments::Fragment;
use super::{Step, Warp};
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::WarpFault;
use crate::exec::operations::dispatch::Handlers;
use crate::exec::operations::lanes::Members;
use crate::exec::operations::matrix_rows;
use crate::fault::FaultKind;
use crate::program::op::Op;

impl Warp {
    /// Runs an operation between lanes, or of a whole warp, for the threads whose groups are
    /// complete. False if the others wait for theirs: then the fragment has been put back.
    #[inline(always)]
    pub(super) fn meet(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        fragment: Fragment,
    ) -> Result<bool, WarpFault> {
        let Step { op, pc, mask, .. } = step;
        if mask != fragment.mask {
            self.uncount(worker, pc, mask);
            self.split_by_guard(fragment, mask);
            return Ok(false);
        }
        let members = self.members(op);
        if let Some(lane) = members.stranger(mask) {
            let kind = FaultKind::MissingLanes {
                members: members.group(lane),
                present: mask,
            };
            return Err(step.fault_of_lane(kind, lane));
        }
        let ready = members.complete_in(mask);
        if ready != 0 && self.loaded_unset.is_some() {
            self.follow_unset(
                worker,
                Step {
                    mask: ready,
                    ..step
                },
            )?;
        }
        if ready != 0 && op.accesses_matrix() {
            self.sync(worker, ready, &members);
            let mut warp = self.active(step.kernel, ready, pc);
            let result = matrix_rows::execute(&mut warp, worker, op);
            let loaded = worker.checks.loaded.take();
            result.map_err(|trap| WarpFault::new(*trap, pc, ready))?;
            match (op, loaded) {
                (Op::MatrixLoad(rows), Some(loaded)) => {
                    self.note_unset_rows(worker, step, rows, &loaded);
                }
                (Op::MatrixStore(rows), _) => self.store_unset_rows(worker, step, rows),
                _ => {}
            }
        } else if ready != 0 {
            self.exchange(worker, step.handlers, op, ready, mask, &members)
                .map_err(|(kind, lane)| step.fault_of_lane(kind, lane))?;
        }
        if ready != mask {
            self.hold_back(step.kernel, worker, op, fragment, ready, &members);
        }
        Ok(ready == mask)
    }

    /// Runs an operation between lanes for those in `mask`, whose groups are complete; `present`
    /// are all that are there. A fault with the lane that it concerns.
    #[inline(always)]
    fn exchange(
        &mut self,
        worker: &mut HostThread<'_>,
        handlers: &Handlers,
        op: &Op,
        mask: u32,
        present: u32,
        members: &Members,
    ) -> Result<(), (FaultKind, u32)> {
        if self.disagreement.is_some() {
            self.settle_disagreement(mask);
        }
        if let Op::WarpBarrier { .. } = op {
            self.sync(worker, mask, members);
            return Ok(());
        }
        // CUDA documents no memory order for these. But the lanes of a group run them together, and
        // a GPU runs the accesses of a warp to memory in order: kernels rely on it, and are not
        // accused.
        if worker.memory.shared.len() > 0 || worker.checks.device.is_in_order() {
            self.sync(worker, mask, members);
        }
        match op {
            Op::MatrixProduct(_) | Op::MatrixProduct64(_) | Op::QuadPairProducts(_) => {
                let overlaps = op.is_counted() && worker.copies.any();
                worker.counters.tallies.tensor_during_copies += u64::from(overlaps);
                // SAFETY: `dispatch::handlers` chose handlers that this processor can run.
                unsafe { (handlers.product)(&mut worker.matrix_unit, &mut self.registers, op) };
                return Ok(());
            }
            Op::ProductFence | Op::ProductCommit | Op::ProductWait { .. } => {
                self.order_products(worker, op);
                return Ok(());
            }
            Op::MatrixTranspose { d, a } => {
                matrix_rows::transpose(&mut self.registers, mask, *d, *a);
                return Ok(());
            }
            _ => {}
        }
        // SAFETY: `dispatch::handlers` chose handlers that this processor can run.
        let inactive = unsafe { (handlers.lanes)(&mut self.registers, op, mask, members) };
        match inactive {
            Some((lane, source)) => Err(convergence::inactive(lane, source, present, members)),
            None => Ok(()),
        }
    }
}
