//! Address pattern of a memory instruction: the distances between its lanes, and what follows from
//! them.
//!
//! A memory instruction has the same pattern again and again; only the first address changes. The
//! pattern keeps the extent, the bank conflicts, the sectors, and the runs of neighbouring words. A
//! few vector comparisons show that an access has the pattern of the one before. Then a few scalar
//! steps check and count it.

use crate::exec::access::bank_conflicts::BankAccess;
use crate::exec::access::owners::WordOwners;
use crate::exec::lane_mask::{FULL, lanes};
use crate::exec::tally::Transfers;
use crate::program::analysis::joined_loads::Join;
use crate::program::op::{Access, AccessKind};

/// Address pattern of one memory instruction.
#[derive(Default)]
pub(crate) struct AccessPattern {
    /// Lanes of the access. 0: nothing is known yet.
    pub mask: u32,
    /// Address of each lane minus that of the first active one; 0 for inactive lanes.
    pub deltas: Deltas,
    /// Bytes of one lane.
    bytes: u32,
    /// A load whose lanes may pair up.
    pairs: bool,
    /// The smallest and the largest delta.
    pub low: i64,
    pub high: i64,
    /// All bits that are set in some delta.
    bits: u32,
    pub shape: Shape,
    /// Words that lie in a row, for accesses of whole words.
    pub runs: Vec<Run>,
    /// All words of the runs, counted from that of the first lane; the last one is repeated until
    /// there are a multiple of eight.
    pub words: Vec<i32>,
    /// Sectors, by the first address modulo 32; 0 where not known yet.
    sectors: [u8; 32],
    /// Wavefronts, by the first address modulo 4; 0 where not known yet.
    wavefronts: [u8; 4],
    /// Cache lines of 128 bytes that one access touches if the first lane's address begins one.
    pub lines: u64,
    /// Cost of one access from an aligned place, as traffic of shared memory.
    pub shared_cost: Transfers,
    /// Whether the assembler joins the access with others.
    join: Join,
    /// Wavefronts of one load from an aligned place, as the assembler makes it.
    pub joined_wavefronts: u64,
    /// Wavefronts of one access of the L1 cache.
    pub l1_wavefronts: u64,
    /// Some lanes lie at the same place.
    pub overlaps: bool,
    /// The memory instruction of the same stretch of code that has the same base register, if it
    /// comes first.
    pub leader: Option<u32>,
    /// Number of patterns that were learned.
    pub generation: u64,
    /// The generation of the leader that has this pattern, too; 0 if that is not known.
    pub confirmed: u64,
    /// Stay of a block, pattern and place of the load that was made last: see
    /// [`loads_again`](Self::loads_again).
    last_load: (u64, u64, u64),
    /// Allocation that the access touched last, for device memory: first address, and first address
    /// behind.
    pub range: (u64, u64),
    /// First address of shared memory that the access may touch, and first address behind: those of
    /// the array that its addresses are made from, if that is known, or else of all shared memory.
    pub shared: (u64, u64),
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Deltas(pub [i32; 32]);

/// Patterns that have a fast way to move the words of 32 active lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shape {
    #[default]
    Any,
    /// Each lane behind the one before.
    Row,
    /// All lanes at one place.
    Same,
    /// Each half warp is a row (true) or at one place (false), of single words.
    Halves([bool; 2]),
}

/// Words in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// First byte, relative to the first active lane's address.
    pub start: i32,
    pub words: u32,
    /// Whose each word is, or, of words that several lanes access, the lowest of those.
    pub owners: WordOwners,
    /// Several lanes access each of the words; otherwise one.
    pub shared: bool,
}

impl AccessPattern {
    pub(crate) fn new(leader: Option<u32>, join: Join, shared: (u64, u64)) -> AccessPattern {
        AccessPattern {
            leader,
            join,
            shared,
            ..AccessPattern::default()
        }
    }

    /// Forgets what may be different in another launch: allocations, and the size of shared memory.
    pub(crate) fn begin_launch(&mut self, shared: (u64, u64)) {
        self.range = (0, 0);
        self.last_load = (0, 0, 0);
        self.shared = shared;
    }

