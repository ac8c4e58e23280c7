//! Asynchronous copies that no thread has waited for yet.
//!
//! Copies belong to the thread that began them, and so do the groups that they are committed in. A
//! wait ends the older groups of its own thread, and from then on their targets are what that
//! thread has just written: the others need a barrier.

use crate::exec::lane_mask::lanes;

/// The copies of a block.
#[derive(Default)]
pub(crate) struct CopiesInFlight {
    /// By warp.
    warps: Vec<WarpCopies>,
}

#[derive(Clone, Default)]
struct WarpCopies {
    copies: Vec<CopyInFlight>,
    /// Groups that each lane has committed.
    committed: [u32; 32],
}

/// One thread's copy.
#[derive(Clone, Copy)]
pub(crate) struct CopyInFlight {
    pub lane: u8,
    /// Words of the target, and the first of them.
    pub words: u8,
    pub word: u32,
    pub pc: u32,
    /// Host address of the source, and the words that were read there.
    pub from: u64,
    pub read: [u32; 4],
    pub bytes: u32,
    /// The groups of its thread that come before it.
    pub group: u32,
}

impl CopyInFlight {
    /// The words of its target.
    pub(super) fn target(&self) -> std::ops::Range<usize> {
        self.word as usize..self.word as usize + usize::from(self.words)
    }
}

impl CopiesInFlight {
    /// Forgets all copies; returns those of which nobody has waited for.
    pub(super) fn end(&mut self) -> impl Iterator<Item = CopyInFlight> {
        std::mem::take(&mut self.warps)
            .into_iter()
            .flat_map(|warp| warp.copies)
    }

    /// The copies of a warp.
    fn warp(&mut self, warp: usize) -> &mut WarpCopies {
        if self.warps.len() <= warp {
            self.warps.resize(warp + 1, WarpCopies::default());
        }
        &mut self.warps[warp]
    }

    pub(super) fn begin(&mut self, warp: usize, mut copy: CopyInFlight) {
        let copies = self.warp(warp);
        copy.group = copies.committed[usize::from(copy.lane)];
        copies.copies.push(copy);
    }

    /// The lanes in `mask` commit what they have begun as a group each.
    pub(crate) fn commit(&mut self, warp: usize, mask: u32) {
        let copies = self.warp(warp);
        lanes(mask).for_each(|lane| copies.committed[lane] += 1);
    }

    /// Takes the copies that a wait of the lanes in `mask` ends, in the order in which they began.
    pub(super) fn take_ended(
        &mut self,
        warp: usize,
        mask: u32,
        newest: Option<u32>,
    ) -> Vec<CopyInFlight> {
        let WarpCopies { copies, committed } = self.warp(warp);
        let ends = |copy: &mut CopyInFlight| {
            let lane = usize::from(copy.lane);
            let old = newest.is_none_or(|newest| committed[lane] - copy.group > newest);
            mask >> lane & 1 != 0 && old
        };
        copies.extract_if(.., ends).collect()
    }

    /// The thread that copies to a word, and the instruction.
    pub(super) fn to_word(&self, word: usize) -> Option<(u32, u32)> {
        self.warps.iter().enumerate().find_map(|(warp, copies)| {
            let copy = copies
                .copies
                .iter()
                .find(|copy| copy.target().contains(&word))?;
            Some((warp as u32 * 32 + u32::from(copy.lane), copy.pc))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_groups_that_a_wait_can_leave_are_all() {
        let copy = |word| CopyInFlight {
            lane: 3,
            words: 1,
            word,
            pc: 0,
            from: 0,
            read: [0; 4],
            bytes: 4,
            group: 0,
        };
        let mut copies = CopiesInFlight::default();
        for word in 0..2 {
            copies.begin(0, copy(word));
            copies.commit(0, u32::MAX);
        }
        let mut ended = |newest| {
            let ended = copies.take_ended(0, u32::MAX, Some(newest));
            ended.iter().map(|copy| copy.word).collect::<Vec<_>>()
        };
        assert_eq!(ended(u32::MAX), []);
        assert_eq!(ended(2), []);
        assert_eq!(ended(1), [0]);
        assert_eq!(ended(0), [1]);
    }
}
