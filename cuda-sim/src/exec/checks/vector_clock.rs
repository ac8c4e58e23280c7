//! Vector clocks of the warps of a block: what happens before what.
//!
//! Time is a counter that moves on at every synchronisation; where blocks run in order
//! ([`crate::exec::scheduling::in_order`]), it is one counter for all of them. A warp's accesses
//! between two synchronisations bear the time at which that interval began. `seen[w][u]` is the
//! time up to which what warp `u` did comes before what `w` does now. A barrier passes on all that
//! its warps have seen, and their own past; a `.sync` operation orders the lanes of one warp that
//! take part; a fence followed by an atomic or volatile access releases, and an atomic or volatile
//! access acquires. (A vector clock per warp, as in FastTrack: Flanagan and Freund, PLDI 2009.)
//! [`Engines`] have rows of their own behind the warps': what one begins comes after the past of
//! its issuers, and before what a warp does that has waited for it.

use std::collections::HashMap;
use std::ops::Range;

use crate::exec::checks::device_clock::{DeviceClock, WarpTimes, merge};
use crate::exec::checks::engines::{Engine, Engines};
use crate::exec::lane_fault::OtherSide;
use crate::exec::lane_mask::lanes as of_mask;
use crate::fault::Agent;

/// Clock of a warp: the accesses that come before a moment.
#[derive(Clone, Default)]
pub(crate) struct Past {
    /// Of the own block.
    view: WarpTimes,
    /// Of all blocks, as far as fences have made it visible to the whole device.
    visible: DeviceClock,
    /// Of the own block, as far as fences have made it visible to the asynchronous proxy.
    proxied: Proxied,
}

/// Ordinary accesses that the asynchronous proxy sees; `None` before the first fence for it.
type Proxied = Option<Box<WarpTimes>>;

impl Past {
    fn merge(&mut self, other: &Past) {
        merge(&mut self.view, &other.view);
        self.visible.merge(&other.visible);
        merge_proxied(&mut self.proxied, &other.proxied);
    }
}

impl Past {
    /// Each of them learns what the others know of all blocks.
    pub(crate) fn share_visible(pasts: &mut [Past]) {
        let mut all = DeviceClock::default();
        for past in pasts.iter() {
            all.merge(&past.visible);
        }
        for past in pasts {
            past.visible.merge(&all);
        }
    }
}

fn merge_proxied(known: &mut Proxied, more: &Proxied) {
    match (known.as_mut(), more) {
        (Some(known), Some(more)) => merge(known, more),
        (None, Some(_)) => known.clone_from(more),
        (_, None) => {}
    }
}

#[derive(Default)]
pub(crate) struct BlockClocks {
    now: u32,
    warps: usize,
    /// When each warp's present interval began.
    clock: WarpTimes,
    seen: Vec<WarpTimes>,
    /// Each warp's knowledge of all blocks' past, as far as it is visible to the whole device.
    visible: Vec<DeviceClock>,
    /// Each warp's knowledge of what the asynchronous proxy sees.
    proxied: Vec<Proxied>,
    engines: Engines,
    /// For each warp, the time up to which it knows the past of all.
    floor: WarpTimes,
    /// Up to when lane l of a warp knows the past of lane m, at [l][m]: for warps whose lanes met
    /// in groups.
    lanes: HashMap<usize, Box<[WarpTimes; 32]>>,
    /// Clock that each warp released to its block with its last fence.
    fenced: Vec<Option<Past>>,
    /// Clocks that were released to the block through each flag, by address.
    flags: HashMap<u64, Past>,
    /// By address of a barrier in shared memory.
    mbarriers: HashMap<u64, Phases>,
}

/// Clock that arrivals at a barrier in shared memory released.
#[derive(Default)]
struct Phases {
    /// In phases that are over.
    over: Past,
    /// In the present one.
    present: Past,
    start: Initialisation,
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
    /// Begins a block at the time `now`, or later: nothing that happened before matters. Returns
    /// the first time of the block.
    pub(crate) fn start(&mut self, warps: usize, now: u32) -> u32 {
        let before = self.now.max(now);
        self.now = before;
        self.tick();
        self.warps = warps;
        self.clock = [self.now; 32];
        self.floor = [before; 32];
        self.seen.clear();
        self.seen.resize(warps, [before; 32]);
        self.visible.clear();
        self.visible.resize(warps, DeviceClock::default());
        self.proxied.clear();
        self.proxied.resize(warps, None);
        self.engines.start(warps);
        self.fenced.clear();
        self.fenced.resize(warps, None);
        self.flags.clear();
        self.mbarriers.clear();
        self.lanes.clear();
        self.now
    }

