//! Simulated device memory: one reserved range of this process's own address space.
//!
//! A device pointer is therefore a host pointer: kernels, copies, managed memory and pinned host
//! memory all use the same addresses, and nothing is translated. Rules that follow from wanting
//! mistakes to be seen:
//!
//! - every allocation is followed by a gap that belongs to nobody, so that an index past the end
//!   hits nothing;
//! - freed ranges wait in a quarantine, oldest reused first, so that a use after free finds the
//!   freed allocation;
//! - device memory starts as `0xff` bytes (NaN as a float, -1 as an integer), not as zeros that
//!   hide a missing initialisation; allocations above [`POISON_LIMIT`] are left to the operating
//!   system, which gives zeros;
//! - the same calls in the same order give the same addresses, in every process that could reserve
//!   the same range.

mod address_space;
mod ranges;

use std::{
    ops::RangeInclusive,
    ptr,
    sync::{Arc, Mutex},
};

use thiserror::Error;

use self::{
    address_space::{affordable, place},
    ranges::{Detail, Layout, State, describe, give_back},
};
use crate::{
    memory::{
        map::{Allocation, MemoryMap},
        shadow::Shadow,
    },
    sync::lock,
};

/// Address space to reserve for device memory, in bytes; less if the process may not have so much.
const RESERVE: u64 = 1 << 38;
/// The reserved size is a multiple of this, in bytes.
const RESERVE_GRAIN: u64 = 1 << 20;
/// Alignment of every allocation, in bytes, and the least gap after it.
const GRAIN: u64 = 256;
/// From this size on, in bytes, an allocation has whole pages, a gap of this size, and gives its
/// pages back when freed.
const LARGE: u64 = 64 << 10;
/// Device allocations up to this size, in bytes, are filled with `0xff`.
const POISON_LIMIT: u64 = 16 << 20;
/// The quarantine holds at most this many ranges, and this many bytes, but always the range freed
/// last. What is known of freed ranges takes up to seven times their size.
const QUARANTINE_RANGES: usize = 1024;
const QUARANTINE_BYTES: u64 = 64 << 20;

/// Purpose of an allocation; each kind is freed by its own driver functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cuMemAlloc`, and stream-ordered allocation from a pool.
    Device,
    /// `cuMemAllocManaged`: the host reads and writes it too.
    Managed,
    /// `cuMemHostAlloc`: host memory that kernels may read. Not counted as device memory.
    Host,
    /// A module's `.global` or `.const` variable: lives as long as the module.
    Variable,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Device => "device memory",
            Kind::Managed => "managed memory",
            Kind::Host => "pinned host memory",
            Kind::Variable => "a module's variable",
        }
    }
}

/// Who an allocation belongs to: handles of its context and, if it came from one, its pool (else
/// 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) kind: Kind,
    pub(crate) context: u64,
    pub(crate) pool: u64,
}

/// The live allocation that holds an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) id: u64,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) owner: Owner,
}

/// Why device memory could not be set up.
#[derive(Clone, Debug, Error)]
#[error("cannot reserve {bytes} bytes of address space for simulated device memory: {reason}")]
pub(crate) struct ReserveError {
    bytes: u64,
    reason: String,
}

/// Why the arena refused. The text is meant for the person whose program asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum ArenaError {
    /// The device's memory, or the reserved address space, is used up.
    #[error("{0}")]
    OutOfMemory(String),
    /// The address or size does not fit what is allocated.
    #[error("{0}")]
    Invalid(String),
}

/// Simulated device memory.
pub(crate) struct Arena {
    base: u64,
    size: u64,
    limit: u64,
    /// There is less device memory than was wanted, for want of addresses.
    short: bool,
    shadow: Arc<Shadow>,
    state: Mutex<State>,
}

