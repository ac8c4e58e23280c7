//! Warps of other blocks of the cluster that access shared memory of this one. Each is an
//! [`Engine`] here: its row says what the warp knows of this block while it is here, and what it
//! did travels in its own block's knowledge of other blocks ([`DeviceClock`]).

use super::{BlockClocks, Past};
use crate::exec::checks::device_clock::DeviceClock;
use crate::exec::checks::engines::{Engine, Issue};
use crate::exec::checks::happens_before::thread;

/// A warp that comes from another block.
pub(crate) struct Visitor {
    /// Number of its block in the launch.
    pub block: u32,
    pub warp: usize,
    /// The first lane that comes.
    pub lane: u32,
    /// What it knows of all blocks.
    knowledge: DeviceClock,
    /// It has run a fence: its next flag releases.
    has_fenced: bool,
    /// It makes a relaxed access or arrival: who observes that knows that it was made, which is on
    /// no record.
    pub is_relaxed: bool,
}

impl Visitor {
    pub(crate) fn engine(&self) -> Engine {
        Engine::Visitor {
            block: self.block,
            warp: self.warp,
        }
    }

    /// It brings more knowledge with it.
    pub(crate) fn learn(&mut self, more: &DeviceClock) {
        self.knowledge.merge(more);
    }
}

impl BlockClocks {
    /// A warp of this block, which has this number in the launch, sets out for another one. There
    /// it may release all that it knows; if it does not `release`, only what its fences have made
    /// visible.
    pub(crate) fn set_out(&mut self, block: u32, warp: usize, releases: bool) -> Visitor {
        let mut knowledge = self.visible[warp].clone();
        if releases {
            let view = self.past(warp).view;
            knowledge.merge(&DeviceClock::one_block(self.serial, view));
            self.begin_interval(warp);
        }
        Visitor {
            block,
            warp,
            lane: 0,
            knowledge,
            has_fenced: self.fenced[warp].is_some(),
            is_relaxed: false,
        }
    }

    /// The visitor begins an operation here. Returns its place, and a number in the place of a
    /// lane; `None` if there is no place for it.
    pub(crate) fn receive(
        &mut self,
        visitor: &Visitor,
        engine: Engine,
        pc: u32,
    ) -> Option<(usize, u32)> {
        let place = self.engines.place(engine)?;
        let view = visitor.knowledge.known_of(self.serial);
        let issue = Issue {
            pc,
            thread: thread(visitor.warp, visitor.lane),
            block: Some(visitor.block),
        };
        let number = self.begin_at(place, view, [u32::MAX; 32], issue);
        self.engines.set_relaxed(place, visitor.is_relaxed);
        let rows = self.visible.len().max(place + 1);
        self.visible.resize(rows, DeviceClock::default());
        self.proxied.resize(rows, None);
        self.fenced.resize(rows, None);
        self.visible[place] = visitor.knowledge.clone();
        self.fenced[place] = visitor.has_fenced.then(|| Past {
            view,
            visible: visitor.knowledge.clone(),
            proxied: None,
        });
        self.find_floors();
        Some((place, number))
    }

    /// A visitor for whom there is no place and all warps of the block learn all of each other: so
    /// races are missed, and nobody is accused. Returns what the visitor knows now.
    pub(crate) fn meet(&mut self, visitor: &Visitor) -> DeviceClock {
        let mut knowledge = DeviceClock::one_block(self.serial, [self.now; 32]);
        for warp in 0..self.warps {
            knowledge.merge(&self.visible[warp]);
            self.learn_visible(warp, &visitor.knowledge);
            self.begin_interval(warp);
        }
        knowledge
    }

    /// What an operation at `place` has done up to `time`.
    pub(crate) fn done_at(&self, place: usize, time: u32) -> DeviceClock {
        let mut view = [0; 32];
        view[place] = time;
        DeviceClock::one_block(self.serial, view)
    }

    /// What a visitor at `place` knows when it leaves, what it did here included.
    pub(crate) fn send_off(&self, place: usize) -> DeviceClock {
        let Past { view, visible, .. } = self.past(place);
        let mut knowledge = visible;
        knowledge.merge(&DeviceClock::one_block(self.serial, view));
        knowledge
    }

    /// A warp is back from another block, where it has learned this, perhaps of its own block too.
    pub(crate) fn come_back(&mut self, warp: usize, knowledge: &DeviceClock) {
        self.learn_visible(warp, knowledge);
    }
}