    /// The first active lane.
    #[inline(always)]
    pub(crate) fn first_lane(&self) -> usize {
        self.mask.trailing_zeros() as usize & 31
    }

    /// Learns the pattern of the addresses in the lanes of `mask`, but for those that are a GiB or
    /// more from the first one. Returns the lanes that it learned.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn(
        &mut self,
        mask: u32,
        access: &Access,
        kind: AccessKind,
        address: impl Fn(usize) -> u64,
    ) -> u32 {
        let bytes = access.bytes();
        let first = address(mask.trailing_zeros() as usize & 31);
        let mut deltas = [0i32; 32];
        let mut near = 0;
        for lane in lanes(mask) {
            let delta = address(lane).wrapping_sub(first) as i64;
            if delta.unsigned_abs() < 1 << 30 {
                deltas[lane] = delta as i32;
                near |= 1 << lane;
            }
        }
        let mask = near;
        self.generation += 1;
        self.confirmed = 0;
        self.mask = mask;
        self.deltas = Deltas(deltas);
        self.bytes = bytes;
        self.pairs = kind == AccessKind::Load && !access.row;
        self.low = i64::from(deltas.iter().copied().min().unwrap_or(0));
        self.high = i64::from(deltas.iter().copied().max().unwrap_or(0));
        self.bits = deltas.iter().fold(0, |bits, &d| bits | d as u32);
        self.shape = shape(mask, bytes, &deltas);
        self.sectors = [0; 32];
        self.lines = u64::from(self.count_units(0, 7));
        self.wavefronts = [0; 4];
        self.shared_cost = Transfers {
            requests: 1,
            lanes: u64::from(mask.count_ones()),
            units: u64::from(self.banks().wavefronts(0)),
            ideal: self.banks().ideal_wavefronts(),
        };
        // Atomic operations on one word take turns.
        let turns = match kind {
            AccessKind::Atomic => most_at_one_place(mask, &deltas),
            _ => 1,
        };
        let alone = self.shared_cost.units.max(turns);
        // The cache looks up four lines in a clock, and has the banks of shared memory.
        self.l1_wavefronts = alone.max(self.lines.div_ceil(4));
        self.joined_wavefronts = match self.join {
            Join::Alone => alone,
            Join::Gone => 0,
            Join::Wider(bytes) => self.banks_of(bytes).wavefronts(0).into(),
        };
        self.overlaps = overlaps(mask, bytes, &deltas);
        self.runs.clear();
        if bytes >= 4 {
            find_runs(mask, bytes / 4, &deltas, &mut self.runs);
        }
        self.words.clear();
        let words_of = |run: &Run| run.start / 4..run.start / 4 + run.words as i32;
        self.words.extend(self.runs.iter().flat_map(words_of));
        let last = self.words.last().copied().unwrap_or(0);
        self.words
            .resize(self.words.len().next_multiple_of(8), last);
        mask
    }

    /// The lanes that access word `i` of a run of this pattern.
    pub(crate) fn sharers(&self, run: &Run, i: u32) -> u32 {
        if !run.shared {
            return 1 << run.owners.owner(i as usize);
        }
        let at = run.start + 4 * i as i32;
        let has = |lane: usize| (0..self.bytes as i32).contains(&(at - self.deltas.0[lane]));
        lanes(self.mask).fold(0, |all, lane| all | u32::from(has(lane)) << lane)
    }

    /// True if all lanes are aligned to `bytes` if the first is at `first`.
    #[inline(always)]
    pub(crate) fn is_aligned(&self, first: u64, bytes: u64) -> bool {
        (first | u64::from(self.bits)) & (bytes - 1) == 0
    }

    /// True if a load in this stay of a block touches the sectors that the last load of
    /// this instruction did, in the same stay: as loads of a row's next word do, for
    /// lanes that have a row each.
    #[inline(always)]
    pub(crate) fn loads_again(&mut self, stay: u64, first: u64) -> bool {
        // Lanes at whole sectors from each other change sectors together.
        let place = if self.bits.is_multiple_of(32) {
            first / 32
        } else {
            first
        };
        let load = (stay, self.generation, place);
        std::mem::replace(&mut self.last_load, load) == load
    }

    /// Sectors of device memory that the access touches.
    #[inline(always)]
    pub(crate) fn sectors(&mut self, first: u64) -> u64 {
        let at = (first % 32) as usize;
        if self.sectors[at] == 0 {
            self.sectors[at] = self.count_units(at as i32, 5);
        }
        u64::from(self.sectors[at])
    }

    /// Units of 2^`shift` bytes that the lanes' first bytes lie in.
    #[cold]
    #[inline(never)]
    fn count_units(&self, offset: i32, shift: u32) -> u8 {
        // Inactive lanes lie where the first active one does.
        let mut units = self.deltas.0.map(|delta| (delta + offset) >> shift);
        if !units.is_sorted() {
            units.sort_unstable();
        }
        1 + units.windows(2).filter(|pair| pair[0] != pair[1]).count() as u8
    }

    /// Sectors of local memory. A multiprocessor keeps the same word of all lanes side by side.
    pub(crate) fn local_sectors(&self, first: u64) -> u64 {
        let mut touched: Vec<(i64, u32)> = lanes(self.mask)
            .flat_map(|lane| {
                let word = (first as i64 + i64::from(self.deltas.0[lane])) >> 2;
                (0..i64::from(self.bytes.div_ceil(4))).map(move |i| (word + i, lane as u32 / 8))
            })
            .collect();
        touched.sort_unstable();
        touched.dedup();
        touched.len() as u64
    }

    /// Calls `f` with the first byte and the length of each stretch of memory that the access
    /// touches.
    #[inline(always)]
    pub(crate) fn for_each_span(&self, first: u64, bytes: u64, mut f: impl FnMut(u64, u64)) {
        if self.runs.is_empty() {
            for lane in lanes(self.mask) {
                f(
                    first.wrapping_add_signed(i64::from(self.deltas.0[lane])),
                    bytes,
                );
            }
        }
        for run in &self.runs {
            let start = first.wrapping_add_signed(i64::from(run.start));
            f(start, 4 * u64::from(run.words));
        }
    }

    fn banks(&self) -> BankAccess<'_> {
        self.banks_of(self.bytes)
    }

    fn banks_of(&self, bytes: u32) -> BankAccess<'_> {
        BankAccess {
            mask: self.mask,
            bytes,
            pairs: self.pairs,
            deltas: &self.deltas.0,
        }
    }

    /// Groups of lanes that shared memory serves one after the other, and the wavefronts of each.
    pub(crate) fn passes(&self, first: u64) -> Vec<(u32, u32)> {
        let banks = self.banks();
        let passes = banks.passes((first % 4) as i32);
        passes
            .map(|(lanes, wavefronts)| (lanes, u32::from(wavefronts)))
            .collect()
    }

    /// Wavefronts without bank conflicts.
    #[inline(always)]
    pub(crate) fn ideal_wavefronts(&self) -> u64 {
        self.shared_cost.ideal
    }

    /// Wavefronts of shared memory.
    #[inline(always)]
    pub(crate) fn wavefronts(&mut self, first: u64) -> u64 {
        let at = (first % 4) as usize;
        if self.wavefronts[at] == 0 {
            self.wavefronts[at] = self.banks().wavefronts(at as i32);
        }
        u64::from(self.wavefronts[at])
    }
}

