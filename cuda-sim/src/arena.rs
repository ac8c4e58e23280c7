//! Simulated device memory: one reserved range of this process's own address space.
//!
//! A device pointer is therefore a host pointer: kernels, copies, managed memory and pinned host memory all use the
//! same addresses, and nothing is translated. Rules that follow from wanting mistakes to be seen:
//!
//! - every allocation is followed by a gap that belongs to nobody, so that an index past the end hits nothing;
//! - freed ranges wait in a quarantine, oldest reused first, so that a use after free finds the freed allocation;
//! - device memory starts as `0xff` bytes (NaN as a float, -1 as an integer), not as zeros that hide a missing
//!   initialisation; allocations above [`POISON_LIMIT`] are left to the operating system, which gives zeros;
//! - the same calls in the same order give the same addresses, in every process that could reserve [`BASE`].

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io, ptr,
    sync::{Arc, Mutex},
};

use thiserror::Error;

use crate::{
    memory::{Allocation, MemoryMap},
    shadow::Shadow,
    sync::lock,
};

/// Where the arena starts unless that range is taken.
const BASE: u64 = 0x1000_0000_0000;
/// Address space to reserve, in bytes; halved until the operating system agrees.
const RESERVE: u64 = 1 << 38;
/// Alignment of every allocation, in bytes, and the least gap after it.
const GRAIN: u64 = 256;
/// From this size on, in bytes, an allocation has whole pages, a gap of this size, and gives its pages back when freed.
const LARGE: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// Device allocations up to this size, in bytes, are filled with `0xff`.
const POISON_LIMIT: u64 = 16 << 20;
/// The quarantine holds at most this many ranges, and this many bytes.
const QUARANTINE_RANGES: usize = 1024;
const QUARANTINE_BYTES: u64 = 1 << 30;

/// What an allocation is for; each kind is freed by its own driver functions.
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
    fn name(self) -> &'static str {
        match self {
            Kind::Device => "device memory",
            Kind::Managed => "managed memory",
            Kind::Host => "pinned host memory",
            Kind::Variable => "a module's variable",
        }
    }
}

/// Who an allocation belongs to: handles of its context and, if it came from one, its pool (else 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) kind: Kind,
    pub(crate) context: u64,
    pub(crate) pool: u64,
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
    shadow: Arc<Shadow>,
    state: Mutex<State>,
}

struct State {
    /// Live and quarantined allocations, by address.
    allocations: Vec<Allocation>,
    /// By id, for the same allocations.
    details: HashMap<u64, Detail>,
    /// Ids of quarantined allocations, oldest first, and the bytes they span.
    quarantine: VecDeque<u64>,
    quarantined: u64,
    /// Ranges out of quarantine, by start: length. Never adjacent.
    free: BTreeMap<u64, u64>,
    /// Everything from here on was never allocated.
    bump: u64,
    /// Bytes of live allocations that count as device memory.
    live: u64,
    next_id: u64,
    /// The map of the present state, if a launch has asked for it.
    snapshot: Option<Arc<MemoryMap>>,
}

#[derive(Clone, Copy)]
struct Detail {
    start: u64,
    /// Bytes reserved for it: its own and the gap after it.
    span: u64,
    owner: Owner,
}

impl Arena {
    /// Reserves address space for device memory of `limit` bytes.
    pub(crate) fn reserve(limit: u64) -> Result<Self, ReserveError> {
        let least = limit.saturating_mul(2).max(LARGE * 4);
        let mut size = RESERVE.max(least);
        loop {
            match map_range(size).and_then(|base| Self::new(base, size, limit)) {
                Ok(arena) => return Ok(arena),
                Err(reason) if size / 2 < least => {
                    return Err(ReserveError {
                        bytes: size,
                        reason: reason.to_string(),
                    });
                }
                Err(_) => size /= 2,
            }
        }
    }

    fn new(base: u64, size: u64, limit: u64) -> io::Result<Self> {
        let state = State {
            allocations: Vec::new(),
            details: HashMap::new(),
            quarantine: VecDeque::new(),
            quarantined: 0,
            free: BTreeMap::new(),
            bump: base + LARGE,
            live: 0,
            next_id: 1,
            snapshot: None,
        };
        Ok(Self {
            shadow: Arc::new(Shadow::new(base, size)?),
            base,
            size,
            limit,
            state: Mutex::new(state),
        })
    }

