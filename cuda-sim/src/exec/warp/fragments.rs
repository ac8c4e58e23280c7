//! Fragments of a divergent warp: which one runs first, and where they converge.

use super::{PATIENCE, Pause, Warp};
use crate::exec::lane_mask::lanes;
use crate::program::op::R;

/// Threads of a warp at one instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fragment {
    pub pc: u32,
    pub mask: u32,
    /// Waits for other threads to arrive here.
    pub parked: bool,
    /// Has spun for long; others go first.
    pub tired: bool,
    pub rest: Rest,
}

/// Whether threads rest at a `try_wait` until the phase of their mbarrier is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Rest {
    #[default]
    No,
    /// The try is counted.
    Resting,
    /// As above, but the next answer is final.
    MustAnswer,
}

impl Fragment {
    /// The same threads at another instruction.
    pub(super) fn at(self, pc: u32) -> Fragment {
        Fragment { pc, ..self }
    }

    /// Only these threads.
    pub(super) fn only(self, mask: u32) -> Fragment {
        Fragment { mask, ..self }
    }

    /// The threads wait.
    pub(super) fn parked(self) -> Fragment {
        Fragment {
            parked: true,
            ..self
        }
    }
}

/// Outcome of a branch by a table.
pub(super) struct Jump {
    /// Threads went different ways.
    pub splits: bool,
    /// Some went back.
    pub backward: bool,
}

impl Warp {
    /// The runnable fragment that is furthest back. Tired ones only when all others are, too.
    pub(super) fn take_next(&mut self) -> Option<Fragment> {
        if let [only] = self.fragments[..]
            && !only.parked
        {
            self.fragments.clear();
            return Some(Fragment {
                tired: false,
                ..only
            });
        }
        let furthest_back = |fragments: &[Fragment], tired: bool| {
            let runnable = fragments
                .iter()
                .enumerate()
                .filter(|(_, f)| !f.parked && f.tired <= tired);
            runnable.min_by_key(|(_, f)| f.pc).map(|(i, _)| i)
        };
        let next = furthest_back(&self.fragments, false).or_else(|| {
            let any = furthest_back(&self.fragments, true);
            self.fragments.iter_mut().for_each(|f| f.tired = false);
            any
        })?;
        Some(self.fragments.swap_remove(next))
    }

    /// Puts a fragment back; threads at the same instruction become one.
    pub(super) fn put(&mut self, fragment: Fragment) {
        match self.fragments.iter_mut().find(|f| f.pc == fragment.pc) {
            Some(there) => {
                there.mask |= fragment.mask;
                there.parked = false;
                there.tired = false;
                // Those that come have not tried.
                there.rest = Rest::No;
            }
            None => self.fragments.push(fragment),
        }
    }

    /// The next instruction where another fragment waits.
    pub(super) fn meeting_point(&self, pc: u32) -> u32 {
        self.fragments
            .iter()
            .map(|f| f.pc)
            .filter(|&other| other > pc)
            .min()
            .unwrap_or(u32::MAX)
    }

    /// Threads whose guard is false go on; the others come back to this instruction as a fragment
    /// of their own.
    pub(super) fn split_by_guard(&mut self, fragment: Fragment, mask: u32) {
        let rest = fragment.mask & !mask;
        self.put(fragment.at(fragment.pc + 1).only(rest));
        if mask != 0 {
            self.put(fragment.only(mask));
        }
    }

    /// Counts a backward branch. After many, other threads get their turn: those of the warp, and,
    /// if this one may be waiting for them, those of other warps.
    pub(super) fn tire(&mut self, fragment: Fragment) -> Option<Option<Pause>> {
        self.effort += 1;
        if self.effort <= PATIENCE {
            return None;
        }
        self.effort = 0;
        let alone = self.fragments.iter().all(|f| f.parked || f.tired);
        let waiting = alone && self.polled;
        self.put(Fragment {
            tired: true,
            ..fragment
        });
        Some(waiting.then_some(Pause::Waiting))
    }

    /// A fragment rests: others run before it does, those of the warp, or else other warps.
    pub(super) fn rest(&mut self, fragment: Fragment) -> Option<Pause> {
        let alone = self.fragments.iter().all(|f| f.parked || f.tired);
        self.put(Fragment {
            tired: true,
            rest: Rest::Resting,
            ..fragment
        });
        alone.then_some(Pause::Waiting)
    }

    /// True if some threads rest until the phase of an mbarrier is over.
    pub(crate) fn rests(&self) -> bool {
        self.fragments.iter().any(|f| f.rest != Rest::No)
    }

    /// Threads that rest get an answer, whatever it is; from then on the warp may be `restless`: it
    /// never rests again.
    pub(crate) fn stop_resting(&mut self, restless: bool) {
        self.is_restless |= restless;
        let resting = self.fragments.iter_mut().filter(|f| f.rest != Rest::No);
        resting.for_each(|f| f.rest = Rest::MustAnswer);
    }

    /// Position of the warp: that of its fragments which is furthest back, and its threads.
    pub(crate) fn position(&self) -> (u32, u32) {
        let first = self.fragments.iter().min_by_key(|f| f.pc);
        first.map_or((0, 0), |f| (f.pc, f.mask))
    }

    /// The first thread of `mask` whose `index` is beyond a table of `targets` entries, and its
    /// index.
    pub(super) fn beyond_table(&self, mask: u32, targets: usize, index: R) -> Option<(u32, u32)> {
        let index: &[u32; 32] = self.registers.read(index);
        let lane = lanes(mask).find(|&lane| index[lane] as usize >= targets)?;
        Some((lane as u32, index[lane]))
    }

    /// Each thread of `mask` goes to the target that its `index` names; the rest of the fragment
    /// goes on.
    pub(super) fn branch_by_lane(
        &mut self,
        fragment: Fragment,
        mask: u32,
        targets: &[u32],
        index: R,
    ) -> Jump {
        let index: [u32; 32] = *self.registers.read(index);
        // Lanes that are not in the mask hold anything.
        let target = |lane: usize| targets[(index[lane] as usize).min(targets.len() - 1)];
        let first = target(mask.trailing_zeros() as usize & 31);
        let rest = fragment.mask & !mask;
        let mut jump = Jump {
            splits: rest != 0,
            backward: false,
        };
        if rest != 0 {
            self.put(fragment.at(fragment.pc + 1).only(rest));
        }
        for lane in lanes(mask) {
            let target = target(lane);
            jump.backward |= target <= fragment.pc;
            jump.splits |= target != first;
            self.put(fragment.at(target).only(1 << lane));
        }
        jump
    }
}