    /// True when the time is about to overflow; then all records must be cleared.
    pub(crate) fn is_worn(&self) -> bool {
        self.now > MAX_TIME / 2
    }

    /// Current time of each warp.
    pub(crate) fn now(&self) -> u32 {
        self.now
    }

    /// Goes on with a block that rested until the time `now`.
    pub(crate) fn resume(&mut self, now: u32) {
        self.now = self.now.max(now);
    }

    /// When the present interval of `warp` began.
    #[inline(always)]
    pub(crate) fn clock(&self, warp: usize) -> u32 {
        self.clock[warp]
    }

    /// The time up to which `warp` has seen all warps.
    #[inline(always)]
    pub(crate) fn floor(&self, warp: usize) -> u32 {
        self.floor[warp]
    }

    /// True if what `other` did in its interval `time` comes before what `warp` does now.
    pub(crate) fn has_seen(&self, warp: usize, other: usize, time: u32) -> bool {
        time <= self.seen[warp][other]
    }

    /// True if what thread `other` of the block did in its interval `time` comes before what `lane`
    /// of `warp` does now.
    pub(crate) fn thread_has_seen(&self, warp: usize, lane: u32, other: u32, time: u32) -> bool {
        let other_warp = other as usize / 32;
        self.has_seen(warp, other_warp, time)
            || (other_warp == warp
                && self
                    .lanes
                    .get(&warp)
                    .is_some_and(|lanes| time <= lanes[lane as usize & 31][other as usize & 31]))
    }

    /// True if what some other lane of `warp` did in its interval `time` comes before what `lane`
    /// does now.
    pub(crate) fn has_met_any(&self, warp: usize, lane: u32, time: u32) -> bool {
        let row = self.lanes.get(&warp).map(|lanes| lanes[lane as usize & 31]);
        self.has_seen(warp, warp, time) || row.is_some_and(|row| row.iter().any(|&t| time <= t))
    }

    /// The lanes in `members` have met at a `.sync` operation; `live` are all that are left of the
    /// warp.
    pub(crate) fn sync_warp(&mut self, warp: usize, members: u32, live: u32) {
        if members != live {
            let lanes = self
                .lanes
                .entry(warp)
                .or_insert_with(|| Box::new([[0; 32]; 32]));
            // What one of them knew, all know now.
            let all = of_mask(members).fold([0; 32], |mut all, lane| {
                merge(&mut all, &lanes[lane]);
                all[lane] = self.now;
                all
            });
            of_mask(members).for_each(|lane| lanes[lane] = all);
            self.begin_interval(warp);
            return;
        }
        let before = std::mem::replace(&mut self.seen[warp][warp], self.now);
        self.begin_interval(warp);
        if before == self.floor[warp] {
            self.find_floor(warp);
        }
    }

    /// Clock of the next access of `warp`.
    fn past(&self, warp: usize) -> Past {
        let mut view = self.seen[warp];
        view[warp] = self.now;
        Past {
            view,
            visible: self.visible[warp].clone(),
            proxied: self.proxied[warp].clone(),
        }
    }

    /// The warp learns that this comes before what it does next.
    fn learn(&mut self, warp: usize, past: &Past) {
        merge(&mut self.seen[warp], &past.view);
        self.visible[warp].merge(&past.visible);
        merge_proxied(&mut self.proxied[warp], &past.proxied);
        self.find_floor(warp);
    }

    /// Clock that a barrier passes on for `warp`, which has arrived and goes on without waiting.
    pub(crate) fn arrive(&mut self, warp: usize, passed_on: &mut Past) {
        passed_on.merge(&self.past(warp));
        self.begin_interval(warp);
    }

    /// The warp goes on behind a barrier that passes this on.
    pub(crate) fn pass(&mut self, warp: usize, past: &Past) {
        self.learn(warp, past);
        self.begin_interval(warp);
    }