fn shape(mask: u32, bytes: u32, deltas: &[i32; 32]) -> Shape {
    if mask != FULL {
        return Shape::Any;
    }
    let row = |half: &[i32]| {
        half.windows(2)
            .all(|pair| pair[1] - pair[0] == bytes as i32)
    };
    let same = |half: &[i32]| half.iter().all(|d| *d == half[0]);
    if row(deltas) {
        return Shape::Row;
    }
    if same(deltas) {
        return Shape::Same;
    }
    let (low, high) = deltas.split_at(16);
    let regular = |half: &[i32]| row(half) || same(half);
    if bytes == 4 && regular(low) && regular(high) {
        Shape::Halves([row(low), row(high)])
    } else {
        Shape::Any
    }
}

fn overlaps(mask: u32, bytes: u32, deltas: &[i32; 32]) -> bool {
    let mut places: Vec<i32> = lanes(mask).map(|lane| deltas[lane]).collect();
    places.sort_unstable();
    places
        .windows(2)
        .any(|pair| pair[1] - pair[0] < bytes as i32)
}

/// The most lanes that access one place.
fn most_at_one_place(mask: u32, deltas: &[i32; 32]) -> u64 {
    let mut places: Vec<i32> = lanes(mask).map(|lane| deltas[lane]).collect();
    places.sort_unstable();
    let most = places.chunk_by(|a, b| a == b).map(<[i32]>::len).max();
    most.unwrap_or(1) as u64
}