    /// Device memory in bytes: `(free, total)`.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.limit - lock(&self.state).live, self.limit)
    }

    /// Bytes of live allocations that belong to `pool`.
    pub(crate) fn used_by_pool(&self, pool: u64) -> u64 {
        let state = lock(&self.state);
        let live = state
            .allocations
            .iter()
            .filter(|allocation| allocation.live);
        live.filter(|allocation| state.details[&allocation.id].owner.pool == pool)
            .map(|allocation| allocation.bytes)
            .sum()
    }

    /// Whether `addr` lies in the arena's range, allocated or not: false for ordinary host memory.
    pub(crate) fn holds(&self, addr: u64) -> bool {
        (self.base..self.base + self.size).contains(&addr)
    }

    /// Allocates `bytes` (at least 1) and returns the address, a multiple of 256.
    pub(crate) fn allocate(&self, bytes: u64, owner: Owner) -> Result<u64, ArenaError> {
        let mut state = lock(&self.state);
        let counted = owner.kind != Kind::Host;
        if counted && bytes > self.limit - state.live {
            return Err(ArenaError::OutOfMemory(format!(
                "{bytes} bytes asked for, {} of {} bytes of simulated device memory are free \
                 (CUDA_SIM_MEMORY sets the size, in MiB)",
                self.limit - state.live,
                self.limit
            )));
        }
        let layout = Layout::of(bytes).ok_or_else(|| {
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
            },
        );
        state.live += if counted { bytes } else { 0 };
        state.snapshot = None;
        match owner.kind {
            Kind::Device => self.shadow.set_unwritten(start, bytes),
            // The host writes these unseen; variables start as zeros.
            Kind::Managed | Kind::Host | Kind::Variable => self.shadow.set_written(start, bytes),
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
            // SAFETY: the range lies in the mapping, which is readable, writable and never unmapped, and was
            // handed to nobody else: `find_range` returns ranges outside every live allocation.
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
        let index = state.find_live(addr, "free")?;
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
        state.retire(index);
        Ok(())
    }

    /// Checks that `addr` is the start of a live allocation of one of `kinds`.
    pub(crate) fn check_freeable(&self, addr: u64, kinds: &[Kind]) -> Result<(), ArenaError> {
        let state = lock(&self.state);
        let allocation = state.allocations[state.find_live(addr, "free")?];
        let kind = state.details[&allocation.id].owner.kind;
        if allocation.start == addr && kinds.contains(&kind) {
            return Ok(());
        }
        Err(ArenaError::Invalid(format!(
            "free of {addr:#x}, {} bytes into {} ({}), which this function does not free",
            addr - allocation.start,
            describe(&allocation),
            kind.name()
        )))
    }

    /// Number and bytes of each live allocation of device or managed memory that belongs to `context`.
    pub(crate) fn held_by(&self, context: u64) -> Vec<(u64, u64)> {
        let state = lock(&self.state);
        let live = state
            .allocations
            .iter()
            .filter(|allocation| allocation.live);
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
            let start = state.details[&id].start;
            if let Ok(index) = state
                .allocations
                .binary_search_by_key(&start, |allocation| allocation.start)
            {
                state.retire(index);
            }
        }
    }

    /// Checks that the `bytes` from `addr` on are live memory of one allocation; `what` names the operation.
    pub(crate) fn check_range(&self, what: &str, addr: u64, bytes: u64) -> Result<(), ArenaError> {
        let state = lock(&self.state);
        let allocation = state.allocations[state.find_live(addr, what)?];
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

    /// What is known of each byte.
    pub(crate) fn shadow(&self) -> Arc<Shadow> {
        Arc::clone(&self.shadow)
    }

    /// The present allocations, for one launch.
    pub(crate) fn map(&self) -> Arc<MemoryMap> {
        let mut state = lock(&self.state);
        if let Some(map) = &state.snapshot {
            return Arc::clone(map);
        }
        let map = Arc::new(MemoryMap::new(state.allocations.clone()));
        state.snapshot = Some(Arc::clone(&map));
        map
    }
}