    /// A barrier lets the warps in `waiting` go on. `gone` have ended. `passed_on` is what others
    /// have passed on. True if these are all warps: then everything so far is before everything
    /// from now on.
    pub(crate) fn release(
        &mut self,
        waiting: impl Iterator<Item = usize> + Clone,
        gone: impl Iterator<Item = usize> + Clone,
        passed_on: &Past,
    ) -> bool {
        let met = || waiting.clone().chain(gone.clone());
        if met().count() == self.warps {
            let mut visible = passed_on.visible.clone();
            self.visible.iter().for_each(|more| {
                visible.merge(more);
            });
            self.visible.fill(visible);
            let mut proxied = passed_on.proxied.clone();
            self.proxied
                .iter()
                .for_each(|more| merge_proxied(&mut proxied, more));
            self.proxied.fill(proxied);
            let mut seen = [self.now; 32];
            for engine in self.engines.places() {
                let rows = self.seen[..self.warps].iter().chain([&passed_on.view]);
                seen[engine] = rows.map(|row| row[engine]).max().unwrap_or(0);
            }
            self.seen[..self.warps].fill(seen);
            let floor = self.engines.known_until(&seen).unwrap_or(self.now);
            self.floor[..self.warps].fill(floor.min(self.now));
            self.tick();
            self.clock[..self.warps].fill(self.now);
            return true;
        }
        let mut all = passed_on.clone();
        met().for_each(|warp| all.merge(&self.past(warp)));
        self.tick();
        for warp in waiting {
            self.learn(warp, &all);
            self.clock[warp] = self.now;
        }
        false
    }

    /// The warp, one of block `block`, ran a fence: what comes before is released by its next flag
    /// to its block, or to the whole device. Behind a barrier, another warp's flag releases it to
    /// the device, too.
    pub(crate) fn fence(&mut self, block: u32, warp: usize, device: bool) {
        let past = self.past(warp);
        if device {
            self.visible[warp].merge(&DeviceClock::one_block(block, past.view));
        }
        self.fenced[warp] = Some(past);
        self.begin_interval(warp);
    }

    /// The warp wrote the flag at `address`, by an atomic or volatile access. Returns what it
    /// releases to other blocks.
    pub(crate) fn write_flag(&mut self, warp: usize, address: u64) -> &DeviceClock {
        if let Some(past) = &self.fenced[warp] {
            self.flags.entry(address).or_default().merge(past);
        }
        &self.visible[warp]
    }

    /// The warp read the flag at `address`, by an atomic or volatile access, through which other
    /// blocks have released `others`. A fence behind it is not asked for.
    pub(crate) fn read_flag(&mut self, warp: usize, address: u64, others: Option<&DeviceClock>) {
        if let Some(others) = others {
            self.visible[warp].merge(others);
        }
        if let Some(past) = self.flags.get(&address).cloned() {
            self.learn(warp, &past);
        }
    }

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

    /// The warp makes the barriers that it has initialised visible to the asynchronous proxy.
    pub(crate) fn fence_mbarrier_init(&mut self, warp: usize) {
        for phases in self.mbarriers.values_mut() {
            phases.start.is_visible |= phases.start.warp == warp;
        }
    }

    /// The warp makes all that it has seen visible to the asynchronous proxy.
    pub(crate) fn fence_proxy(&mut self, warp: usize) {
        let view = self.past(warp).view;
        merge_proxied(&mut self.proxied[warp], &Some(Box::new(view)));
        self.begin_interval(warp);
    }

    /// An engine begins an operation of the warps in `issuers`. Returns its place, and a number in
    /// the place of a lane; `None` if there is no place for it.
    pub(crate) fn begin_async(
        &mut self,
        engine: Engine,
        issuers: Range<usize>,
        pc: u32,
    ) -> Option<(usize, u32)> {
        let place = self.engines.place(engine)?;
        let mut all = Past::default();
        issuers.clone().for_each(|warp| all.merge(&self.past(warp)));
        if self.seen.len() <= place {
            self.seen.resize(place + 1, [0; 32]);
        }
        self.seen[place] = all.view;
        self.begin_interval(place);
        let visible = all.proxied.map_or([0; 32], |visible| *visible);
        let number = self.engines.begin(place, self.now, pc, visible);
        issuers.for_each(|warp| self.begin_interval(warp));
        (0..self.warps)
            .chain(self.engines.places())
            .for_each(|row| self.find_floor(row));
        Some((place, number))
    }

    /// True if the newest operation at `place` sees what thread `other` stored at `time`.
    pub(crate) fn proxy_sees(&self, place: usize, other: u32, time: u32) -> bool {
        self.engines.sees(place, other as usize / 32, time)
    }

