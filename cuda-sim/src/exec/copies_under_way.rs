//! Asynchronous copies that a block has begun and not waited for, with or without checks: products
//! that run meanwhile are counted.

use std::collections::{HashMap, VecDeque};

use crate::exec::checks::async_proxy::AsyncOperation;
use crate::exec::checks::happens_before::thread;
use crate::exec::lane_mask::lanes;

/// The copies of a block.
#[derive(Default)]
pub(crate) struct CopiesUnderWay {
    warps: Vec<WarpCopies>,
    pub bulk: BulkGroups,
}

/// The copies of a warp. Those of its lanes are taken for one.
#[derive(Clone, Copy, Default)]
struct WarpCopies {
    /// It has begun copies that are in no group.
    begun: bool,
    /// A bit for each of its last groups, the newest in the lowest: 1 if it has copies.
    groups: u64,
}

impl CopiesUnderWay {
    /// No copies, of so many warps.
    pub(crate) fn start(&mut self, warps: usize) {
        self.warps.clear();
        self.warps.resize(warps, WarpCopies::default());
        self.bulk = BulkGroups::default();
    }

    pub(crate) fn begin(&mut self, warp: usize) {
        self.warps[warp].begun = true;
    }

    pub(crate) fn commit(&mut self, warp: usize) {
        let copies = &mut self.warps[warp];
        copies.groups = copies.groups << 1 | u64::from(copies.begun);
        copies.begun = false;
    }

    /// The warp waits for all but its `newest` last groups; for all copies if `None`.
    pub(crate) fn wait(&mut self, warp: usize, newest: Option<u32>) {
        let copies = &mut self.warps[warp];
        match newest {
            Some(newest) => {
                copies.groups &= 1u64.checked_shl(newest).map_or(u64::MAX, |bit| bit - 1)
            }
            None => *copies = WarpCopies::default(),
        }
    }

    /// True if a warp has copies that it has not waited for.
    pub(crate) fn any(&self) -> bool {
        self.warps
            .iter()
            .any(|copies| copies.begun || copies.groups != 0)
    }
}

/// Bulk groups: what the checks must know of copies to device memory.
#[derive(Default)]
pub(crate) struct BulkGroups {
    /// What the copies read of shared memory.
    pub reads: Groups,
    /// What they write to device memory, which may come later.
    pub writes: Groups,
}

impl BulkGroups {
    /// What the lanes in `mask` of a warp have begun becomes a group of each.
    pub(crate) fn commit(&mut self, warp: usize, mask: u32) {
        self.reads.commit(warp, mask);
        self.writes.commit(warp, mask);
    }
}

/// Groups of each thread that has some.
#[derive(Default)]
pub(crate) struct Groups(HashMap<u32, ThreadGroups>);

#[derive(Default)]
struct ThreadGroups {
    /// The last operation that is in no group.
    begun: Option<AsyncOperation>,
    /// The last operation of each group, the oldest group first.
    groups: VecDeque<Option<AsyncOperation>>,
}

impl Groups {
    /// The thread begins an operation.
    pub(crate) fn begin(&mut self, thread: u32, operation: AsyncOperation) {
        self.0.entry(thread).or_default().begun = Some(operation);
    }

    fn commit(&mut self, warp: usize, mask: u32) {
        for lane in lanes(mask) {
            let thread = self.0.entry(thread(warp, lane as u32)).or_default();
            thread.groups.push_back(thread.begun.take());
        }
    }

    /// Ends the groups of a thread but the `newest` last ones. Returns the last operation that
    /// ends.
    pub(crate) fn wait(&mut self, thread: u32, newest: u32) -> Option<AsyncOperation> {
        let groups = &mut self.0.get_mut(&thread)?.groups;
        let ended = groups.len().saturating_sub(newest as usize);
        groups.drain(..ended).flatten().last()
    }
}
