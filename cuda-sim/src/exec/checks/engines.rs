//! Engines: bulk copies and products of warpgroups, which go on while the warps run, and warps of
//! other blocks of the cluster. Each has a place in the vector clocks ([`super::vector_clock`])
//! behind those of the warps.

use std::collections::VecDeque;

use crate::exec::checks::device_clock::WarpTimes;

/// Who accesses memory asynchronously.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Copies that complete bytes of the mbarrier at this address of shared memory.
    Barrier(u64),
    /// Products of a warpgroup.
    Products { warpgroup: usize },
    /// Copies in the bulk groups of a warp's threads: what they read.
    BulkGroups { warp: usize },
    /// What these copies write to device memory. It touches no shared memory.
    BulkWrites { warp: usize },
    /// A warp of another block of the cluster, whose number in the launch is `block`.
    Visitor { block: u32, warp: usize },
}

/// The engines of a block. Where warps and engines are more than there are places, engines share
/// some: then what one has ended counts as ended for the other, so mistakes are missed and nobody
/// is accused. Without a free place, nothing that engines do is checked.
#[derive(Default)]
pub(crate) struct Engines {
    /// The first place that is no warp's.
    first: usize,
    places: Vec<Place>,
    /// The place of each engine.
    engines: Vec<(Engine, usize)>,
}

/// The instruction of an operation, and the first thread that ran it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Issue {
    pub pc: u32,
    pub thread: u32,
    /// Number of its block in the launch, if that is another one.
    pub block: Option<u32>,
}

#[derive(Default)]
struct Place {
    /// An engine that accesses shared memory has it.
    accesses_shared: bool,
    /// When its last operations began, the newest last.
    begun: VecDeque<u32>,
    /// Operations that it has begun, and the last of them.
    count: u32,
    issue: Issue,
    /// The last may be known to have been made by those who observe it.
    is_relaxed: bool,
    /// What ordinary accesses the asynchronous proxy sees in the newest operation.
    visible: WarpTimes,
}

/// Operations of a place that are told apart.
const MAX_BEGUN: usize = 32;

/// Places in a vector clock.
const PLACES: usize = 32;

impl Engines {
    pub(super) fn start(&mut self, warps: usize) {
        self.first = warps;
        self.places.clear();
        self.engines.clear();
    }

    /// The place of an engine; `None` if there is none left.
    pub(super) fn place(&mut self, engine: Engine) -> Option<usize> {
        if let Some((_, place)) = self.engines.iter().find(|(known, _)| *known == engine) {
            return Some(*place);
        }
        let free = PLACES.checked_sub(self.first).filter(|&free| free > 0)?;
        let place = self.first + self.engines.len() % free;
        self.engines.push((engine, place));
        if self.places.len() < place + 1 - self.first {
            self.places.push(Place::default());
        }
        let accesses_shared = !matches!(engine, Engine::BulkWrites { .. });
        self.places[place - self.first].accesses_shared |= accesses_shared;
        Some(place)
    }

    /// A place begins an operation at `time`, which sees ordinary accesses up to `visible`. Returns
    /// a number, which stands for a lane: other operations of about that time have another.
    pub(super) fn begin(
        &mut self,
        place: usize,
        time: u32,
        issue: Issue,
        visible: WarpTimes,
    ) -> u32 {
        let place = &mut self.places[place - self.first];
        if place.begun.len() == MAX_BEGUN {
            place.begun.pop_front();
        }
        place.begun.push_back(time);
        place.visible = visible;
        place.issue = issue;
        place.is_relaxed = false;
        place.count += 1;
        place.count % 32
    }

    /// The newest operation of a place sees ordinary accesses up to `visible`.
    pub(super) fn set_visible(&mut self, place: usize, visible: WarpTimes) {
        self.places[place - self.first].visible = visible;
    }

    /// The newest operation of a place is a relaxed access of a visitor.
    pub(super) fn set_relaxed(&mut self, place: usize, is_relaxed: bool) {
        self.places[place - self.first].is_relaxed = is_relaxed;
    }

