//! Blocks whose warps cannot go on, and the faults of those that never will.

use super::{Block, BlockFault, State, fault};
use crate::exec::checks::engines::{Engine, Issue};
use crate::exec::host_thread::HostThread;
use crate::exec::operations::mbarrier;
use crate::exec::warp::Warp;
use crate::fault::{FaultKind, WaitedBarrier};
use crate::program::Kernel;
use crate::program::op::Op;

/// How often warps that rest at a `try_wait` are asked to go on. Then they count their tries, or do
/// something else in between, and rest no more.
const MAX_ASKS: u32 = 64;

impl BlockFault {
    /// Adds what the warps of another block of the cluster wait for, none of which can go on.
    pub(crate) fn add_waits(&mut self, index: [u32; 3], other: BlockFault) {
        let FaultKind::Deadlock { barriers } = &mut self.fault.kind else {
            return;
        };
        let FaultKind::Deadlock { barriers: others } = other.fault.kind else {
            return;
        };
        let [x, y, z] = index;
        barriers.extend(others.into_iter().map(|barrier| WaitedBarrier {
            name: format!("{} of block ({x}, {y}, {z})", barrier.name),
            ..barrier
        }));
    }
}

impl Block {
    /// Has warps that rest at a `try_wait` go on, as if they had rested for long enough: they may
    /// have something else to do. False if there are none, or if they have been asked and came back
    /// to rest.
    pub(super) fn ask_again(&mut self) -> bool {
        if self.asked || !self.warps.iter().any(Warp::rests) {
            return false;
        }
        self.asked = true;
        self.asks += 1;
        let restless = self.asks > MAX_ASKS;
        let resting = self.warps.iter_mut().filter(|warp| warp.rests());
        resting.for_each(|warp| warp.stop_resting(restless));
        true
    }

    /// The fault of a block that ends while a bulk copy may still access its shared memory, or
    /// another block of the cluster.
    pub(super) fn ends_too_early(&self, worker: &HostThread<'_>) -> Option<BlockFault> {
        let found = worker.checks.shared.clocks.unfinished();
        let faults = found.filter_map(|(engine, issue)| {
            let Issue { pc, thread, block } = issue;
            let kind = match engine {
                Engine::Products { .. } | Engine::BulkWrites { .. } => return None,
                Engine::BulkGroups { .. } | Engine::Barrier(_) => FaultKind::UnfinishedBulkCopy,
                Engine::Visitor { .. } => {
                    let [x, y, z] = self.index;
                    let what = format!(
                        "nothing orders this before the end of block ({x}, {y}, {z}), whose shared memory it accesses"
                    );
                    FaultKind::BadCluster { what }
                }
            };
            Some(BlockFault {
                block,
                ..fault(thread as usize / 32, pc, 1 << (thread % 32), kind, None)
            })
        });
        faults.min_by_key(|fault| fault.fault.pc)
    }

    /// The warps that wait for phases of mbarriers, and the addresses of these.
    fn phase_waits(&self, kernel: &Kernel) -> Vec<(u32, u64)> {
        let address = |w: usize| {
            let waits = self.states[w] == State::Ready;
            let pc = self.warps[w].phase_wait().filter(|_| waits)?;
            let Op::Mbarrier(op) = kernel.code[pc as usize].op else {
                return None;
            };
            let lane = self.warps[w].position().1.trailing_zeros() & 31;
            Some((
                w as u32,
                mbarrier::address(&self.warps[w].registers, &op, lane),
            ))
        };
        (0..self.warps.len()).filter_map(address).collect()
    }

    /// The fault of a block whose warps wait for ever: where the first of those is that wait for an
    /// mbarrier, otherwise the first one.
    pub(super) fn deadlock(&self, kernel: &Kernel, worker: &HostThread<'_>) -> BlockFault {
        let states = || self.states.iter().enumerate();
        let at_mbarrier = states().find_map(|(w, s)| match s {
            State::Ready => Some((w, self.warps[w].phase_wait()?, self.warps[w].position().1)),
            State::Waiting { .. } | State::AtProduct { .. } | State::Finished => None,
        });
        if at_mbarrier.is_none()
            && let Some(fault) = self.waits_for_warpgroup()
        {
            return fault;
        }
        let at_barrier = || {
            states().find_map(|(w, s)| match s {
                State::Waiting { pc, .. } => Some((w, *pc, self.warps[w].waiting())),
                State::Ready | State::AtProduct { .. } | State::Finished => None,
            })
        };
        let waiting = at_mbarrier.or_else(at_barrier);
        let (w, pc, mask) = waiting.unwrap_or((0, 0, self.warps[0].waiting()));
        let kind = match kernel.code[pc as usize].op {
            Op::SetMaxRegisters { count, .. } => worker.registers.exhausted(count.into()),
            _ => FaultKind::Deadlock {
                barriers: mbarrier::waited_for(worker, &self.phase_waits(kernel)),
            },
        };
        fault(w, pc, mask, kind, None)
    }
}