impl State {
    /// The index of the live allocation that holds `addr`, or why there is none.
    fn find_live(&self, addr: u64, what: &str) -> Result<usize, ArenaError> {
        let after = self
            .allocations
            .partition_point(|allocation| allocation.start <= addr);
        let found = after
            .checked_sub(1)
            .filter(|&index| addr < self.allocations[index].end());
        let text = match found.map(|index| (index, self.allocations[index])) {
            Some((index, allocation)) if allocation.live => return Ok(index),
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
    fn retire(&mut self, index: usize) {
        let allocation = &mut self.allocations[index];
        allocation.live = false;
        let (id, bytes) = (allocation.id, allocation.bytes);
        let Detail { start, span, owner } = self.details[&id];
        if owner.kind != Kind::Host {
            self.live -= bytes;
        }
        if bytes >= LARGE {
            give_back(start, span);
        }
        self.quarantine.push_back(id);
        self.quarantined += span;
        self.snapshot = None;
        while self.quarantine.len() > QUARANTINE_RANGES || self.quarantined > QUARANTINE_BYTES {
            self.release_oldest();
        }
    }

    /// Makes the oldest quarantined range reusable. False if the quarantine is empty.
    fn release_oldest(&mut self) -> bool {
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
    fn take_free(&mut self, layout: Layout) -> Option<u64> {
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
    fn add_free(&mut self, mut start: u64, mut length: u64) {
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
fn give_back(start: u64, span: u64) {
    // SAFETY: the range is whole pages of the arena's own private anonymous mapping (a large allocation starts on a
    // page and spans whole pages), and no Rust reference points into it.
    unsafe {
        libc::madvise(
            start as *mut libc::c_void,
            span as usize,
            libc::MADV_DONTNEED,
        )
    };
}

/// How much to reserve for an allocation, and at which multiple it starts.
#[derive(Clone, Copy)]
struct Layout {
    span: u64,
    align: u64,
}

impl Layout {
    fn of(bytes: u64) -> Option<Self> {
        let (align, gap) = if bytes >= LARGE {
            (PAGE, LARGE)
        } else {
            (GRAIN, GRAIN)
        };
        let span = bytes.checked_next_multiple_of(align)?.checked_add(gap)?;
        Some(Self { span, align })
    }
}

fn describe(allocation: &Allocation) -> String {
    format!(
        "allocation {} ({} bytes at {:#x})",
        allocation.id, allocation.bytes, allocation.start
    )
}

/// Reserves `size` bytes of readable and writable addresses, at [`BASE`] if that is free.
fn map_range(size: u64) -> io::Result<u64> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let map = |hint: u64, flags| {
        // SAFETY: an anonymous mapping; neither MAP_FIXED_NOREPLACE nor a null hint replaces a mapping that exists.
        let at = unsafe {
            libc::mmap(
                hint as *mut libc::c_void,
                size as usize,
                protection,
                flags,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(at as u64)
        }
    };
    map(BASE, flags | libc::MAP_FIXED_NOREPLACE).or_else(|_| map(0, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const OWNER: Owner = Owner {
        kind: Kind::Device,
        context: 7,
        pool: 0,
    };

    fn arena() -> Arena {
        Arena::reserve(64 * MIB).expect("address space")
    }

    #[test]
    fn addresses_are_aligned_apart_and_repeatable() {
        let sizes = [1, 255, 256, 257, LARGE - 1, LARGE, LARGE + 1, 3];
        let offsets = |arena: &Arena| -> Vec<u64> {
            sizes
                .iter()
                .map(|&bytes| arena.allocate(bytes, OWNER).unwrap() - arena.base)
                .collect()
        };
        let (first, second) = (arena(), arena());
        let starts = offsets(&first);
        assert_eq!(starts, offsets(&second));
        for (index, (&start, &bytes)) in starts.iter().zip(&sizes).enumerate() {
            assert_eq!(start % GRAIN, 0);
            let gap = start + bytes..start + bytes + GRAIN;
            assert!(
                starts.iter().all(|other| !gap.contains(other)),
                "gap after allocation {index}"
            );
        }
    }

    #[test]
    fn freed_memory_is_not_reused_soon_and_is_still_known() {
        let arena = arena();
        let freed = arena.allocate(100, OWNER).unwrap();
        arena.free(freed, &[Kind::Device]).unwrap();
        for _ in 0..QUARANTINE_RANGES / 2 {
            let other = arena.allocate(100, OWNER).unwrap();
            assert_ne!(other, freed);
            arena.free(other, &[Kind::Device]).unwrap();
        }
        let map = arena.map();
        let found = map.containing(freed + 99).expect("still in the map");
        assert!(!found.live && found.start == freed);
        let text = arena.check_range("copy", freed, 4).unwrap_err().to_string();
        assert!(text.contains("freed before"), "{text}");
    }

    #[test]
    fn the_quarantine_is_bounded_and_gives_ranges_back() {
        let arena = arena();
        let mut seen = std::collections::HashSet::new();
        let mut reused = false;
        for _ in 0..QUARANTINE_RANGES * 3 {
            let addr = arena.allocate(1000, OWNER).unwrap();
            reused |= !seen.insert(addr);
            arena.free(addr, &[Kind::Device]).unwrap();
        }
        assert!(reused);
        assert_eq!(arena.usage(), (64 * MIB, 64 * MIB));
        assert!(lock(&arena.state).allocations.len() <= QUARANTINE_RANGES);
    }

    #[test]
    fn a_churn_of_mixed_sizes_never_overlaps_and_never_runs_out() {
        let arena = Arena::new(map_range(8 * MIB).unwrap(), 8 * MIB, MIB).unwrap();
        let mut live: VecDeque<(u64, u64)> = VecDeque::new();
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let bytes = 1 + (seed >> 33) % if seed >> 62 == 0 { 200_000 } else { 2_000 };
            let addr = arena.allocate(bytes, OWNER).unwrap();
            for &(other, length) in &live {
                assert!(addr + bytes <= other || other + length <= addr);
            }
            live.push_back((addr, bytes));
            if live.len() > 4 {
                let (oldest, _) = live.pop_front().unwrap();
                arena.free(oldest, &[Kind::Device]).unwrap();
            }
        }
    }

    #[test]
    fn the_limit_counts_live_device_memory_only() {
        let arena = arena();
        let host = Owner {
            kind: Kind::Host,
            ..OWNER
        };
        arena.allocate(32 * MIB, host).unwrap();
        let first = arena.allocate(40 * MIB, OWNER).unwrap();
        let refused = arena.allocate(24 * MIB + 1, OWNER).unwrap_err();
        assert!(matches!(refused, ArenaError::OutOfMemory(_)), "{refused}");
        arena.allocate(24 * MIB, OWNER).unwrap();
        assert_eq!(arena.usage(), (0, 64 * MIB));
        arena.free(first, &[Kind::Device]).unwrap();
        assert_eq!(arena.usage(), (40 * MIB, 64 * MIB));
        assert!(arena.allocate(u64::MAX, host).is_err());
    }

    #[test]
    fn a_wrong_free_is_explained_and_changes_nothing() {
        let arena = arena();
        let addr = arena.allocate(64, OWNER).unwrap();
        for (bad, kinds, expected) in [
            (addr + 8, Kind::Device, "only its start"),
            (addr, Kind::Host, "another function"),
            (addr + 64, Kind::Device, "in no allocation"),
            (0, Kind::Device, "in no allocation"),
            (u64::MAX, Kind::Device, "in no allocation"),
        ] {
            let text = arena.free(bad, &[kinds]).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        }
        arena.free(addr, &[Kind::Device]).unwrap();
        assert!(
            arena
                .free(addr, &[Kind::Device])
                .unwrap_err()
                .to_string()
                .contains("freed before")
        );
    }

    #[test]
    fn ranges_are_checked_to_the_byte() {
        let arena = arena();
        let addr = arena.allocate(100, OWNER).unwrap();
        for (start, bytes, fits) in [
            (addr, 100, true),
            (addr + 99, 1, true),
            (addr, 101, false),
            (addr + 99, 2, false),
            (addr + 100, 1, false),
            (addr.wrapping_sub(1), 1, false),
            (addr + 1, u64::MAX, false),
        ] {
            assert_eq!(
                arena.check_range("copy", start, bytes).is_ok(),
                fits,
                "{start:#x} {bytes}"
            );
        }
        let text = arena
            .check_range("copy", addr + 90, 15)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("end 5 bytes past the end of allocation 1 (100 bytes"),
            "{text}"
        );
    }

    #[test]
    fn device_memory_starts_as_nan_and_variables_as_zero() {
        let arena = arena();
        let device = arena.allocate(8, OWNER).unwrap();
        let variable = arena
            .allocate(
                8,
                Owner {
                    kind: Kind::Variable,
                    ..OWNER
                },
            )
            .unwrap();
        // SAFETY: both are live allocations of 8 bytes of this arena.
        let values = unsafe {
            (
                (device as *const f32).read(),
                (variable as *const u64).read(),
            )
        };
        assert!(values.0.is_nan());
        assert_eq!(values.1, 0);
    }

    #[test]
    fn a_context_takes_its_memory_along() {
        let arena = arena();
        let gone = arena.allocate(8, OWNER).unwrap();
        let kept = arena
            .allocate(
                8,
                Owner {
                    context: 8,
                    ..OWNER
                },
            )
            .unwrap();
        arena.free_context(7);
        assert!(arena.check_range("copy", gone, 1).is_err());
        assert!(arena.check_range("copy", kept, 1).is_ok());
    }
}
