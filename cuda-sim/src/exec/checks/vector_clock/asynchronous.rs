//! Rows of [`Engine`]s: what they begin comes after what each of their issuers knows, and the
//! ordinary accesses of that past are visible to them as far as a fence for the asynchronous proxy
//! lies between.

use std::ops::Range;

use super::{BlockClocks, merge_proxied};
use crate::exec::checks::device_clock::{DeviceClock, WarpTimes};
use crate::exec::checks::engines::{Engine, Issue};
use crate::exec::checks::happens_before::{NO_PC, thread};
use crate::exec::lane_fault::{OtherAccess, OtherSide};
use crate::fault::Agent;

impl BlockClocks {
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
        (pc, lane): (u32, u32),
    ) -> Option<(usize, u32)> {
        let place = self.engines.place(engine)?;
        let (view, visible) = self.common_past(issuers.clone());
        let issue = Issue {
            pc,
            thread: thread(issuers.start, lane),
            block: None,
        };
        let number = self.begin_at(place, view, visible, issue);
        // What it knows of other blocks, because it writes to device memory.
        if let Engine::BulkWrites { warp } = engine {
            let rows = self.visible.len().max(place + 1);
            self.visible.resize(rows, DeviceClock::default());
            self.visible[place] = self.visible[warp].clone();
        }
        issuers.for_each(|warp| self.begin_interval(warp));
        self.find_floors();
        Some((place, number))
    }

    /// From here on, accesses of the newest operation at a place come after what all warps in
    /// `issuers` know.
    pub(crate) fn access_for(&mut self, place: usize, issuers: Range<usize>) {
        let (view, visible) = self.common_past(issuers);
        self.seen[place] = view;
        self.engines.set_visible(place, visible);
        self.find_floor(place);
    }

    /// The times of the block that all warps in `issuers` know, and those that the asynchronous
    /// proxy sees.
    fn common_past(&self, issuers: Range<usize>) -> (WarpTimes, WarpTimes) {
        let lower = |times: &mut WarpTimes, more: &WarpTimes| {
            times
                .iter_mut()
                .zip(more)
                .for_each(|(time, more)| *time = (*time).min(*more));
        };
        let (mut view, mut visible) = ([u32::MAX; 32], [u32::MAX; 32]);
        for warp in issuers {
            let mut seen = self.seen[warp];
            seen[warp] = self.now;
            lower(&mut view, &seen);
            let proxied = self.proxied[warp].as_deref();
            lower(&mut visible, proxied.unwrap_or(&[0; 32]));
        }
        (view, visible)
    }

    /// An operation begins at a place, behind what `view` says, and sees ordinary accesses up to
    /// `visible`. Returns a number in the place of a lane.
    pub(super) fn begin_at(
        &mut self,
        place: usize,
        view: WarpTimes,
        visible: WarpTimes,
        issue: Issue,
    ) -> u32 {
        if self.seen.len() <= place {
            self.seen.resize(place + 1, [0; 32]);
        }
        self.seen[place] = view;
        self.begin_interval(place);
        self.engines.begin(place, self.now, issue, visible)
    }

    pub(super) fn find_floors(&mut self) {
        (0..self.warps)
            .chain(self.engines.places())
            .for_each(|row| self.find_floor(row));
    }

    /// True if the newest operation at `place` sees what thread `other` stored at `time`.
    pub(crate) fn proxy_sees(&self, place: usize, other: u32, time: u32) -> bool {
        self.engines.sees(place, other as usize / 32, time)
    }

    /// The warp has waited for what `place` has done up to `time`.
    pub(crate) fn wait_async(&mut self, warp: usize, place: usize, time: u32) {
        let seen = &mut self.seen[warp][place];
        *seen = time.max(*seen);
        self.find_floor(warp);
    }

    /// The engines whose newest operation no warp knows to have ended, and that operation.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (Engine, Issue)> {
        let latest = |place: usize| {
            let seen = self.seen[..self.warps].iter().map(|row| row[place]);
            seen.max().unwrap_or(0)
        };
        self.engines.newer_than(latest)
    }

    /// True if some warp does not know the end of all that engines have begun.
    pub(crate) fn has_open_engines(&self) -> bool {
        let open = |row| self.engines.known_until(row).is_some();
        self.seen[..self.warps].iter().any(open)
    }

    /// The read of a record of several, of which that of `warp` races. The record knows the
    /// instruction of the last one only; if one of the two is an engine, that is another one.
    pub(crate) fn reader(&self, warp: usize, recorded: OtherAccess) -> OtherAccess {
        if warp == recorded.warp || warp.max(recorded.warp) < self.warps {
            return recorded;
        }
        OtherAccess {
            side: OtherSide {
                pc: self.engines.newest_at(warp).map_or(NO_PC, |issue| issue.pc),
                thread: None,
                block: None,
            },
            warp,
            ..recorded
        }
    }

    /// The side of a race in device memory, whose thread may stand for a bulk copy, in this block
    /// or in another one of the launch.
    pub(crate) fn device_side_of(&self, other: OtherAccess) -> SharedSide {
        let is_copy = other.warp >= self.warps;
        SharedSide {
            side: OtherSide {
                thread: other.side.thread.filter(|_| !is_copy),
                ..other.side
            },
            by: match is_copy {
                true => Agent::BulkCopy,
                false => Agent::Thread,
            },
            is_here: true,
        }
    }

    /// The side of a race in shared memory, whose thread may stand for an engine: then it is
    /// nobody's, or one of another block.
    pub(crate) fn side_of(&self, other: OtherAccess) -> SharedSide {
        let side = other.side;
        let here = SharedSide {
            side,
            by: Agent::Thread,
            is_here: true,
        };
        let mut engines = self.engines.at(other.warp);
        let Some(engine) = engines.next() else {
            return here;
        };
        let nobody = OtherSide {
            thread: None,
            ..side
        };
        match engine {
            Engine::Visitor { block, warp } => SharedSide {
                side: match engines.next() {
                    None => OtherSide {
                        thread: side.thread.map(|lane| thread(warp, lane % 32)),
                        block: Some(block),
                        ..side
                    },
                    // One of several.
                    Some(_) => nobody,
                },
                is_here: false,
                ..here
            },
            _ => SharedSide {
                side: nobody,
                by: engine.agent(),
                ..here
            },
        }
    }
}

/// Whose the side of a race is.
pub(crate) struct SharedSide {
    pub side: OtherSide,
    pub by: Agent,
    /// It is in the block that reports it.
    pub is_here: bool,
}
