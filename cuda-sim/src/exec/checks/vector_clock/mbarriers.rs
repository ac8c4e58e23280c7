//! Barriers in shared memory (`mbarrier`): what their phases pass on, and who sees that they are
//! initialised.

use super::{BlockClocks, Past};

/// Clock that arrivals at a barrier in shared memory released.
#[derive(Default)]
pub(super) struct Phases {
    /// In phases that are over.
    over: Past,
    /// In the present one.
    present: Past,
    start: Initialisation,
}

impl Phases {
    /// The present phase is over: who waits for it learns what arrivals passed on.
    fn end(&mut self) {
        let present = std::mem::take(&mut self.present);
        self.over.merge(&present);
    }
}

/// When a barrier was initialised.
#[derive(Clone, Copy, Default)]
struct Initialisation {
    warp: usize,
    time: u32,
    pc: u32,
    /// By a fence of its own.
    is_visible: bool,
}

impl BlockClocks {
    /// The barrier at `address` of shared memory begins, by the instruction at `pc`.
    pub(crate) fn start_mbarrier(&mut self, warp: usize, address: u64, pc: u32) {
        let start = Initialisation {
            warp,
            time: self.clock[warp],
            pc,
            is_visible: false,
        };
        let phases = Phases {
            start,
            ..Phases::default()
        };
        self.mbarriers.insert(address, phases);
    }

    /// True if nothing orders the initialisation of the barrier at `address` before what `warp`
    /// does now.
    pub(crate) fn may_precede_initialisation(&self, warp: usize, address: u64) -> bool {
        let phases = self.mbarriers.get(&address);
        phases.is_some_and(|Phases { start, .. }| {
            start.warp != warp && !self.has_seen(warp, start.warp, start.time)
        })
    }

    /// The same for a visitor at `place`. It comes behind a barrier of the cluster, for which
    /// `fence.mbarrier_init` is enough.
    pub(crate) fn visit_may_precede_initialisation(&self, place: usize, address: u64) -> bool {
        let phases = self.mbarriers.get(&address);
        let is_visible = phases.is_some_and(|phases| phases.start.is_visible);
        !is_visible && self.may_precede_initialisation(place, address)
    }

    /// The warp makes the barriers that it has initialised visible to the asynchronous proxy.
    pub(crate) fn fence_mbarrier_init(&mut self, warp: usize) {
        for phases in self.mbarriers.values_mut() {
            phases.start.is_visible |= phases.start.warp == warp;
        }
    }

    /// Where the barrier at `address` was initialised, if the newest operation at `place` does not
    /// see that.
    pub(crate) fn unseen_initialisation(&self, place: usize, address: u64) -> Option<u32> {
        let start = self.mbarriers.get(&address)?.start;
        let sees = start.is_visible || self.engines.sees(place, start.warp, start.time);
        (!sees).then_some(start.pc)
    }

    /// The warp arrives at a barrier: it releases what it did so far, or before its last fence if
    /// it does not `release`. The phase is over, if it `ends`.
    pub(crate) fn arrive_at_mbarrier(
        &mut self,
        warp: usize,
        address: u64,
        releases: bool,
        ends: bool,
    ) {
        let past = match releases {
            true => Some(self.past(warp)),
            false => self.fenced[warp].clone(),
        };
        let phases = self.mbarriers.entry(address).or_default();
        if let Some(past) = past {
            phases.present.merge(&past);
        }
        if ends {
            phases.end();
        }
        if releases {
            self.begin_interval(warp);
        }
    }

    /// What an engine did at its place up to a time comes before what waits for the phase of the
    /// barrier at `address`; of one without a `place`, nothing is known. The phase is over, if it
    /// `ends`.
    pub(crate) fn complete_on_mbarrier(
        &mut self,
        address: u64,
        place: Option<(usize, u32)>,
        ends: bool,
    ) {
        let phases = self.mbarriers.entry(address).or_default();
        if let Some((place, time)) = place {
            let known = &mut phases.present.view[place];
            *known = time.max(*known);
        }
        if ends {
            phases.end();
        }
    }

    /// The warp has seen that a phase of a barrier is over.
    pub(crate) fn pass_mbarrier(&mut self, warp: usize, address: u64) {
        if let Some(phases) = self.mbarriers.get(&address) {
            let over = phases.over.clone();
            self.learn(warp, &over);
        }
    }
}