fn find_runs(mask: u32, words_per_lane: u32, deltas: &[i32; 32], runs: &mut Vec<Run>) {
    // Each word's place, and the lane, in the order of places.
    let mut words: Vec<(i32, u32)> = lanes(mask)
        .flat_map(|lane| {
            (0..words_per_lane).map(move |i| (deltas[lane] + 4 * i as i32, lane as u32))
        })
        .collect();
    words.sort_unstable();
    let mut at = 0;
    while at < words.len() {
        let (start, lane) = words[at];
        let sharers = words[at..].iter().take_while(|w| w.0 == start).count();
        at += sharers;
        let shared = sharers > 1;
        if let Some(run) = runs.last_mut()
            && run.start + 4 * run.words as i32 == start
            && run.shared == shared
        {
            if run.words == words_per_lane && u64::from(lane) > run.owners.first {
                run.owners.step = u64::from(lane) - run.owners.first;
            }
            if run.owners.owner(run.words as usize) == u64::from(lane) {
                run.words += 1;
                continue;
            }
        }
        runs.push(Run {
            start,
            words: 1,
            owners: WordOwners {
                first: u64::from(lane),
                shift: words_per_lane.trailing_zeros(),
                step: 1,
            },
            shared,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::op::{Order, Type};

    fn pattern(mask: u32, bytes: u32, address: impl Fn(usize) -> u64) -> AccessPattern {
        let mut pattern = AccessPattern::default();
        let learned = pattern.learn(mask, &access(bytes), AccessKind::Load, address);
        assert_eq!(learned, mask);
        pattern
    }

    fn access(bytes: u32) -> Access {
        let ty = if bytes < 4 { Type::U8 } else { Type::U32 };
        Access {
            count: (bytes / ty.bytes()) as u8,
            ..Access::one(ty, Order::Weak)
        }
    }

    #[test]
    fn a_row_of_words_is_one_run_of_four_sectors_and_one_wavefront() {
        let mut pattern = pattern(FULL, 4, |lane| 0x1000 + 4 * lane as u64);
        assert_eq!(pattern.shape, Shape::Row);
        assert_eq!((pattern.sectors(0x1000), pattern.sectors(0x1004)), (4, 5));
        assert_eq!((pattern.wavefronts(0), pattern.ideal_wavefronts()), (1, 1));
        let owners = WordOwners {
            first: 0,
            shift: 0,
            step: 1,
        };
        assert_eq!(
            pattern.runs,
            [Run {
                start: 0,
                words: 32,
                owners,
                shared: false
            }]
        );
    }

    #[test]
    fn strides_meet_in_banks_as_often_as_the_gcd_says() {
        for (stride, degree) in [
            (1, 1),
            (2, 2),
            (3, 1),
            (16, 16),
            (32, 32),
            (33, 1),
            (64, 32),
        ] {
            let mut pattern = pattern(FULL, 4, |lane| stride * 4 * lane as u64);
            assert_eq!(pattern.wavefronts(0), degree, "stride {stride}");
        }
    }

    #[test]
    fn vectors_of_four_words_take_four_passes_and_sixteen_sectors() {
        let mut pattern = pattern(FULL, 16, |lane| 16 * lane as u64);
        assert_eq!((pattern.wavefronts(0), pattern.ideal_wavefronts()), (4, 4));
        assert_eq!(pattern.sectors(0), 16);
        assert_eq!(pattern.runs.len(), 1);
        assert_eq!(pattern.runs[0].words, 128);
    }

    #[test]
    fn vectors_of_lanes_that_pair_up_take_half_the_passes() {
        // Lanes i and i ^ partner load the same of 16 vectors in a row.
        for (partner, of_8, of_16) in [(1, 1, 2), (2, 1, 2), (4, 2, 4), (16, 2, 4)] {
            let place = |lane: usize| lane as u64 % partner + lane as u64 / (2 * partner) * partner;
            let mut two = pattern(FULL, 8, |lane| 8 * place(lane));
            let mut four = pattern(FULL, 16, |lane| 16 * place(lane));
            let passes = (two.wavefronts(0), four.wavefronts(0));
            assert_eq!(passes, (of_8, of_16), "partner {partner}");
            let ideal = (two.ideal_wavefronts(), four.ideal_wavefronts());
            assert_eq!(ideal, passes, "partner {partner}");
        }
        // Partners that are inactive do not hinder; stores have no such rule.
        assert_eq!(
            pattern(0x5555_5555, 8, |lane| 8 * lane as u64 / 2).wavefronts(0),
            1
        );
        let mut store = AccessPattern::default();
        store.learn(FULL, &access(16), AccessKind::Store, |lane| {
            16 * (lane as u64 / 2)
        });
        assert_eq!(store.wavefronts(0), 4);
    }

    #[test]
    fn rows_of_matrices_do_not_pair_up() {
        let row = Access {
            row: true,
            ..access(16)
        };
        for (mask, passes) in [(FULL, 4), (0xffff, 2), (0xff, 1)] {
            let mut rows = AccessPattern::default();
            rows.learn(mask, &row, AccessKind::Load, |_| 0);
            assert_eq!(
                (rows.wavefronts(0), rows.ideal_wavefronts()),
                (passes, passes)
            );
        }
    }

    #[test]
    fn half_warps_and_partial_warps() {
        let mut tile = pattern(FULL, 4, |lane| 4 * (lane as u64 % 16));
        assert_eq!(tile.shape, Shape::Halves([true, true]));
        assert_eq!((tile.sectors(0), tile.wavefronts(0)), (2, 1));
        assert!(tile.runs.len() == 1 && tile.runs[0].shared);
        assert_eq!(tile.sharers(&tile.runs[0], 3), 1 << 3 | 1 << 19);
        let two = pattern(FULL, 4, |lane| 64 * (lane as u64 / 16));
        assert_eq!(two.shape, Shape::Halves([false, false]));
        let mut one = pattern(1 << 7, 4, |_| 12);
        assert_eq!(one.shape, Shape::Any);
        assert_eq!((one.sectors(12), one.wavefronts(12)), (1, 1));
        assert_eq!(one.first_lane(), 7);
    }

    #[test]
    fn words_of_tiles_belong_to_their_lowest_lanes() {
        let tiles = pattern(FULL, 8, |lane| 8 * (lane as u64 / 4));
        let owners = WordOwners {
            first: 0,
            shift: 1,
            step: 4,
        };
        let run = Run {
            start: 0,
            words: 16,
            owners,
            shared: true,
        };
        assert_eq!(tiles.runs, [run]);
        assert_eq!(run.owners.owner(5), 8);
        assert_eq!(tiles.sharers(&run, 5), 0xf00);
        let (even, reversed) = (0x5555_5555, |lane| 4 * (31 - lane as u64));
        let gaps = pattern(even, 4, |lane| 2 * lane as u64);
        assert_eq!((gaps.runs.len(), gaps.runs[0].owners.owner(3)), (1, 6));
        assert_eq!(pattern(FULL, 4, reversed).runs.len(), 32);
    }

    #[test]
    fn bytes_share_words_and_far_lanes_are_left_out() {
        let mut bytes = pattern(FULL, 1, |lane| lane as u64);
        assert_eq!((bytes.wavefronts(0), bytes.sectors(0)), (1, 1));
        assert_eq!(bytes.sectors(31), 2);
        let mut pattern = AccessPattern::default();
        let halves = |lane: usize| 4 * lane as u64 + ((lane as u64 / 16) << 30);
        assert_eq!(
            pattern.learn(FULL, &access(4), AccessKind::Load, halves),
            0xffff
        );
        assert_eq!((pattern.mask, pattern.sectors(0)), (0xffff, 2));
    }
}
