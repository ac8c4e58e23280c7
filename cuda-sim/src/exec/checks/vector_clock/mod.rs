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

mod asynchronous;
mod mbarriers;
mod visitors;

use std::collections::HashMap;

use crate::exec::checks::device_clock::{DeviceClock, WarpTimes, merge};
use crate::exec::checks::engines::Engines;
use crate::exec::lane_mask::lanes as of_mask;
pub(crate) use asynchronous::SharedSide;
use mbarriers::Phases;
pub(crate) use visitors::Visitor;

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
    /// The block's serial number in the records of device memory.
    pub serial: u32,
    /// It is one of several in a cluster, which tell each other of their own past.
    pub in_cluster: bool,
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

impl BlockClocks {
    /// Begins a block at the time `now`, or later: nothing that happened before matters. Returns
    /// the first time of the block, which comes before all that its warps do.
    pub(crate) fn start(&mut self, warps: usize, now: u32) -> u32 {
        self.now = self.now.max(now);
        self.tick();
        let first = self.now;
        self.tick();
        self.warps = warps;
        self.clock = [self.now; 32];
        self.floor = [first; 32];
        self.seen.clear();
        self.seen.resize(warps, [first; 32]);
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
        first
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
        self.learn_visible(warp, &past.visible);
        merge_proxied(&mut self.proxied[warp], &past.proxied);
        self.find_floor(warp);
    }

    /// The warp learns of other blocks, and what these know of its own.
    fn learn_visible(&mut self, warp: usize, visible: &DeviceClock) {
        if !self.visible[warp].merge(visible) {
            return;
        }
        if self.in_cluster {
            merge(&mut self.seen[warp], &visible.known_of(self.serial));
        } else if let Some(own) = visible.times_of(self.serial) {
            merge(&mut self.seen[warp], own);
        }
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
            self.visible[..self.warps].iter().for_each(|more| {
                visible.merge(more);
            });
            self.visible[..self.warps].fill(visible);
            let mut proxied = passed_on.proxied.clone();
            self.proxied[..self.warps]
                .iter()
                .for_each(|more| merge_proxied(&mut proxied, more));
            // Otherwise none of them knows anything.
            if proxied.is_some() {
                self.proxied[..self.warps].fill(proxied);
            }
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

    /// The warp ran a fence: what comes before is released by its next flag
    /// to its block, or to the whole device. Behind a barrier, another warp's flag releases it to
    /// the device, too.
    pub(crate) fn fence(&mut self, warp: usize, device: bool) {
        let past = self.past(warp);
        if device {
            self.visible[warp].merge(&DeviceClock::one_block(self.serial, past.view));
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
            self.learn_visible(warp, others);
        }
        if let Some(past) = self.flags.get(&address).cloned() {
            self.learn(warp, &past);
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
mod tests;
