//! Convergence of lanes at `.sync` operations, and the faults if some lanes never come.

use super::Warp;
use super::fragments::{Fragment, Rest};
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{OtherSide, WarpFault};
use crate::exec::operations::lanes::{self, Members};
use crate::fault::FaultKind;
use crate::program::Kernel;
use crate::program::op::Op;

/// Two lanes that run one `.sync` operation with different masks, though the first one's names
/// both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disagreement {
    pc: u32,
    lane: u32,
    members: u32,
    other: u32,
    other_members: u32,
}

impl Disagreement {
    fn new(pc: u32, (lane, other): (u32, u32), members: &Members) -> Disagreement {
        Disagreement {
            pc,
            lane,
            members: members.group(lane),
            other,
            other_members: members.group(other),
        }
    }

    fn kind(&self) -> FaultKind {
        FaultKind::DifferentMasks {
            lane: self.lane,
            members: self.members,
            other: self.other,
            other_members: self.other_members,
        }
    }
}

/// The fault of a shuffle in which `lane` reads a lane that does not take part, and the lane that
/// it concerns. That one may be there, and count on `lane`.
#[cold]
pub(super) fn inactive(
    lane: u32,
    source: u32,
    present: u32,
    members: &Members,
) -> (FaultKind, u32) {
    if present >> source & 1 != 0 && members.group(source) >> lane & 1 != 0 {
        let disagreement = Disagreement::new(0, (source, lane), members);
        return (disagreement.kind(), source);
    }
    let active = members.group(lane);
    (FaultKind::InactiveLane { source, active }, lane)
}

impl Warp {
    /// Keeps the lanes of `fragment` that are not `ready`, and so have not run `op`, at it until
    /// those that they name come.
    #[cold]
    #[inline(never)]
    pub(super) fn hold_back(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        op: &Op,
        fragment: Fragment,
        ready: u32,
        members: &Members,
    ) {
        let Fragment { pc, mask, .. } = fragment;
        if ready != 0 {
            worker.counters.tallies.instructions[pc as usize].lanes -=
                u64::from((mask & !ready).count_ones());
            if self.disagreement.is_none() {
                let pair = members.disagreement(mask);
                self.disagreement = pair.map(|pair| Disagreement::new(pc, pair, members));
            }
            self.put(fragment.at(pc + 1).only(ready));
            self.put(fragment.only(mask & !ready));
        } else if self.meet_elsewhere(kernel, op, mask, members) {
            self.sync(worker, mask, members);
            self.put(fragment.at(pc + 1));
        } else {
            self.uncount(worker, pc, mask);
            self.put(fragment.parked());
        }
    }

