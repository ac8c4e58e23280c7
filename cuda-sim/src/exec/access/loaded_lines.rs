//! Sectors of device memory that the running block has loaded: those that its multiprocessor's L1
//! cache has, if it is large enough. Some blocks of a large grid stand for all.

/// Bytes of a sector; a line has four.
const SECTOR: u64 = 32;
/// Blocks of a grid that are looked at, if it has as many; it may be up to twice as
/// many, at equal distances.
const LOOKED_AT: u64 = 16;
/// Slots of a new table.
const SLOTS: usize = 1 << 8;
/// Slots of the largest table, for half as many lines: 64 MiB, more than a cache holds.
const MOST_SLOTS: usize = 1 << 20;

/// Lines that the running block has loaded since it came to this host thread, in a hash table. What
/// was left there before counts as free.
#[derive(Default)]
pub(crate) struct LoadedLines {
    slots: Vec<Slot>,
    /// The running block is one of those that are looked at.
    pub looks: bool,
    /// Number of the running block.
    block: Option<u64>,
    /// How often another block came, which tells the stays of blocks apart. 0 is none.
    pub stay: u64,
    /// Slots of this stay.
    used: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    line: u64,
    stay: u64,
    /// A bit for each sector.
    sectors: u32,
}

impl LoadedLines {
    /// The block with this number, of so many, runs from here on.
    pub(crate) fn enter(&mut self, number: u64, blocks: u64) {
        self.looks = number.is_multiple_of((blocks / LOOKED_AT).max(1));
        if self.block != Some(number) {
            self.block = Some(number);
            self.stay += 1;
            self.used = 0;
        }
    }

    /// Counts the sectors of `bytes` bytes at `address` that the block has not loaded yet, and
    /// marks them.
    #[inline]
    pub(crate) fn touch(&mut self, address: u64, bytes: u64) -> u64 {
        let (first, last) = (address / SECTOR, (address + bytes - 1) / SECTOR);
        let mut fresh = 0;
        for line in first / 4..=last / 4 {
            // The sectors of this line that are meant.
            let from = first.max(line * 4) % 4;
            let to = last.min(line * 4 + 3) % 4;
            fresh += self.touch_line(line, (0xf >> (3 - to)) & (0xf << from));
        }
        fresh
    }

    #[inline]
    fn touch_line(&mut self, line: u64, sectors: u32) -> u64 {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = place(line) & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.stay != self.stay {
                *slot = Slot {
                    line,
                    stay: self.stay,
                    sectors,
                };
                self.used += 1;
                return u64::from(sectors.count_ones());
            }
            if slot.line == line {
                let fresh = sectors & !slot.sectors;
                slot.sectors |= sectors;
                return u64::from(fresh.count_ones());
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        if self.slots.len() == MOST_SLOTS {
            // Forgets them all.
            self.stay += 1;
            self.used = 0;
            return;
        }
        let slots = (2 * self.slots.len()).max(SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        for slot in old.into_iter().filter(|slot| slot.stay == self.stay) {
            let mut at = place(slot.line) & (slots - 1);
            while self.slots[at].stay == self.stay {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = slot;
        }
    }
}

/// Where a line is looked for first.
#[inline(always)]
fn place(line: u64) -> usize {
    // The golden ratio in 64 bits spreads lines that are a power of two apart.
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 4 * SECTOR;

    #[test]
    fn a_sector_counts_once_for_each_block() {
        let mut loaded = LoadedLines::default();
        loaded.enter(0, 9);
        assert_eq!(loaded.touch(LINE + 4, 4), 1);
        assert_eq!(loaded.touch(LINE, LINE), 3);
        // The last byte lies in the next line.
        assert_eq!(loaded.touch(LINE + 1, LINE), 1);
        loaded.enter(0, 9);
        assert_eq!(loaded.touch(LINE, LINE), 0);
        loaded.enter(1, 9);
        assert_eq!(loaded.touch(LINE, LINE), 4);
    }

    #[test]
    fn blocks_that_take_turns_fill_no_table() {
        let mut loaded = LoadedLines::default();
        for turn in 0..100 {
            loaded.enter(0, 2);
            for i in 0..100 {
                assert_eq!(loaded.touch((100 * turn + i) * LINE, 4), 1);
            }
            loaded.enter(1, 2);
        }
    }

    #[test]
    fn a_block_that_loads_more_than_a_cache_holds_needs_no_more_memory() {
        let mut loaded = LoadedLines::default();
        loaded.enter(0, 1);
        let last = 2 * MOST_SLOTS as u64 - 9;
        for line in 0..=last {
            assert_eq!(loaded.touch(line * LINE, 4), 1);
        }
        assert_eq!(loaded.slots.len(), MOST_SLOTS);
        assert_eq!(loaded.touch(last * LINE, 4), 0, "it is known");
        assert_eq!(loaded.touch(0, 4), 1, "it is forgotten");
    }

    #[test]
    fn blocks_of_a_large_grid_are_looked_at_in_equal_distances() {
        let mut loaded = LoadedLines::default();
        let looks = |loaded: &mut LoadedLines, blocks: u64| {
            let looks = |&number: &u64| {
                loaded.enter(number, blocks);
                loaded.looks
            };
            (0..blocks).filter(looks).collect::<Vec<_>>()
        };
        assert_eq!(looks(&mut loaded, 31).len(), 31);
        assert_eq!(looks(&mut loaded, 1000)[..3], [0, 62, 124]);
    }

    #[test]
    fn the_table_grows_and_forgets_nothing() {
        let mut loaded = LoadedLines::default();
        loaded.enter(7, 9);
        let all = |loaded: &mut LoadedLines| -> u64 {
            (0..5000).map(|i| loaded.touch(i << 12, 64)).sum()
        };
        assert_eq!(all(&mut loaded), 10_000);
        assert_eq!(all(&mut loaded), 0);
    }
}