    /// Who a thread of a record is, which may stand for an engine.
    pub(crate) fn agent_of(&self, thread: Option<u32>) -> Agent {
        let engine = thread.and_then(|thread| self.engines.at(thread as usize / 32));
        engine.map_or(Agent::Thread, Engine::agent)
    }

    /// The side of a race without its thread, if that stands for an engine.
    pub(crate) fn thread_side(&self, side: OtherSide) -> OtherSide {
        let is_real = |thread: &u32| (*thread as usize) < 32 * self.warps;
        OtherSide {
            thread: side.thread.filter(is_real),
            ..side
        }
    }

    /// Where the barrier at `address` was initialised, if the newest operation at `place` does not
    /// see that.
    pub(crate) fn unseen_initialisation(&self, place: usize, address: u64) -> Option<u32> {
        let start = self.mbarriers.get(&address)?.start;
        let sees = start.is_visible || self.engines.sees(place, start.warp, start.time);
        (!sees).then_some(start.pc)
    }

    /// The warp has waited for what `place` has done up to `time`.
    pub(crate) fn wait_async(&mut self, warp: usize, place: usize, time: u32) {
        let seen = &mut self.seen[warp][place];
        *seen = time.max(*seen);
        self.find_floor(warp);
    }

    /// What `place` did up to `time` comes before what waits for the phase of the barrier at
    /// `address`. The phase is over, if it `ends`.
    pub(crate) fn complete_on_mbarrier(
        &mut self,
        address: u64,
        place: usize,
        time: u32,
        ends: bool,
    ) {
        let phases = self.mbarriers.entry(address).or_default();
        let known = &mut phases.present.view[place];
        *known = time.max(*known);
        if ends {
            let present = std::mem::take(&mut phases.present);
            phases.over.merge(&present);
        }
    }

    /// The instruction of the newest operation of `engine`, if no warp has waited for it.
    pub(crate) fn unfinished(&self, engine: Engine) -> Option<u32> {
        let seen = |place: usize| self.seen[..self.warps].iter().map(move |row| row[place]);
        let latest = |place| seen(place).max().unwrap_or(0);
        self.engines.newest_after(engine, latest)
    }

    /// True if some warp does not know the end of all that engines have begun.
    pub(crate) fn has_open_engines(&self) -> bool {
        let open = |row| self.engines.known_until(row).is_some();
        self.seen[..self.warps].iter().any(open)
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
            let present = std::mem::take(&mut phases.present);
            phases.over.merge(&present);
        }
        if releases {
            self.begin_interval(warp);
        }
    }

    /// A warp of another block of the cluster arrives at a barrier. It releases what it knows of
    /// all blocks. The phase is over, if it `ends`.
    pub(crate) fn arrive_from_outside(&mut self, address: u64, visible: &DeviceClock, ends: bool) {
        let phases = self.mbarriers.entry(address).or_default();
        phases.present.visible.merge(visible);
        if ends {
            let present = std::mem::take(&mut phases.present);
            phases.over.merge(&present);
        }
    }

    /// The warp has seen that a phase of a barrier is over.
    pub(crate) fn pass_mbarrier(&mut self, warp: usize, address: u64) {
        if let Some(phases) = self.mbarriers.get(&address) {
            let over = phases.over.clone();
            self.learn(warp, &over);
        }
    }

    /// Knowledge of `warp` of other blocks' past.
    pub(crate) fn other_blocks(&self, warp: usize) -> &DeviceClock {
        &self.visible[warp]
    }

    /// Time goes on, up to the end of what stamps can hold. From there on all intervals are one: a
    /// synchronisation orders what comes after it, too, so the block's races are missed, and nobody
    /// is accused.
    fn tick(&mut self) {
        self.now = MAX_TIME.min(self.now + 1);
    }

    fn begin_interval(&mut self, warp: usize) {
        self.tick();
        self.clock[warp] = self.now;
    }

    fn find_floor(&mut self, warp: usize) {
        let row = &self.seen[warp];
        let warps = row[..self.warps].iter().copied().min().unwrap_or(0);
        let engines = self.engines.known_until(row);
        self.floor[warp] = engines.map_or(warps, |engines| engines.min(warps));
    }
}

