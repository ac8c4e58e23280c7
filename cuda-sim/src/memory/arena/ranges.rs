//! Which ranges of the arena are allocated, freed, or free to be used again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use super::{ArenaError, GRAIN, Kind, LARGE, Owner, QUARANTINE_BYTES, QUARANTINE_RANGES};
use crate::memory::map::{Allocation, MemoryMap};
use crate::memory::pages::{self, PAGE};

/// Ranges of the arena.
pub(super) struct State {
    /// Live and quarantined allocations, by address.
    pub(super) allocations: Vec<Allocation>,
    /// By id, for the same allocations.
    pub(super) details: HashMap<u64, Detail>,
    /// Ids of quarantined allocations, oldest first, and the bytes they span.
    pub(super) quarantine: VecDeque<u64>,
    pub(super) quarantined: u64,
    /// Ranges out of quarantine, by start: length. Never adjacent.
    pub(super) free: BTreeMap<u64, u64>,
    /// Everything from here on was never allocated.
    pub(super) bump: u64,
    /// Bytes of live allocations that count as device memory.
    pub(super) live: u64,
    /// Bytes of live allocations by the pool that they came from; 0 if from none.
    pub(super) live_by_pool: HashMap<u64, u64>,
    pub(super) next_id: u64,
    /// The map of the present state, if a launch has asked for it, for operations from this number
    /// on.
    pub(super) snapshot: Option<(u64, Arc<MemoryMap>)>,
    /// The number of the next operation of a stream.
    pub(super) next_operation: u64,
    /// Operations that were submitted and have not ended.
    pub(super) unfinished: BTreeSet<u64>,
    /// Frees in stream order that have not taken effect: number of the operation, and the
    /// allocation's id.
    pub(super) pending_frees: BTreeMap<u64, u64>,
}

#[derive(Clone, Copy)]
pub(super) struct Detail {
    pub(super) start: u64,
    /// Bytes reserved for it: its own and the gap after it.
    pub(super) span: u64,
    pub(super) owner: Owner,
    /// Operations of streams from this number on find it freed.
    pub(super) freed: Option<u64>,
}

impl Detail {
    /// True if operation number `operation` finds the allocation live.
    pub(super) fn is_live_for(&self, operation: u64) -> bool {
        self.freed.is_none_or(|freed| operation < freed)
    }
}

impl State {
    /// Nothing is allocated in an arena that starts at `base`.
    pub(super) fn new(base: u64) -> State {
        State {
            allocations: Vec::new(),
            details: HashMap::new(),
            quarantine: VecDeque::new(),
            quarantined: 0,
            free: BTreeMap::new(),
            bump: base + LARGE,
            live: 0,
            live_by_pool: HashMap::new(),
            next_id: 1,
            snapshot: None,
            next_operation: 1,
            unfinished: BTreeSet::new(),
            pending_frees: BTreeMap::new(),
        }
    }

    /// The index of the allocation that holds `addr` and that operation number `operation` finds
    /// live, or why there is none.
    pub(super) fn find_live(
        &self,
        addr: u64,
        what: &str,
        operation: u64,
    ) -> Result<usize, ArenaError> {
        let after = self
            .allocations
            .partition_point(|allocation| allocation.start <= addr);
        let found = after
            .checked_sub(1)
            .filter(|&index| addr < self.allocations[index].end());
        let text = match found.map(|index| (index, self.allocations[index])) {
            Some((index, allocation)) if self.details[&allocation.id].is_live_for(operation) => {
                return Ok(index);
            }
            Some((_, allocation)) => {
                format!(
                    "{what}: {addr:#x} is in {}, which was freed before",
                    describe(&allocation)
                )
            }
            None => format!("{what}: {addr:#x} is in no allocation"),
        };
        Err(ArenaError::Invalid(text))
    }

    /// Marks the live allocation at `index` freed and puts its range into quarantine.
    pub(super) fn retire(&mut self, index: usize) {
        let allocation = &mut self.allocations[index];
        allocation.live = false;
        let (id, bytes) = (allocation.id, allocation.bytes);
        self.mark_freed(id, bytes, 0);
        let Detail { start, span, .. } = self.details[&id];
        if bytes >= LARGE {
            give_back(start, span);
        }
        self.quarantine.push_back(id);
        self.quarantined += span;
        self.snapshot = None;
        let is_full = |state: &State| {
            state.quarantine.len() > QUARANTINE_RANGES || state.quarantined > QUARANTINE_BYTES
        };
        while self.quarantine.len() > 1 && is_full(self) {
            self.release_oldest();
        }
    }

