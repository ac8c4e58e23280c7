//! Wavefronts of an access to shared memory: rounds in which each of its 32 banks serves one word.

use crate::exec::lane_mask::{FULL, lanes};

/// Banks of an access, from which its wavefronts follow.
pub(super) struct BankAccess<'p> {
    pub mask: u32,
    /// Bytes of one lane.
    pub bytes: u32,
    /// A load whose lanes may pair up.
    pub pairs: bool,
    /// Address of each lane minus that of the first active one.
    pub deltas: &'p [i32; 32],
}

impl BankAccess<'_> {
    /// Wavefronts if the first active lane lies `offset` bytes behind a multiple of 128.
    #[cold]
    #[inline(never)]
    pub(super) fn wavefronts(&self, offset: i32) -> u8 {
        self.passes(offset).map(|(_, wavefronts)| wavefronts).sum()
    }

    /// The groups of lanes that are served one after the other, and the wavefronts of each.
    pub(super) fn passes(&self, offset: i32) -> impl Iterator<Item = (u32, u8)> {
        self.groups()
            .map(move |group| (group, self.wavefronts_of(group, offset)))
    }

    fn wavefronts_of(&self, group: u32, offset: i32) -> u8 {
        let mut words: Vec<i32> = lanes(group)
            .flat_map(|lane| {
                let first = (self.deltas[lane] + offset) >> 2;
                first..first + (self.bytes as i32).div_euclid(4).max(1)
            })
            .collect();
        words.sort_unstable();
        words.dedup();
        let mut banks = [0u8; 32];
        for word in words {
            banks[(word & 31) as usize] += 1;
        }
        banks.into_iter().max().unwrap_or(0)
    }

    /// Wavefronts without bank conflicts.
    pub(super) fn ideal_wavefronts(&self) -> u64 {
        if self.bytes <= 4 {
            1
        } else {
            self.groups().count() as u64
        }
    }

    /// Groups of lanes that take one wavefront each without bank conflicts: 32 lanes, 16 with 8
    /// bytes each, 8 with 16. A load of 8 or 16 bytes, but no load of rows, has groups twice as
    /// large if the lanes of each pair up. (`MODEL.md` names the source.)
    fn groups(&self) -> impl Iterator<Item = u32> {
        let mut size = (128 / self.bytes.max(1)).min(32);
        let paired = |group| self.is_paired(group, 1) || self.is_paired(group, 2);
        if size < 32 && self.pairs && split(self.mask, 2 * size).all(paired) {
            size *= 2;
        }
        split(self.mask, size)
    }

    /// True if each lane of the group and its partner, whose number differs in the bit `partner`,
    /// have the same address, or one of them is inactive.
    fn is_paired(&self, group: u32, partner: usize) -> bool {
        lanes(group).all(|lane| {
            let other = lane ^ partner;
            group >> other & 1 == 0 || self.deltas[lane] == self.deltas[other]
        })
    }
}

/// The active lanes of each `size` lanes in a row.
fn split(mask: u32, size: u32) -> impl Iterator<Item = u32> {
    let group = FULL >> (32 - size);
    (0..32 / size)
        .map(move |i| mask & group << (i * size))
        .filter(|group| *group != 0)
}