impl Arena {
    /// Reserves address space for device memory: as many bytes of `limits` as the process can have
    /// addresses for.
    pub(crate) fn reserve(limits: RangeInclusive<u64>) -> Result<Self, ReserveError> {
        let (least, most) = limits.into_inner();
        // Gaps and the quarantine need room too.
        let span = |limit: u64| {
            let span = limit.saturating_mul(2).max(LARGE * 4);
            span.next_multiple_of(RESERVE_GRAIN)
        };
        let wanted = RESERVE.max(span(most)).min(affordable());
        let mut size = (wanted / RESERVE_GRAIN * RESERVE_GRAIN).max(span(least));
        loop {
            match place(size) {
                Ok(range) => return Ok(Self::new(range, size, most)),
                Err(reason) if size / 2 < span(least) => {
                    return Err(ReserveError {
                        bytes: size,
                        reason: reason.to_string(),
                    });
                }
                Err(_) => size = size / 2 / RESERVE_GRAIN * RESERVE_GRAIN,
            }
        }
    }

    /// An arena in a reserved range of `size` bytes, with device memory of at most `most` bytes.
    fn new((base, shadow): (u64, Shadow), size: u64, most: u64) -> Self {
        let limit = most.min(size / 2);
        Self {
            base,
            size,
            limit,
            short: limit < most,
            shadow: Arc::new(shadow),
            state: Mutex::new(State::new(base)),
        }
    }

    /// Forgets all allocations, as if nothing had been allocated.
    pub(crate) fn reset(&mut self) {
        *lock(&self.state) = State::new(self.base);
    }

