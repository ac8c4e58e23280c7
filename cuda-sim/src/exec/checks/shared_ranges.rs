//! Checks of stretches of shared memory that engines access: bulk copies, and operands of products.

use std::ops::Range;

use crate::exec::checks::happens_before::Accessor;
use crate::exec::checks::shared_memory::{
    IN_FLIGHT, Problem, SharedMemoryChecks, is_split, other_side, time,
};
use crate::exec::checks::shared_records::{ALL_BYTES, THREAD, TIME, WRITTEN};
use crate::exec::lane_fault::OtherAccess;
use crate::tensor_map::Swizzle;

/// Fault of a word that an engine accesses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RangeProblem {
    Race(OtherAccess),
    /// It is ordered behind an ordinary store, which the asynchronous proxy may not see.
    NoProxyFence(OtherAccess),
    /// Nobody wrote what it reads.
    Unwritten,
}

/// The records of a word: its last write, and the last reads and their warps.
type Records = (u64, u64, u32);

impl SharedMemoryChecks {
    /// The engine at `access.warp` accesses `bytes`, which are whole words, by an operation with
    /// this number. Most words have the same records as the `last` one, and so need no look of
    /// their own. On failure, the word and what is wrong with it.
    pub(crate) fn access_range(
        &mut self,
        access: Accessor,
        number: u32,
        bytes: Range<u64>,
        write: bool,
        last: &mut Option<[Records; 2]>,
    ) -> Result<(), (usize, RangeProblem)> {
        for word in bytes.start as usize / 4..bytes.end.div_ceil(4) as usize {
            let before = (self.writes[word], self.reads[word], self.readers[word]);
            if let Some([like, (made, read, readers)]) = *last
                && like == before
            {
                (self.writes[word], self.reads[word], self.readers[word]) = (made, read, readers);
                let new = write && self.is_unset(before.0);
                self.unwritten -= usize::from(new);
                continue;
            }
            let sharers = 1 << number;
            let result = match write {
                true => self.write_word(access, word, sharers, 0xf, &mut || false),
                false => match self.read_word(access, word, sharers, 0xf) {
                    Ok(false) => return Err((word, RangeProblem::Unwritten)),
                    result => result.map(drop),
                },
            };
            if let Err((_, problem)) = result {
                let other = match problem {
                    Problem::Race(other) => other,
                    Problem::InFlight(side) => OtherAccess {
                        side,
                        warp: 0,
                        write: true,
                    },
                };
                return Err((word, RangeProblem::Race(other)));
            }
            let stores = match is_split(before.0) {
                true => self.parts[word].map(|part| part.write).to_vec(),
                false => vec![before.0],
            };
            let hidden = |store: &&u64| {
                let thread = (**store & THREAD) as u32;
                time(**store) > self.start
                    && !self.clocks.proxy_sees(access.warp, thread, time(**store))
            };
            if let Some(&store) = stores.iter().find(hidden) {
                return Err((word, RangeProblem::NoProxyFence(other_side(store, true))));
            }
            let after = (self.writes[word], self.reads[word], self.readers[word]);
            let whole = [before.0, before.1, after.0, after.1];
            *last = (!whole.into_iter().any(is_split)).then_some([before, after]);
        }
        Ok(())
    }

    /// The copy of a tile, by its instruction, that wrote some of `bytes` with another swizzle.
    pub(crate) fn other_swizzle(
        &self,
        bytes: Range<u64>,
        swizzle: Swizzle,
    ) -> Option<(u32, Swizzle)> {
        // A copy writes pieces of 16 bytes, many in a row.
        let mut pieces = bytes.step_by(16).filter(|_| !self.swizzles.is_empty());
        let mut last = None;
        pieces.find_map(|at| {
            let pc = other_side(self.writes[(at / 4) as usize], true).side.pc;
            if last.replace(pc) == Some(pc) {
                return None;
            }
            let copied = (*self.swizzles.get(&pc)?)?;
            (copied != swizzle).then_some((pc, copied))
        })
    }

    /// Notes that `bytes` are written, as if before all that the block does: nobody races with
    /// that, and everybody sees it. Words that a copy of the block is about to write stay its own.
    pub(crate) fn mark_written(&mut self, bytes: Range<u64>) {
        for at in bytes {
            let word = (at / 4) as usize;
            if self.writes[word] == IN_FLIGHT {
                continue;
            }
            let was_unset = self.is_unset(self.writes[word]);
            let written = u64::from(self.written(word)) | 1 << (at % 4);
            self.writes[word] = u64::from(self.start) << TIME | ALL_BYTES | written << 32;
            self.unwritten -= usize::from(was_unset && written << 32 == WRITTEN);
        }
    }

    /// True if a record says that some byte of its word was not written in this block.
    fn is_unset(&self, write: u64) -> bool {
        time(write) < self.start || write & WRITTEN != WRITTEN
    }
}