    /// The lanes of `mask` run the operation at which they are: none of them waits for one that ran
    /// it differently.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_disagreement(&mut self, mask: u32) {
        self.disagreement = self.disagreement.filter(|d| mask >> d.lane & 1 == 0);
    }

    /// The fault of a lane that waits for one of `gone`, which has run the same operation with a
    /// different mask, and has left now.
    pub(super) fn left_behind(&self, gone: u32) -> Option<WarpFault> {
        let disagreement = self.disagreement.filter(|d| gone >> d.other & 1 != 0)?;
        Some(self.disagree(disagreement))
    }

    fn disagree(&self, disagreement: Disagreement) -> WarpFault {
        let Disagreement { pc, lane, .. } = disagreement;
        let there = self.fragments.iter().find(|f| f.pc == pc);
        WarpFault {
            kind: disagreement.kind(),
            pc,
            lane,
            mask: there.map_or(1 << lane, |f| f.mask),
            other: None,
        }
    }

    /// The lanes that each lane names, without threads that have left.
    pub(super) fn members(&self, op: &Op) -> Members {
        match lanes::members_of(op) {
            Some(r) => Members::new(self.registers.read::<u32>(r), self.live),
            // Operations on matrices need the whole warp.
            None => Members::All(u32::MAX),
        }
    }

    /// The lanes of `mask` have met, each with those that it names: what one did before, the others
    /// see.
    pub(super) fn sync(&self, worker: &mut HostThread<'_>, mask: u32, members: &Members) {
        if !worker.checks.enabled {
            return;
        }
        let mut left = mask;
        while left != 0 {
            let group = members.group(left.trailing_zeros());
            worker
                .checks
                .shared
                .clocks
                .sync_warp(self.number, group, self.live);
            left &= !group;
        }
    }

    /// Threads may meet at different `bar.warp.sync` instructions, if they name the same threads.
    /// If all of them are there now, those that wait elsewhere go on, and so may `mask`.
    pub(super) fn meet_elsewhere(
        &mut self,
        kernel: &Kernel,
        op: &Op,
        mask: u32,
        members: &Members,
    ) -> bool {
        let Op::WarpBarrier { .. } = op else {
            return false;
        };
        let wanted = members.group(mask.trailing_zeros() & 31);
        let names_the_same = |mask: u32, members: &Members| {
            (0..32).all(|l| mask >> l & 1 == 0 || members.group(l) == wanted)
        };
        let waits = |f: &Fragment| {
            let op = &kernel.code[f.pc as usize].op;
            let barrier = matches!(op, Op::WarpBarrier { .. });
            f.parked && barrier && names_the_same(f.mask, &self.members(op))
        };
        let there: Vec<bool> = self.fragments.iter().map(waits).collect();
        let arrived = self
            .fragments
            .iter()
            .zip(&there)
            .filter(|(_, there)| **there)
            .fold(mask, |all, (f, _)| all | f.mask);
        if wanted & !arrived != 0 || !names_the_same(mask, members) {
            return false;
        }
        self.disagreement = None;
        for (fragment, there) in std::mem::take(&mut self.fragments).into_iter().zip(there) {
            let step = u32::from(there);
            self.put(Fragment {
                pc: fragment.pc + step,
                parked: fragment.parked && !there,
                ..fragment
            });
        }
        true
    }

    /// The block barrier at which some threads of the warp wait for the others, and these threads.
    pub(crate) fn waiting_in_part(&self, kernel: &Kernel) -> Option<(u32, u32)> {
        let waits =
            |f: &&Fragment| f.parked && matches!(kernel.code[f.pc as usize].op, Op::Barrier { .. });
        let first = self.fragments.iter().filter(waits).min_by_key(|f| f.pc)?;
        Some((first.pc, first.mask))
    }

    /// Every fragment waits for threads that will not come.
    pub(super) fn stuck(&self, kernel: &Kernel) -> WarpFault {
        if let Some(disagreement) = self.disagreement {
            return self.disagree(disagreement);
        }
        let at_barrier = |f: &&Fragment| {
            let op = &kernel.code[f.pc as usize].op;
            matches!(op, Op::Barrier { .. } | Op::ClusterBarrier { .. })
        };
        let barrier = self.fragments.iter().find(at_barrier);
        let first = self.fragments.iter().min_by_key(|f| f.pc);
        let waiting = barrier.or(first).copied().unwrap_or(Fragment {
            pc: 0,
            mask: 0,
            parked: true,
            tired: false,
            rest: Rest::No,
        });
        let other = self
            .fragments
            .iter()
            .find(|f| f.pc != waiting.pc)
            .map(|f| OtherSide {
                pc: f.pc,
                thread: Some(self.number as u32 * 32 + f.mask.trailing_zeros()),
                block: None,
            });
        let lane = waiting.mask.trailing_zeros() & 31;
        let kind = if barrier.is_some() {
            FaultKind::DivergentBarrier { other: None }
        } else {
            let members = self.members(&kernel.code[waiting.pc as usize].op);
            if let Some(pair) = members.disagreement(waiting.mask) {
                return self.disagree(Disagreement::new(waiting.pc, pair, &members));
            }
            FaultKind::MissingLanes {
                members: members.group(lane),
                present: waiting.mask,
            }
        };
        WarpFault {
            kind,
            pc: waiting.pc,
            lane,
            mask: waiting.mask,
            other,
        }
    }
}