    /// Device memory in bytes: `(free, total)`.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.limit - lock(&self.state).live, self.limit)
    }

    /// Bytes of live allocations that belong to `pool`.
    pub(crate) fn used_by_pool(&self, pool: u64) -> u64 {
        let state = lock(&self.state);
        state.live_by_pool.get(&pool).copied().unwrap_or(0)
    }

    /// True if `addr` lies in the arena's range, allocated or not: false for ordinary host memory.
    pub(crate) fn holds(&self, addr: u64) -> bool {
        (self.base..self.base + self.size).contains(&addr)
    }

    /// Allocates `bytes` (at least 1) and returns the address, a multiple of 256.
    pub(crate) fn allocate(&self, bytes: u64, owner: Owner) -> Result<u64, ArenaError> {
        let mut state = lock(&self.state);
        let counted = owner.kind != Kind::Host;
        if counted && bytes > self.limit - state.live {
            return Err(ArenaError::OutOfMemory(format!(
                "{bytes} bytes asked for, {} of {} bytes of simulated device memory are free ({})",
                self.limit - state.live,
                self.limit,
                if self.short {
                    "this process's limit of address space, ulimit -v, leaves no more"
                } else {
                    "CUDA_SIM_MEMORY sets the size, in MiB"
                }
            )));
        }
        let layout = Layout::new(bytes).ok_or_else(|| {
            ArenaError::OutOfMemory(format!(
                "{bytes} bytes asked for: more than there are addresses"
            ))
        })?;
        let start = self.find_range(&mut state, layout).ok_or_else(|| {
            ArenaError::OutOfMemory(format!(
                "{bytes} bytes asked for: no such range is left of the {} bytes of reserved addresses",
                self.size
            ))
        })?;
        let id = state.next_id;
        state.next_id += 1;
        let allocation = Allocation {
            id,
            start,
            bytes,
            live: true,
        };
        let place = state
            .allocations
            .partition_point(|other| other.start < start);
        state.allocations.insert(place, allocation);
        state.details.insert(
            id,
            Detail {
                start,
                span: layout.span,
                owner,
                freed: None,
            },
        );
        state.live += if counted { bytes } else { 0 };
        *state.live_by_pool.entry(owner.pool).or_default() += bytes;
        state.snapshot = None;
        match owner.kind {
            Kind::Device => self.shadow.bytes.set_unwritten(start, bytes),
            // The host writes these unseen; variables start as zeros.
            Kind::Managed | Kind::Host | Kind::Variable => {
                self.shadow.bytes.set_written(start, bytes)
            }
        }
        let fill = match owner.kind {
            Kind::Device if bytes <= POISON_LIMIT => Some(0xff),
            Kind::Variable => Some(0),
            Kind::Device | Kind::Managed | Kind::Host => None,
        };
        if fill == Some(0) && bytes >= LARGE {
            // The operating system gives zeros without touching them.
            give_back(start, layout.span);
        } else if let Some(value) = fill {
            // SAFETY: the range lies in the mapping, which is readable, writable and never
            // unmapped, and was handed to nobody else: `find_range` returns ranges outside every
            // live allocation.
            unsafe { ptr::write_bytes(start as *mut u8, value, bytes as usize) };
        }
        Ok(start)
    }

    /// Takes a range for `layout`: a reusable one, else a new one, else from the quarantine.
    fn find_range(&self, state: &mut State, layout: Layout) -> Option<u64> {
        loop {
            if let Some(start) = state.take_free(layout) {
                return Some(start);
            }
            let start = state.bump.next_multiple_of(layout.align);
            if start.checked_add(layout.span)? <= self.base + self.size {
                let skipped = start - state.bump;
                if skipped > 0 {
                    state.add_free(start - skipped, skipped);
                }
                state.bump = start + layout.span;
                return Some(start);
            }
            if !state.release_oldest() {
                return None;
            }
        }
    }

    /// Frees the allocation that starts at `addr` and is of one of `kinds`.
    pub(crate) fn free(&self, addr: u64, kinds: &[Kind]) -> Result<(), ArenaError> {
        let mut state = lock(&self.state);
        let index = freeable(&state, addr, kinds)?;
        state.retire(index);
        Ok(())
    }

    /// Frees the allocation as operation number `operation` of a stream: those with higher numbers
    /// find it freed, and those before can still use it, whichever runs first. It keeps its range
    /// until those have ended.
    pub(crate) fn free_in_order(
        &self,
        addr: u64,
        kinds: &[Kind],
        operation: u64,
    ) -> Result<(), ArenaError> {
        let mut state = lock(&self.state);
        let index = freeable(&state, addr, kinds)?;
        let Allocation { id, bytes, .. } = state.allocations[index];
        state.mark_freed(id, bytes, operation);
        state.pending_frees.insert(operation, id);
        Ok(())
    }

    /// Numbers an operation that is submitted to a stream. [`Arena::end_operation`] must follow.
    pub(crate) fn begin_operation(&self) -> u64 {
        let mut state = lock(&self.state);
        let operation = state.next_operation;
        state.next_operation += 1;
        state.unfinished.insert(operation);
        operation
    }

    /// The operation has ended, or will never run.
    pub(crate) fn end_operation(&self, operation: u64) {
        let mut state = lock(&self.state);
        state.unfinished.remove(&operation);
        state.retire_pending();
    }

    /// Checks that `addr` is the start of a live allocation of one of `kinds`.
    pub(crate) fn check_freeable(&self, addr: u64, kinds: &[Kind]) -> Result<(), ArenaError> {
        freeable(&lock(&self.state), addr, kinds).map(drop)
    }

    /// Number and bytes of each live allocation of device or managed memory that belongs to
    /// `context`.
    pub(crate) fn held_by(&self, context: u64) -> Vec<(u64, u64)> {
        let state = lock(&self.state);
        let live = state
            .allocations
            .iter()
            .filter(|allocation| state.details[&allocation.id].freed.is_none());
        live.filter(|allocation| {
            let owner = state.details[&allocation.id].owner;
            owner.context == context && matches!(owner.kind, Kind::Device | Kind::Managed)
        })
        .map(|allocation| (allocation.id, allocation.bytes))
        .collect()
    }

    /// Frees every live allocation of `context`.
    pub(crate) fn free_context(&self, context: u64) {
        let mut state = lock(&self.state);
        let ids: Vec<u64> = state
            .allocations
            .iter()
            .filter(|allocation| {
                allocation.live && state.details[&allocation.id].owner.context == context
            })
            .map(|allocation| allocation.id)
            .collect();
        for id in ids {
            state.retire_live(id);
        }
    }

    /// Frees the allocation with this number, unless it is freed already.
    pub(crate) fn free_by_id(&self, id: u64) {
        let mut state = lock(&self.state);
        let detail = state.details.get(&id);
        if detail.is_some_and(|detail| detail.is_live_for(NOW)) {
            state.retire_live(id);
        }
    }

    /// Checks that the `bytes` from `addr` on are live memory of one allocation; `what` names the
    /// operation.
    pub(crate) fn check_range(&self, what: &str, addr: u64, bytes: u64) -> Result<(), ArenaError> {
        self.check_range_for(NOW, what, addr, bytes)
    }

    /// [`Arena::check_range`] for an operation of a stream, by its number.
    pub(crate) fn check_range_for(
        &self,
        operation: u64,
        what: &str,
        addr: u64,
        bytes: u64,
    ) -> Result<(), ArenaError> {
        let state = lock(&self.state);
        let allocation = state.allocations[state.find_live(addr, what, operation)?];
        let fits = addr
            .checked_add(bytes)
            .is_some_and(|end| end <= allocation.end());
        if fits {
            return Ok(());
        }
        Err(ArenaError::Invalid(format!(
            "{what}: {bytes} bytes at {addr:#x} end {} bytes past the end of {}",
            bytes - (allocation.end() - addr),
            describe(&allocation)
        )))
    }

    /// The live allocation that holds `addr`; `what` names the caller in the error.
    pub(crate) fn find(&self, what: &str, addr: u64) -> Result<Found, ArenaError> {
        let state = lock(&self.state);
        let allocation = state.allocations[state.find_live(addr, what, NOW)?];
        Ok(Found {
            id: allocation.id,
            start: allocation.start,
            bytes: allocation.bytes,
            owner: state.details[&allocation.id].owner,
        })
    }

    /// Records of each byte.
    pub(crate) fn shadow(&self) -> Arc<Shadow> {
        Arc::clone(&self.shadow)
    }

    /// The allocations as operation number `operation` of a stream finds them.
    pub(crate) fn map(&self, operation: u64) -> Arc<MemoryMap> {
        let mut state = lock(&self.state);
        if let Some((first, map)) = &state.snapshot
            && *first <= operation
        {
            return Arc::clone(map);
        }
        let found = |allocation: &Allocation| Allocation {
            live: state.details[&allocation.id].is_live_for(operation),
            ..*allocation
        };
        let map = Arc::new(MemoryMap::new(
            state.allocations.iter().map(found).collect(),
        ));
        let last = state.details.values().filter_map(|detail| detail.freed);
        let last = last.max().unwrap_or(0);
        if last <= operation {
            state.snapshot = Some((last, Arc::clone(&map)));
        }
        map
    }
}

/// The number of an operation that follows all others.
pub(crate) const NOW: u64 = u64::MAX;

/// The index of the live allocation that starts at `addr` and is of one of `kinds`.
fn freeable(state: &State, addr: u64, kinds: &[Kind]) -> Result<usize, ArenaError> {
    let index = state.find_live(addr, "free", NOW)?;
    let allocation = state.allocations[index];
    if allocation.start != addr {
        return Err(ArenaError::Invalid(format!(
            "free of {addr:#x}, which is {} bytes into {}: only its start can be freed",
            addr - allocation.start,
            describe(&allocation)
        )));
    }
    let kind = state.details[&allocation.id].owner.kind;
    if !kinds.contains(&kind) {
        return Err(ArenaError::Invalid(format!(
            "free of {}, which is {}: another function frees it",
            describe(&allocation),
            kind.name()
        )));
    }
    Ok(index)
}

#[cfg(test)]
mod tests;