/// The latest time that a stamp can hold: 28 bits.
pub(crate) const MAX_TIME: u32 = (1 << 28) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_orders_all_that_wait_and_only_what_came_before() {
        let mut order = BlockClocks::default();
        order.start(3, 0);
        let before = order.clock(0);
        assert!(!order.has_seen(1, 0, before));
        order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
        assert!(order.has_seen(1, 0, before));
        assert!(!order.has_seen(2, 0, before));
        assert!(!order.has_seen(1, 0, order.clock(0)));
    }

    #[test]
    fn who_arrives_passes_on_and_learns_nothing() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        let (producer, consumer) = (order.clock(0), order.clock(1));
        let mut view = Past::default();
        order.arrive(0, &mut view);
        order.release([1].into_iter(), [].into_iter(), &view);
        assert!(order.has_seen(1, 0, producer));
        assert!(!order.has_seen(1, 0, order.clock(0)));
        assert!(!order.has_seen(0, 1, consumer));
    }

    #[test]
    fn what_one_barrier_taught_the_next_passes_on() {
        let mut order = BlockClocks::default();
        order.start(3, 0);
        let first = order.clock(0);
        order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
        order.release([1, 2].into_iter(), [].into_iter(), &Past::default());
        assert!(order.has_seen(2, 0, first));
    }

    #[test]
    fn time_ends_in_a_long_block_and_accuses_nobody() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        order.now = MAX_TIME - 2;
        for round in 0..5 {
            order.sync_warp(0, u32::MAX, u32::MAX);
            let before = order.clock(0);
            assert!(before <= MAX_TIME);
            order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
            assert!(order.has_seen(1, 0, before), "round {round}");
        }
        assert!(order.is_worn());
    }

    #[test]
    fn lanes_that_meet_in_groups_pass_on_what_they_know() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        let before = order.clock(1);
        order.sync_warp(1, 0x0000_00ff, u32::MAX);
        let between = order.clock(1);
        order.sync_warp(1, 0x0000_0ff0, u32::MAX);
        let knows =
            |lane: u32, other: u32, time: u32| order.thread_has_seen(1, lane, 32 + other, time);
        assert!(knows(9, 5, between) && knows(9, 0, before));
        assert!(!knows(9, 0, between) && !knows(0, 9, before));
        assert!(!knows(16, 0, before) && !order.has_met_any(1, 16, before));
        assert!(order.has_met_any(1, 0, before) && !order.has_met_any(1, 0, between));
    }

    #[test]
    fn a_flag_needs_the_fence_before_it() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        let early = order.clock(0);
        order.write_flag(0, 64);
        order.read_flag(1, 64, None);
        assert!(!order.has_seen(1, 0, early));
        order.fence(7, 0, false);
        order.write_flag(0, 64);
        order.read_flag(1, 68, None);
        assert!(!order.has_seen(1, 0, early));
        order.read_flag(1, 64, None);
        assert!(order.has_seen(1, 0, early));
        assert!(!order.has_seen(1, 0, order.clock(0)));
    }

    #[test]
    fn a_wait_acquires_the_phases_that_are_over() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        order.start_mbarrier(0, 8, 0);
        let first = order.clock(0);
        order.arrive_at_mbarrier(0, 8, true, false);
        order.pass_mbarrier(1, 8);
        assert!(!order.has_seen(1, 0, first));
        let second = order.clock(0);
        order.arrive_at_mbarrier(0, 8, true, true);
        let third = order.clock(0);
        order.arrive_at_mbarrier(0, 8, true, false);
        order.pass_mbarrier(1, 8);
        assert!(order.has_seen(1, 0, first) && order.has_seen(1, 0, second));
        assert!(!order.has_seen(1, 0, third));
        order.arrive_at_mbarrier(0, 8, false, true);
        order.pass_mbarrier(1, 8);
        assert!(order.has_seen(1, 0, third) && !order.has_seen(1, 0, order.clock(0)));
    }

    #[test]
    fn a_relaxed_arrival_releases_what_came_before_the_fence() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        order.start_mbarrier(0, 8, 0);
        let first = order.clock(0);
        order.fence(7, 0, false);
        let second = order.clock(0);
        order.arrive_at_mbarrier(0, 8, false, true);
        order.pass_mbarrier(1, 8);
        assert!(order.has_seen(1, 0, first) && !order.has_seen(1, 0, second));
    }

    const COPY: Engine = Engine::Barrier(8);

    #[test]
    fn who_waits_for_the_phase_of_a_copy_comes_behind_it_and_nobody_else() {
        let mut order = BlockClocks::default();
        order.start(3, 0);
        order.start_mbarrier(0, 8, 0);
        let (engine, _) = order.begin_async(COPY, 0..1, 0).unwrap();
        let copied = order.clock(engine);
        order.release([0, 1, 2].into_iter(), [].into_iter(), &Past::default());
        assert!(order.has_open_engines());
        assert!((0..3).all(|warp| !order.has_seen(warp, engine, copied)));
        assert!((0..3).all(|warp| order.floor(warp) < copied));
        order.complete_on_mbarrier(8, engine, copied, false);
        order.pass_mbarrier(1, 8);
        assert!(!order.has_seen(1, engine, copied));
        order.arrive_at_mbarrier(0, 8, true, true);
        order.pass_mbarrier(1, 8);
        assert!(order.has_seen(1, engine, copied) && !order.has_seen(2, engine, copied));
        order.release([1, 2].into_iter(), [].into_iter(), &Past::default());
        assert!(order.has_seen(2, engine, copied) && !order.has_seen(0, engine, copied));
        assert!(order.has_open_engines());
        order.pass_mbarrier(0, 8);
        assert!(!order.has_open_engines());
    }

    #[test]
    fn a_copy_sees_what_its_issuer_saw_and_its_proxy_what_a_fence_passed_on() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        let stored = order.clock(1);
        order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
        let (engine, _) = order.begin_async(COPY, 0..1, 0).unwrap();
        assert!(order.has_seen(engine, 1, stored) && !order.proxy_sees(engine, 32, stored));
        // By the issuer, behind the barrier.
        order.fence_proxy(0);
        let late = order.clock(1);
        order.begin_async(COPY, 0..1, 0);
        assert!(order.proxy_sees(engine, 32, stored) && !order.proxy_sees(engine, 32, late));
        // By the writer, before it.
        order.fence_proxy(1);
        order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
        order.begin_async(COPY, 0..1, 0);
        assert!(order.proxy_sees(engine, 32, late));
    }

    #[test]
    fn copies_of_one_engine_are_not_ordered() {
        let mut order = BlockClocks::default();
        order.start(1, 0);
        let (engine, first) = order.begin_async(COPY, 0..1, 7).unwrap();
        let begun = order.clock(engine);
        let (_, second) = order.begin_async(COPY, 0..1, 9).unwrap();
        assert!(first != second && !order.has_seen(engine, engine, begun));
        assert_eq!(order.unfinished(COPY), Some(9));
        order.wait_async(0, engine, begun);
        assert_eq!(order.unfinished(COPY), Some(9));
        order.wait_async(0, engine, order.clock(engine));
        assert_eq!(order.unfinished(COPY), None);
    }

    #[test]
    fn an_initialisation_is_seen_behind_either_fence() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        for (fence, at) in [
            (BlockClocks::fence_mbarrier_init as fn(&mut _, _), 8),
            (BlockClocks::fence_proxy, 16),
        ] {
            order.start_mbarrier(1, at, 5);
            let (engine, _) = order.begin_async(COPY, 0..1, 0).unwrap();
            assert_eq!(order.unseen_initialisation(engine, at), Some(5));
            fence(&mut order, 1);
            order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
            order.begin_async(COPY, 0..1, 0);
            assert_eq!(order.unseen_initialisation(engine, at), None);
        }
    }

    #[test]
    fn only_a_fence_for_the_device_releases_to_other_blocks() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        let early = order.clock(0);
        order.fence(7, 0, false);
        assert!(order.write_flag(0, 64).has_only_times_of(7));
        order.fence(7, 0, true);
        let mut other = BlockClocks::default();
        other.start(2, order.now());
        assert!(!other.other_blocks(1).knows(7, 0, early));
        other.read_flag(1, 64, Some(order.write_flag(0, 64)));
        let knows =
            |other: &BlockClocks, warp, block, by| other.other_blocks(warp).knows(block, by, early);
        assert!(knows(&other, 1, 7, 0) && !knows(&other, 0, 7, 0));
        assert!(!knows(&other, 1, 7, 1) && !knows(&other, 1, 6, 0));
        other.release([0, 1].into_iter(), [].into_iter(), &Past::default());
        assert!(knows(&other, 0, 7, 0));
        assert!(!other.other_blocks(0).knows(7, 0, order.clock(0)));
    }

    #[test]
    fn a_fence_before_a_barrier_and_a_flag_behind_it_release() {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        let early = order.clock(1);
        order.fence(7, 1, true);
        order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
        assert!(order.write_flag(0, 64).knows(7, 1, early));
    }
}
