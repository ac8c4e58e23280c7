//! Traffic of memory instructions: requests, lanes, sectors and wavefronts.

use crate::exec::access::loaded_lines::LoadedLines;
use crate::exec::access::part::AccessPart;
use crate::exec::access::pattern::AccessPattern;
use crate::exec::lane_mask::lanes;
use crate::exec::tally::{Tallies, Transfers};
use crate::memory::sectors::{SECTOR, Sectors};
use crate::program::op::{Access, AccessKind, MemorySpace};

/// Bytes of a wavefront of shared memory.
const BANK_BYTES: u64 = 128;

/// Counters of one host thread.
pub(crate) struct Counters<'a> {
    pub tallies: Tallies,
    /// Lines that the running block has loaded.
    pub loaded: LoadedLines,
    /// Sectors of device memory that the launch has touched; there while it runs.
    pub sectors: Option<&'a Sectors>,
}

impl Counters<'_> {
    /// Counts the traffic of a part: of the whole access, used or not. Unused bytes may lie behind
    /// an allocation, but in a sector of which used ones are inside, because the access is aligned
    /// and no larger than a sector.
    #[inline(always)]
    pub(crate) fn count(
        &mut self,
        pattern: &mut AccessPattern,
        access: &Access,
        part: &AccessPart,
        kind: AccessKind,
        request: bool,
    ) {
        let traffic = &mut self.tallies.traffic[access.site as usize];
        let transfers = match part.space {
            MemorySpace::Param => return,
            MemorySpace::Shared => {
                traffic.shared.units += pattern.wavefronts(part.first);
                traffic.shared.ideal += pattern.ideal_wavefronts();
                traffic.wavefronts += pattern.joined_wavefronts;
                &mut traffic.shared
            }
            MemorySpace::Local => {
                traffic.local.units += pattern.local_sectors(part.first);
                &mut traffic.local
            }
            MemorySpace::Generic | MemorySpace::Global => {
                traffic.global.units += pattern.sectors(part.first);
                traffic.global.ideal += pattern.lines;
                traffic.wavefronts += pattern.l1_wavefronts;
                let mut fresh = [0, 0];
                let looks = kind == AccessKind::Load && self.loaded.looks;
                let again = looks && pattern.loads_again(self.loaded.stay, part.first);
                if looks {
                    traffic.looked_at += pattern.sectors(part.first);
                }
                if let Some(sectors) = self.sectors.filter(|_| !again) {
                    let bytes = u64::from(access.bytes());
                    pattern.for_each_span(part.first, bytes, |start, bytes| {
                        let first = looks.then(|| self.loaded.touch(start, bytes));
                        traffic.first += first.unwrap_or(0);
                        // What this block has loaded, the launch has touched.
                        if kind == AccessKind::Load && first != Some(0) {
                            fresh[0] += sectors.touch(start, bytes, false);
                        }
                        if kind == AccessKind::Atomic {
                            fresh[0] += sectors.touch(start, bytes, false);
                        }
                        if kind != AccessKind::Load {
                            fresh[1] += sectors.touch(start, bytes, true);
                        }
                    });
                }
                if kind == AccessKind::Atomic {
                    for lane in lanes(part.mask) {
                        let delta = i64::from(pattern.deltas.0[lane]);
                        let address = part.first.wrapping_add_signed(delta);
                        self.tallies.atomics.count(address);
                    }
                }
                self.tallies.sectors_read += fresh[0];
                self.tallies.sectors_written += fresh[1];
                &mut traffic.global
            }
        };
        transfers.requests += u64::from(request);
        transfers.lanes += u64::from(part.mask.count_ones());
    }

    /// Counts the side of a bulk copy that lies in device memory: these ranges of it, by their
    /// first bytes and their lengths. They do not pass the L1 cache, and each byte counts as a
    /// lane.
    pub(crate) fn count_bulk_device(
        &mut self,
        site: u32,
        kind: AccessKind,
        ranges: impl Iterator<Item = (u64, u64)>,
    ) {
        let traffic = &mut self.tallies.traffic[site as usize].global;
        traffic.requests += 1;
        for (start, bytes) in ranges.filter(|(_, bytes)| *bytes > 0) {
            traffic.lanes += bytes;
            traffic.units += (start + bytes - 1) / SECTOR - start / SECTOR + 1;
            if let Some(sectors) = self.sectors {
                if kind != AccessKind::Store {
                    self.tallies.sectors_read += sectors.touch(start, bytes, false);
                }
                if kind != AccessKind::Load {
                    self.tallies.sectors_written += sectors.touch(start, bytes, true);
                }
            }
        }
    }

    /// Counts the side of a bulk copy that lies in shared memory. It has no bank conflicts.
    pub(crate) fn count_bulk_shared(&mut self, site: u32, bytes: u64) {
        let wavefronts = bytes.div_ceil(BANK_BYTES);
        let traffic = &mut self.tallies.traffic[site as usize];
        traffic.wavefronts += wavefronts;
        traffic.shared += &Transfers {
            requests: 1,
            lanes: bytes,
            units: wavefronts,
            ideal: wavefronts,
        };
    }

    /// Counts an access to aligned words of shared memory.
    #[inline(always)]
    pub(crate) fn count_shared_words(&mut self, pattern: &AccessPattern, access: &Access) {
        let traffic = &mut self.tallies.traffic[access.site as usize];
        traffic.shared += &pattern.shared_cost;
        traffic.wavefronts += pattern.joined_wavefronts;
    }

    /// Counts a load of device memory whose sectors the launch has read before.
    #[inline(always)]
    pub(crate) fn count_repeated_load(
        &mut self,
        pattern: &mut AccessPattern,
        access: &Access,
        first: u64,
    ) {
        let traffic = &mut self.tallies.traffic[access.site as usize];
        if self.loaded.looks {
            traffic.looked_at += pattern.sectors(first);
            if !pattern.loads_again(self.loaded.stay, first) {
                pattern.for_each_span(first, u64::from(access.bytes()), |start, bytes| {
                    traffic.first += self.loaded.touch(start, bytes);
                });
            }
        }
        traffic.wavefronts += pattern.l1_wavefronts;
        let traffic = &mut traffic.global;
        traffic.requests += 1;
        traffic.lanes += u64::from(pattern.mask.count_ones());
        traffic.units += pattern.sectors(first);
        traffic.ideal += pattern.lines;
    }
}
