//! Order of `__syncthreads()`: checks that the warps of a block come to them in step.
//!
//! A barrier counts warps, wherever in the source they come to it, so warps with different roles
//! may each have their own. But if warps have met at different ones, and then come to the same one
//! at different times, some of them have missed a barrier or taken one too many. Barriers are the
//! same if their lines in the source are: the compiler may copy one.

use std::collections::HashMap;

use crate::program::{Kernel, Source};

/// The meetings of a block's warps, from the first one on that was at different barriers.
#[derive(Default)]
pub(crate) struct SyncthreadsOrder {
    /// Instructions of that first meeting that are not the same barrier.
    different: Option<[u32; 2]>,
    meetings: u32,
    /// Number of times that each warp came to each barrier.
    arrivals: HashMap<(usize, Source), u32>,
    /// At which meeting warps came to a barrier for the n-th time.
    met: HashMap<(Source, u32), u32>,
}

/// A warp that is out of step, at an instruction, and the barrier at which others have met it
/// before.
pub(crate) struct OutOfStep {
    pub warp: usize,
    pub pc: u32,
    pub other: u32,
}

impl SyncthreadsOrder {
    pub(crate) fn start(&mut self) {
        if self.different.is_some() {
            *self = SyncthreadsOrder::default();
        }
    }

    /// The warps in `waiting` meet, each at an instruction. The first one that is out of step.
    pub(crate) fn meet(
        &mut self,
        kernel: &Kernel,
        waiting: impl Iterator<Item = (usize, u32)> + Clone,
    ) -> Option<OutOfStep> {
        let (_, first) = waiting.clone().next()?;
        if self.different.is_none() {
            let is_another = |pc: u32| {
                pc != first
                    && matches!((kernel.source_of(pc), kernel.source_of(first)),
                        (Some(here), Some(there)) if here != there)
            };
            let (_, other) = waiting.clone().find(|&(_, pc)| is_another(pc))?;
            self.different = Some([first, other]);
        }
        self.meetings += 1;
        let mut found = None;
        for (warp, pc) in waiting {
            let Some(place) = kernel.source_of(pc) else {
                continue;
            };
            let times = self.arrivals.entry((warp, place.clone())).or_default();
            *times += 1;
            let met = self
                .met
                .entry((place.clone(), *times))
                .or_insert(self.meetings);
            if *met != self.meetings && found.is_none() {
                let pair = self.different.unwrap_or([pc; 2]);
                let other = pair
                    .into_iter()
                    .find(|&other| kernel.source_of(other).is_some_and(|other| other != place));
                let other = other.unwrap_or(pair[0]);
                found = Some(OutOfStep { warp, pc, other });
            }
        }
        found
    }
}
