//! Threads of a warp that wait for each other by name, and what happens if some never come.

use super::{Fragment, Warp, WarpFault};
use crate::exec::core::{Core, OtherSide};
use crate::exec::lanes::{self, Members};
use crate::fault::FaultKind;
use crate::program::Kernel;
use crate::program::op::Op;

impl Warp {
    /// The lanes that each lane names, without threads that have left.
    pub(super) fn members(&self, op: &Op) -> Members {
        match lanes::members_of(op) {
            Some(r) => Members::new(self.registers.read::<u32>(r), self.live),
            None => Members::All(self.live),
        }
    }

    /// The lanes of `mask` have met at `__syncwarp`, each with those that it names: what one did before, the others see.
    pub(super) fn sync(&self, core: &mut Core<'_>, mask: u32, members: &Members) {
        if !core.checks {
            return;
        }
        let mut left = mask;
        while left != 0 {
            let group = members.of(left.trailing_zeros());
            core.watch.order.sync_warp(self.number, group, self.live);
            left &= !group;
        }
    }

    /// Threads may meet at different `bar.warp.sync` instructions, if they name the same threads. If all of them are
    /// there now, those that wait elsewhere go on, and so may `mask`.
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
        let wanted = members.of(mask.trailing_zeros() & 31);
        let names_the_same = |mask: u32, members: &Members| {
            (0..32).all(|l| mask >> l & 1 == 0 || members.of(l) == wanted)
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

    /// Every fragment waits for threads that will not come.
    pub(super) fn stuck(&self, kernel: &Kernel) -> WarpFault {
        let at_barrier =
            |f: &&Fragment| matches!(kernel.code[f.pc as usize].op, Op::Barrier { .. });
        let barrier = self.fragments.iter().find(at_barrier);
        let first = self.fragments.iter().min_by_key(|f| f.pc);
        let waiting = barrier.or(first).copied().unwrap_or(Fragment {
            pc: 0,
            mask: 0,
            parked: true,
            tired: false,
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
            let members = self.members(&kernel.code[waiting.pc as usize].op).of(lane);
            FaultKind::MissingLanes {
                members,
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
