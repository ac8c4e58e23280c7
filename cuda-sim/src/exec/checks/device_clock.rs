//! Vector clock over blocks: the past of other blocks that a warp knows.
//!
//! For each block, the time up to which what its warps did is visible: the part of a vector clock
//! that fences release and flags in device memory pass on ([`super::vector_clock`]). It is shared
//! until it changes, because most blocks acquire the same.

use std::rc::Rc;

/// Up to which time the past of each warp is known.
pub(crate) type WarpTimes = [u32; 32];

/// Blocks that are told apart. Beyond, all of them are taken for as known as the best known one: so
/// races may be missed, and nobody is accused.
const MAX_BLOCKS: usize = 512;

/// Times of each block that are known; cheap to copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceClock(Option<Rc<Clocks>>);

#[derive(Debug, Clone, Default)]
struct Clocks {
    /// The time up to which the past of every block is known.
    floor: u32,
    /// Up to which time the past of each warp is known, by block; in the order of blocks.
    blocks: Vec<(u32, Rc<WarpTimes>)>,
}

impl DeviceClock {
    /// Clock of the accesses of one block's warps up to these times.
    pub(crate) fn one_block(block: u32, view: WarpTimes) -> DeviceClock {
        DeviceClock(Some(Rc::new(Clocks {
            floor: 0,
            blocks: vec![(block, Rc::new(view))],
        })))
    }

    /// True if nothing is known of other blocks than this one.
    pub(crate) fn has_only_times_of(&self, block: u32) -> bool {
        self.0.as_ref().is_none_or(|clocks| {
            clocks.floor == 0 && clocks.blocks.iter().all(|entry| entry.0 == block)
        })
    }

    /// True if what `warp` of `block` did in its interval `time` is known.
    pub(crate) fn knows(&self, block: u32, warp: usize, time: u32) -> bool {
        let Some(clocks) = &self.0 else { return false };
        let of_block = || {
            let at = clocks.blocks.binary_search_by_key(&block, |entry| entry.0);
            at.is_ok_and(|at| time <= clocks.blocks[at].1[warp])
        };
        time <= clocks.floor || of_block()
    }

    /// Up to which time the past of each warp of a block is known, if it is told apart.
    pub(crate) fn times_of(&self, block: u32) -> Option<&WarpTimes> {
        let blocks = &self.0.as_ref()?.blocks;
        let at = blocks.binary_search_by_key(&block, |entry| entry.0).ok()?;
        Some(&blocks[at].1)
    }

    /// The same of any block: at least up to what is known of every one.
    pub(crate) fn known_of(&self, block: u32) -> WarpTimes {
        let floor = self.0.as_ref().map_or(0, |clocks| clocks.floor);
        let mut known = [floor; 32];
        if let Some(times) = self.times_of(block) {
            merge(&mut known, times);
        }
        known
    }

    /// Adds what `other` knows. True if that is more.
    pub(crate) fn merge(&mut self, other: &DeviceClock) -> bool {
        let Some(more) = &other.0 else { return false };
        let Some(mine) = &mut self.0 else {
            self.0 = Some(Rc::clone(more));
            return true;
        };
        if Rc::ptr_eq(mine, more) || mine.covers(more) {
            return false;
        }
        Rc::make_mut(mine).merge(more);
        true
    }
}

impl Clocks {
    fn covers(&self, other: &Clocks) -> bool {
        let covers = |(block, view): &(u32, Rc<WarpTimes>)| {
            let at = self.blocks.binary_search_by_key(block, |entry| entry.0);
            let known = at.ok().map(|at| &self.blocks[at].1);
            known.is_some_and(|known| Rc::ptr_eq(known, view))
                || (0..32).all(|w| view[w] <= known.map_or(0, |known| known[w]).max(self.floor))
        };
        other.floor <= self.floor && other.blocks.iter().all(covers)
    }

    fn merge(&mut self, other: &Clocks) {
        self.floor = self.floor.max(other.floor);
        for (block, view) in &other.blocks {
            match self.blocks.binary_search_by_key(block, |entry| entry.0) {
                Ok(at) if Rc::ptr_eq(&self.blocks[at].1, view) => {}
                Ok(at) => merge(Rc::make_mut(&mut self.blocks[at].1), view),
                Err(at) => self.blocks.insert(at, (*block, Rc::clone(view))),
            }
        }
        if self.blocks.len() > MAX_BLOCKS {
            let times = self.blocks.drain(..).flat_map(|(_, view)| *view);
            self.floor = times.fold(self.floor, u32::max);
        }
    }
}

pub(crate) fn merge(into: &mut WarpTimes, from: &WarpTimes) {
    for (into, from) in into.iter_mut().zip(from) {
        *into = (*into).max(*from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(time: u32) -> WarpTimes {
        std::array::from_fn(|warp| time + warp as u32)
    }

    #[test]
    fn blocks_and_warps_are_told_apart() {
        let mut known = DeviceClock::default();
        assert!(known.merge(&DeviceClock::one_block(3, view(10))));
        assert!(known.knows(3, 0, 10) && known.knows(3, 5, 15));
        assert!(!known.knows(3, 0, 11) && !known.knows(2, 0, 1));
        assert!(known.merge(&DeviceClock::one_block(1, view(20))));
        assert!(known.knows(1, 0, 20) && known.knows(3, 0, 10) && !known.knows(3, 0, 20));
    }

    #[test]
    fn what_was_known_before_changes_nothing() {
        let mut known = DeviceClock::one_block(3, view(10));
        known.merge(&DeviceClock::one_block(7, view(30)));
        for less in [
            DeviceClock::default(),
            known.clone(),
            DeviceClock::one_block(3, view(9)),
            DeviceClock::one_block(7, view(30)),
        ] {
            assert!(!known.merge(&less));
        }
        assert!(known.merge(&DeviceClock::one_block(5, view(0))));
        assert!(known.merge(&DeviceClock::one_block(7, view(31))));
    }

    #[test]
    fn too_many_blocks_are_all_known_as_well_as_the_best() {
        let mut known = DeviceClock::default();
        for block in 0..=MAX_BLOCKS as u32 {
            assert!(!known.knows(9999, 0, 1));
            known.merge(&DeviceClock::one_block(block, view(block)));
        }
        assert!(known.knows(9999, 0, MAX_BLOCKS as u32));
        assert!(!known.knows(9999, 0, MAX_BLOCKS as u32 + 100));
        assert!(!known.merge(&DeviceClock::one_block(2, view(100))));
        assert_eq!(known.known_of(2), [MAX_BLOCKS as u32 + 31; 32]);
        known.merge(&DeviceClock::one_block(2, view(600)));
        assert_eq!(known.known_of(2), view(600));
        assert_eq!(known.known_of(3), [MAX_BLOCKS as u32 + 31; 32]);
    }
}
