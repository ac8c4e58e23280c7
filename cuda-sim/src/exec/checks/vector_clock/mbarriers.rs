//! Barriers in shared memory (`mbarrier`): what their phases pass on, what their initialisation
//! comes before, and the bytes that their present phase was told to expect. Bulk copies access a
//! barrier by the generic proxy (PTX ISA 9.3, `cp.async.bulk`: "This instruction accesses its
//! mbarrier operand using generic-proxy"), so an order suffices for them as for threads, without a
//! fence for a proxy.

use super::{BlockClocks, Past};

/// Clock that arrivals at a barrier in shared memory released.
#[derive(Default)]
pub(super) struct Phases {
    /// In phases that are over.
    over: Past,
    /// In the present one.
    present: Past,
    /// Bytes that the present one has been told to expect.
    expected: u64,
    start: Initialisation,
}

impl Phases {
    /// The present phase is over: who waits for it learns what arrivals passed on.
    fn end(&mut self) {
        let present = std::mem::take(&mut self.present);
        self.over.merge(&present);
        self.expected = 0;
    }
}

/// When a barrier was initialised.
#[derive(Clone, Copy, Default)]
struct Initialisation {
    warp: usize,
    time: u32,
}

impl BlockClocks {
    /// The barrier at `address` of shared memory begins.
    pub(crate) fn start_mbarrier(&mut self, warp: usize, address: u64) {
        let start = Initialisation {
            warp,
            time: self.clock[warp],
        };
        let phases = Phases {
            start,
            ..Phases::default()
        };
        self.mbarriers.insert(address, phases);
    }

    /// True if there is a barrier at `address` that was not ended.
    pub(crate) fn has_mbarrier(&self, address: u64) -> bool {
        self.mbarriers.contains_key(&address)
    }

    pub(crate) fn end_mbarrier(&mut self, address: u64) {
        self.mbarriers.remove(&address);
    }

    /// The present phase of the barrier at `address` is told to expect more bytes.
    pub(crate) fn expect_on_mbarrier(&mut self, address: u64, bytes: u64) {
        self.mbarriers.entry(address).or_default().expected += bytes;
    }

    /// The bytes that the present phase of the barrier at `address` has been told to expect.
    pub(crate) fn expected_on_mbarrier(&self, address: u64) -> u64 {
        let phases = self.mbarriers.get(&address);
        phases.map_or(0, |phases| phases.expected)
    }

    /// True if nothing orders the initialisation of the barrier at `address` before what `warp`
    /// does now.
    pub(crate) fn may_precede_initialisation(&self, warp: usize, address: u64) -> bool {
        let phases = self.mbarriers.get(&address);
        phases.is_some_and(|Phases { start, .. }| {
            start.warp != warp && !self.has_seen(warp, start.warp, start.time)
        })
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
