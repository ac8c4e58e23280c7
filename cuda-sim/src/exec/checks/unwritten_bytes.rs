//! Bytes that nobody wrote: what a load got of them, and marks of bytes that hold no value.

use crate::exec::active_warp::ActiveWarp;
use crate::exec::block_memory::BlockMemory;
use crate::exec::checks::accesses::Checks;
use crate::exec::checks::checked_access::{CheckedAccess, LaneAccess};
use crate::exec::checks::happens_before;
use crate::exec::cluster::block_rank;
use crate::exec::lane_fault::{LaneFault, Trap};
use crate::exec::lane_mask::lanes;
use crate::fault::{FaultKind, UnsetRead};
use crate::program::op::MemorySpace;

/// A load that got bytes that nobody wrote: its instruction, and the place of the element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnsetLoad {
    pub pc: u32,
    pub space: MemorySpace,
    pub at: u64,
    pub bytes: u32,
    /// The value was computed from what was loaded; otherwise it is a copy.
    pub computed: bool,
}

/// What each lane has loaded, if some of it was never written.
pub(crate) type LoadedBytes = [LoadedPlace; 32];

/// What a lane has loaded.
#[derive(Clone, Copy)]
pub(crate) struct LoadedPlace {
    pub space: MemorySpace,
    pub at: u64,
    /// The bytes that nobody wrote, a bit each.
    pub unset: u32,
}

/// Rows of a factor A, or columns of B, that have an unset element, with its load.
pub(crate) type Lines<const N: usize> = [Option<UnsetLoad>; N];

impl Checks<'_> {
    /// Checks a load of which all bytes are used at once, so that all must have been written.
    pub(crate) fn load_written(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        checked: CheckedAccess<'_>,
    ) -> Result<(), Trap> {
        if checked.access.is_partial() {
            self.load_used(warp, checked)?;
        } else {
            self.load(warp, checked)?;
        }
        let Some(loaded) = self.loaded.take() else {
            return Ok(());
        };
        let unset = |lane: &usize| loaded[*lane].unset != 0;
        let lane = lanes(checked.part.mask).find(unset).unwrap_or(0);
        let seen = checked.lane_access(lane as u32, false);
        Err(unwritten_fault(warp, checked.memory, seen))
    }

    /// Notes the bytes of a load that nobody wrote.
    #[cold]
    #[inline(never)]
    pub(super) fn note_unset(&mut self, warp: &mut ActiveWarp<'_>, checked: CheckedAccess<'_>) {
        let space = checked.part.space;
        let nothing = LoadedPlace {
            space,
            at: 0,
            unset: 0,
        };
        let mut loaded = self
            .loaded
            .take()
            .unwrap_or_else(|| Box::new([nothing; 32]));
        for lane in lanes(checked.part.mask) {
            let at = checked.address(lane);
            let is_written = |byte: u64| match space {
                MemorySpace::Shared => self.shared.is_written(at + byte),
                MemorySpace::Local => {
                    let start = lane * warp.local_bytes as usize;
                    warp.local_written.as_slice()[start + (at + byte) as usize] != 0
                }
                _ => self.device.records.shadow.bytes.is_written(at + byte, 1),
            };
            let used = (0..checked.bytes()).filter(|byte| checked.access.used >> byte & 1 != 0);
            let unset = used
                .filter(|byte| !is_written(*byte))
                .fold(0, |all, byte| all | 1 << byte);
            loaded[lane] = LoadedPlace { space, at, unset };
        }
        self.loaded = Some(loaded);
    }

    /// Marks what a lane just stored at the address `at` of a space as not written: it holds no
    /// value.
    pub(crate) fn unwrite(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        space: MemorySpace,
        at: u64,
        lane: usize,
    ) {
        match space {
            MemorySpace::Generic | MemorySpace::Global => self.device.unwrite(at),
            // Not in another block of the cluster, where all that comes counts as written.
            MemorySpace::Shared if block_rank(at).is_some() => {}
            MemorySpace::Shared => self.shared.unwrite(at),
            MemorySpace::Local => {
                let start = lane * warp.local_bytes as usize;
                warp.local_written.as_mut_slice()[start + at as usize] = 0;
            }
            MemorySpace::Param => unreachable!("no store to parameters succeeds"),
        }
    }

    /// Marks a byte as not written, as [`Checks::unwrite`], because what a lane just stored there
    /// was loaded from memory that nobody wrote.
    pub(crate) fn unwrite_copy(
        &mut self,
        warp: &mut ActiveWarp<'_>,
        space: MemorySpace,
        at: u64,
        lane: usize,
        load: UnsetLoad,
    ) {
        self.unwrite(warp, space, at, lane);
        if space != MemorySpace::Global {
            let place = (space, owner(warp.number, space, lane), at);
            self.shared.copied_from.insert(place, load);
        }
    }

    /// The load of which a byte that nobody wrote is a copy, as far as is known.
    pub(crate) fn copied_from(
        &self,
        warp: usize,
        space: MemorySpace,
        at: u64,
        lane: usize,
    ) -> Option<UnsetLoad> {
        let place = (space, owner(warp, space, lane), at);
        self.shared.copied_from.get(&place).copied()
    }
}

/// The thread whose memory it is; 0 if it is that of the block.
fn owner(warp: usize, space: MemorySpace, lane: usize) -> u32 {
    match space {
        MemorySpace::Local => happens_before::thread(warp, lane as u32),
        _ => 0,
    }
}

#[cold]
#[inline(never)]
pub(super) fn unwritten_fault(
    warp: &ActiveWarp<'_>,
    memory: &BlockMemory<'_>,
    seen: LaneAccess,
) -> Trap {
    let bad = memory.bad_access(warp, seen.space, false, (seen.at, seen.bytes), None);
    LaneFault::new(FaultKind::UninitialisedRead(UnsetRead::new(bad)), seen.lane)
}
