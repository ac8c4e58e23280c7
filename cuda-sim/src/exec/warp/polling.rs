//! What a warp does that waits for others by polling, and how its block tells that it does so in
//! vain.

use super::fragments::Rest;
use super::{Warp, WarpState};

/// A poll counts as so many backward branches.
const POLL: u32 = 1 << 9;

impl Warp {
    /// A thread may be waiting for another.
    pub(super) fn poll(&mut self) {
        self.effort += POLL;
        self.polled = true;
    }

    pub(super) fn poll_memory(&mut self) {
        self.poll();
        self.reads_outside = true;
    }

    /// Instruction at which the warp has waited in its last turn, if it has polled phases of
    /// mbarriers, and read nothing that may change meanwhile.
    pub(crate) fn phase_wait(&self) -> Option<u32> {
        self.phase_wait.filter(|_| !self.reads_outside)
    }

    /// All that decides what the warp does next, but for memory.
    pub(crate) fn state(&self) -> WarpState {
        let mut fragments = self.fragments.clone();
        fragments.iter_mut().for_each(|f| f.rest = Rest::No);
        fragments.sort_unstable_by_key(|fragment| fragment.pc);
        WarpState {
            fragments,
            registers: self.registers.clone(),
        }
    }

    /// True if the warp has polled memory in its last turn.
    pub(crate) fn has_polled(&self) -> bool {
        self.polled
    }

    /// Instructions that the warp has run.
    pub(crate) fn executed(&self) -> u64 {
        self.executed
    }
}
