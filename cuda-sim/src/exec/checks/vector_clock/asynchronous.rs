//! Rows of [`Engine`]s: what they begin comes after the past of their issuers, and the ordinary
//! accesses of that past are visible to them as far as a fence for the asynchronous proxy lies
//! between.

use std::ops::Range;

use super::{BlockClocks, Past, merge_proxied};
use crate::exec::checks::engines::Engine;
use crate::exec::lane_fault::OtherSide;
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
        pc: u32,
    ) -> Option<(usize, u32)> {
        let place = self.engines.place(engine)?;
        let mut all = Past::default();
        issuers.clone().for_each(|warp| all.merge(&self.past(warp)));
        if self.seen.len() <= place {
            self.seen.resize(place + 1, [0; 32]);
        }
        self.seen[place] = all.view;
        self.begin_interval(place);
        let visible = all.proxied.map_or([0; 32], |visible| *visible);
        let number = self.engines.begin(place, self.now, pc, visible);
        issuers.for_each(|warp| self.begin_interval(warp));
        (0..self.warps)
            .chain(self.engines.places())
            .for_each(|row| self.find_floor(row));
        Some((place, number))
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

    /// The instruction of the newest operation of `engine`, if no warp has waited for it.
    pub(crate) fn unfinished(&self, engine: Engine) -> Option<u32> {
        let seen = |place: usize| self.seen[..self.warps].iter().map(move |row| row[place]);
        let latest = |place| seen(place).max().unwrap_or(0);
        self.engines.newest_after(engine, latest)
    }

    /// True if some warp does not know the end of all that engines have begun.
    pub(crate) fn has_open_engines(&self) -> bool {
        let open = |row| self.engines.known_until(row).is_some();
        self.seen[..self.warps].iter().any(open)
    }

    /// Who a thread of a record is, which may stand for an engine.
    pub(crate) fn agent_of(&self, thread: Option<u32>) -> Agent {
        let engine = thread.and_then(|thread| self.engines.at(thread as usize / 32));
        engine.map_or(Agent::Thread, Engine::agent)
    }

    /// The side of a race without its thread, if that stands for an engine.
    pub(crate) fn thread_side(&self, side: OtherSide) -> OtherSide {
        let is_real = |thread: &u32| (*thread as usize) < 32 * self.warps;
        OtherSide {
            thread: side.thread.filter(is_real),
            ..side
        }
    }
}