    /// Operations from number `operation` on find the allocation freed, unless it is already.
    pub(super) fn mark_freed(&mut self, id: u64, bytes: u64, operation: u64) {
        let Some(detail) = self.details.get_mut(&id) else {
            return;
        };
        if detail.freed.is_none() {
            detail.freed = Some(operation);
            if let Some(live) = self.live_by_pool.get_mut(&detail.owner.pool) {
                *live -= bytes;
            }
            self.live -= if detail.owner.kind == Kind::Host {
                0
            } else {
                bytes
            };
            self.snapshot = None;
        }
    }

    /// Frees in stream order take effect once everything that was submitted before has ended.
    pub(super) fn retire_pending(&mut self) {
        while let Some(first) = self.pending_frees.first_entry() {
            if self.unfinished.first().is_some_and(|n| n <= first.key()) {
                break;
            }
            let id = first.remove();
            // It may have gone with its context.
            self.retire_live(id);
        }
    }

    /// Retires the allocation with this number, if it is live.
    pub(super) fn retire_live(&mut self, id: u64) {
        let start = self.details.get(&id).map(|detail| detail.start);
        let at = |start| self.allocations.binary_search_by_key(&start, |a| a.start);
        if let Some(Ok(index)) = start.map(at)
            && self.allocations[index].live
        {
            self.retire(index);
        }
    }

    /// Makes the oldest quarantined range reusable. False if the quarantine is empty.
    pub(super) fn release_oldest(&mut self) -> bool {
        let Some(id) = self.quarantine.pop_front() else {
            return false;
        };
        let Some(Detail { start, span, .. }) = self.details.remove(&id) else {
            return false;
        };
        if let Ok(index) = self
            .allocations
            .binary_search_by_key(&start, |allocation| allocation.start)
        {
            self.allocations.remove(index);
        }
        self.quarantined -= span;
        self.add_free(start, span);
        self.snapshot = None;
        true
    }

    /// Takes the lowest reusable range that `layout` fits into, and returns its start.
    pub(super) fn take_free(&mut self, layout: Layout) -> Option<u64> {
        let (from, length, start) = self.free.iter().find_map(|(&from, &length)| {
            let start = from.next_multiple_of(layout.align);
            (start - from + layout.span <= length).then_some((from, length, start))
        })?;
        self.free.remove(&from);
        if start > from {
            self.free.insert(from, start - from);
        }
        let end = start + layout.span;
        if end < from + length {
            self.free.insert(end, from + length - end);
        }
        Some(start)
    }

    /// Adds a reusable range and joins it with its neighbours.
    pub(super) fn add_free(&mut self, mut start: u64, mut length: u64) {
        if let Some(next) = self.free.remove(&(start + length)) {
            length += next;
        }
        if let Some((&before, &before_length)) = self.free.range(..start).next_back()
            && before + before_length == start
        {
            start = before;
            length += before_length;
        }
        self.free.insert(start, length);
    }
}

/// Gives the pages of a large allocation back to the operating system: the next access finds zeros.
pub(super) fn give_back(start: u64, span: u64) {
    // SAFETY: the range is whole pages of the arena's own mapping (a large allocation starts on a
    // page and spans whole pages), and no Rust reference points into it.
    unsafe { pages::clear(start, span) };
}

/// Size and alignment of the range of an allocation.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) span: u64,
    pub(super) align: u64,
}

impl Layout {
    pub(super) fn new(bytes: u64) -> Option<Self> {
        let (align, gap) = if bytes >= LARGE {
            (PAGE, LARGE)
        } else {
            (GRAIN, GRAIN)
        };
        let span = bytes.checked_next_multiple_of(align)?.checked_add(gap)?;
        Some(Self { span, align })
    }
}

pub(super) fn describe(allocation: &Allocation) -> String {
    format!(
        "allocation {} ({} bytes at {:#x})",
        allocation.id, allocation.bytes, allocation.start
    )
}
