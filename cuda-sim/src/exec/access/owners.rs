//! Threads to which the words of a run belong.

/// The thread of each word, or the first of several that share it: `first + (i >> shift) * step`
/// for word i.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordOwners {
    pub first: u64,
    /// 1 << shift words in a row belong to one thread.
    pub shift: u32,
    pub step: u64,
}

impl WordOwners {
    /// One thread, the owner of all words. So are the words of a sector, which have the same thread
    /// by their shift.
    #[inline(always)]
    pub(crate) fn one(thread: u64) -> WordOwners {
        WordOwners {
            first: thread,
            shift: 3,
            step: 0,
        }
    }

    /// The owner of word `i`.
    #[inline(always)]
    pub(crate) fn owner(self, i: usize) -> u64 {
        self.first + (i as u64 >> self.shift) * self.step
    }

    /// The owners as threads of the block, if these are lanes of a warp.
    #[inline(always)]
    pub(crate) fn in_warp(self, warp: usize) -> WordOwners {
        WordOwners {
            first: self.first + 32 * warp as u64,
            ..self
        }
    }

    /// The owners of the words from `i` on, the first of a thread's.
    #[inline(always)]
    pub(crate) fn behind(self, i: usize) -> WordOwners {
        WordOwners {
            first: self.owner(i),
            ..self
        }
    }
}