    /// True if the newest operation of a place sees what `warp` stored at `time`.
    pub(super) fn sees(&self, place: usize, warp: usize, time: u32) -> bool {
        warp >= self.first || time <= self.places[place - self.first].visible[warp]
    }

    /// The engines at a place.
    pub(super) fn at(&self, place: usize) -> impl Iterator<Item = Engine> {
        let here = self
            .engines
            .iter()
            .filter(move |(_, known)| *known == place);
        here.map(|(engine, _)| *engine)
    }

    /// The places, from the first.
    pub(super) fn places(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.places.len()
    }

    /// The engines that have a place of their own and access shared memory, and their newest
    /// operation, if that is later than `time` says.
    pub(super) fn newer_than(
        &self,
        time: impl Fn(usize) -> u32,
    ) -> impl Iterator<Item = (Engine, Issue)> {
        let newest = move |&(engine, place): &(Engine, usize)| {
            let Place {
                accesses_shared,
                begun,
                is_relaxed,
                ..
            } = &self.places[place - self.first];
            let is_open = *accesses_shared && *begun.back()? > time(place) && !is_relaxed;
            let issue = self.newest_at(place)?;
            is_open.then_some((engine, issue))
        };
        self.engines.iter().filter_map(newest)
    }

    /// The newest operation at a place, if one engine alone has it.
    pub(super) fn newest_at(&self, place: usize) -> Option<Issue> {
        let alone = self.at(place).count() == 1;
        alone.then(|| self.places[place - self.first].issue)
    }

    /// The latest time before the first operation on shared memory that one who has `seen` these
    /// does not know: `None` if it knows all.
    #[inline(always)]
    pub(super) fn known_until(&self, seen: &WarpTimes) -> Option<u32> {
        // Most kernels have no engines, and all barriers ask.
        match self.places.is_empty() {
            true => None,
            false => self.known_until_of_places(seen),
        }
    }

    fn known_until_of_places(&self, seen: &WarpTimes) -> Option<u32> {
        let until = |(i, place): (usize, &Place)| {
            let seen = match place.accesses_shared {
                true => seen[self.first + i],
                false => return None,
            };
            let unknown = place.begun.iter().position(|&time| time > seen)?;
            // What came before the oldest that is told apart may not be known, either.
            match unknown == 0 && place.count as usize > MAX_BEGUN {
                true => Some(seen),
                false => Some(place.begun[unknown] - 1),
            }
        };
        self.places.iter().enumerate().filter_map(until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_share_places_when_there_are_too_few() {
        let mut engines = Engines::default();
        engines.start(30);
        let places = (0..5).map(|at| engines.place(Engine::Barrier(8 * at)));
        assert_eq!(places.collect::<Vec<_>>(), [30, 31, 30, 31, 30].map(Some));
        assert_eq!(engines.place(Engine::Barrier(8)), Some(31));
        assert_eq!(engines.places(), 30..32);
        engines.start(32);
        assert_eq!(engines.place(Engine::Barrier(8)), None);
    }

    #[test]
    fn what_is_known_ends_before_the_first_operation_that_is_not() {
        let mut engines = Engines::default();
        engines.start(2);
        let first = engines.place(Engine::Barrier(0)).unwrap();
        let second = engines.place(Engine::Products { warpgroup: 0 }).unwrap();
        let mut seen = [0; 32];
        assert_eq!(engines.known_until(&seen), None);
        for time in [10, 20] {
            engines.begin(first, time, Issue::default(), [0; 32]);
        }
        engines.begin(second, 15, Issue::default(), [0; 32]);
        assert_eq!(engines.known_until(&seen), Some(9));
        seen[first] = 10;
        assert_eq!(engines.known_until(&seen), Some(14));
        seen[second] = 15;
        assert_eq!(engines.known_until(&seen), Some(19));
        seen[first] = 20;
        assert_eq!(engines.known_until(&seen), None);
        for time in 30..100 {
            engines.begin(first, time, Issue::default(), [0; 32]);
        }
        assert_eq!(engines.known_until(&seen), Some(20));
        seen[first] = 90;
        assert_eq!(engines.known_until(&seen), Some(90));
    }
}
