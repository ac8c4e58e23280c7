//! Records of who has used device memory, where blocks run at the same time. See
//! [`super::independence`].
//!
//! Every sector of eight words has a record of its last write and one of its reads. They stand for
//! all eight words as long as only whole sectors are accessed, by threads in a row. Any other
//! access splits the sector: then every word has such records of its own, until a later launch.
//!
//! Record of a word: serial number of the block (32 bits), its barriers so far (16, of writes),
//! several threads, synchronising, bytes (4), thread (10). The number of a record is that of a
//! block of some launch, so records of earlier launches are below all others. The thread of several
//! threads is 0 where they read, and all ones where they write.
//!
//! The record of a sector is that of its first word, with other bits in place of the bytes: split,
//! unused, and the binary logarithm of the words per thread (2). If one of its two records is
//! split, so is the other.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::exec::access::owners::WordOwners;
use crate::memory::shadow::Shadow;

pub(crate) const SERIAL: u32 = 32;
pub(crate) const EPOCH: u32 = 16;
pub(crate) const MANY: u64 = 1 << 15;
pub(crate) const SYNC: u64 = 1 << 14;
pub(crate) const BYTES: u32 = 10;
pub(crate) const ALL_BYTES: u64 = 0xf << BYTES;
pub(crate) const THREAD: u64 = 0x3ff;
/// Owner in a word's record: a block, and one of its threads or several.
const WHO: u64 = u64::MAX << SERIAL | MANY | THREAD;

/// Words of a sector.
const SECTOR: usize = 8;
const SPLIT: u64 = 1 << 13;
/// Place of the logarithm of the words per thread.
const SHIFT: u32 = 10;
/// Owner in a sector's record.
const ROW: u64 = WHO | 3 << SHIFT;

/// Words in a row, and the threads that access them.
#[derive(Clone, Copy)]
pub(crate) struct AccessedWords<'a> {
    pub shadow: &'a Shadow,
    /// The first word.
    pub at: usize,
    pub words: usize,
    pub own: WordOwners,
}

/// The part of [`AccessedWords`] that lies in one sector.
#[derive(Clone, Copy)]
struct Piece<'a> {
    /// Records of the sector: of writes and of reads.
    sector: &'a [AtomicU64; 2],
    /// The first word.
    at: usize,
    words: usize,
    own: WordOwners,
}

/// Whole sectors that threads in a row access.
struct Rows<'a> {
    sectors: &'a [[AtomicU64; 2]],
    /// Owner of the first sector, and the distance to the next one's.
    first: u64,
    step: u64,
}

impl<'a> Rows<'a> {
    /// Records of writes and of reads, and the owner, of each sector.
    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = ([&'a AtomicU64; 2], u64)> {
        let owners = (0..).map(|i: u64| self.first + i * self.step);
        self.sectors
            .iter()
            .map(|[write, read]| [write, read])
            .zip(owners)
    }
}

/// Bounds with which records are compared.
pub(crate) struct IndependenceBounds {
    /// The first record of the launch; what is below is another launch's.
    pub old: u64,
    /// Serial number of the block, in its place, and [`MANY`] if several threads access each word.
    pub me: u64,
    /// Serial number of the block, and its barriers so far.
    pub now: u64,
    /// Serial number that stands for several blocks, in its place.
    pub everyone: u64,
}

impl<'a> AccessedWords<'a> {
    #[inline(always)]
    fn pieces(self) -> impl Iterator<Item = Piece<'a>> {
        let mut start = 0;
        std::iter::from_fn(move || {
            if start >= self.words {
                return None;
            }
            let at = self.at + start;
            let piece = Piece {
                sector: self.shadow.sector(at / SECTOR),
                at,
                words: (SECTOR - at % SECTOR).min(self.words - start),
                own: self.own.behind(start),
            };
            start += piece.words;
            Some(piece)
        })
    }
}

impl Piece<'_> {
    fn records<'a>(&self, shadow: &'a Shadow) -> (&'a [AtomicU64], &'a [AtomicU64]) {
        (
            shadow.writes(self.at, self.words),
            shadow.reads(self.at, self.words),
        )
    }
}

impl IndependenceBounds {
    /// True if the reads of all bytes are on record. Then no other block has written the words, nor
    /// another thread since the last barrier, or it would have been doubtful.
    #[inline(always)]
    pub(crate) fn reads_on_record(&self, words: AccessedWords<'_>) -> bool {
        if let Some(rows) = self.rows(words) {
            let (several, many_blocks) = (self.several(), self.many_blocks());
            let on_record = rows.iter().fold(true, |on_record, ([_, read], row)| {
                let read = read.load(Relaxed);
                on_record & ((read == row) | (read == several) | (read == many_blocks))
            });
            if on_record {
                return true;
            }
        }
        words.pieces().all(|piece| {
            let read = piece.sector[1].load(Relaxed);
            if read & SPLIT != 0 {
                return self.word_reads_on_record(piece.records(words.shadow).1, piece.own);
            }
            self.row(&piece) == Some(read) || read == self.several() || read == self.many_blocks()
        })
    }

    /// True if each thread itself wrote its word last, and since the last barrier.
    #[inline(always)]
    pub(crate) fn writes_on_record(&self, words: AccessedWords<'_>) -> bool {
        words.pieces().all(|piece| {
            let write = piece.sector[0].load(Relaxed);
            if write & SPLIT != 0 {
                return self.word_writes_on_record(piece.records(words.shadow).0, piece.own);
            }
            self.row(&piece).is_some_and(|row| write == self.now | row)
        })
    }

    /// Records the reads, if nobody else has written. False if a record needs a closer look. The
    /// caller holds the lock of the words.
    #[inline(always)]
    pub(crate) fn record_reads(&self, words: AccessedWords<'_>) -> bool {
        if let Some(rows) = self.rows(words) {
            let good = rows.iter().fold(true, |good, ([write, _], row)| {
                let write = write.load(Relaxed);
                good & (write & SPLIT == 0) & self.is_row_before(write, row)
            });
            if good {
                let (several, many_blocks) = (self.several(), self.many_blocks());
                for ([_, read], row) in rows.iter() {
                    let joined = self.joined(read.load(Relaxed), row, several, many_blocks);
                    read.store(joined, Relaxed);
                }
                return true;
            }
        }
        words.pieces().all(|piece| {
            let Some(row) = self.whole_row(words.shadow, &piece) else {
                let (writes, reads) = piece.records(words.shadow);
                return self.record_word_reads(writes, reads, piece.own);
            };
            let [write, read] = piece.sector;
            let good = self.is_row_before(write.load(Relaxed), row);
            if good {
                let read_before = read.load(Relaxed);
                let joined = self.joined(read_before, row, self.several(), self.many_blocks());
                read.store(joined, Relaxed);
            }
            good
        })
    }

    /// Records the writes, if nobody else has accessed the words, and tells whether some bytes are
    /// written for the first time in the launch. `None`, and nothing is recorded, if a record needs
    /// a closer look. The caller holds the lock of the words.
    #[inline(always)]
    pub(crate) fn record_writes(&self, words: AccessedWords<'_>) -> Option<bool> {
        if let Some(rows) = self.rows(words) {
            let mut first = false;
            let good = rows.iter().fold(true, |good, ([write, read], row)| {
                let (write, read) = (write.load(Relaxed), read.load(Relaxed));
                first |= write < self.old;
                good & (write & SPLIT == 0)
                    & self.is_row_before(write, row)
                    & ((read < self.old) | (read & ROW == row))
            });
            if good {
                for ([write, _], row) in rows.iter() {
                    write.store(self.now | row, Relaxed);
                }
                return Some(first);
            }
        }
        let (mut good, mut first) = (true, false);
        for piece in words.pieces() {
            let Some(row) = self.whole_row(words.shadow, &piece) else {
                let (writes, reads) = piece.records(words.shadow);
                let (words_good, words_first) = self.may_write_words(writes, reads, piece.own);
                good &= words_good;
                first |= words_first;
                continue;
            };
            let [write, read] = piece.sector.each_ref().map(|record| record.load(Relaxed));
            good &= self.is_row_before(write, row) & ((read < self.old) | (read & ROW == row));
            first |= write < self.old;
        }
        if !good {
            return None;
        }
        for piece in words.pieces() {
            match self.row(&piece) {
                Some(row) if piece.sector[0].load(Relaxed) & SPLIT == 0 => {
                    piece.sector[0].store(self.now | row, Relaxed);
                }
                _ => {
                    let writes = words.shadow.writes(piece.at, piece.words);
                    for (i, write) in writes.iter().enumerate() {
                        write.store(self.now | ALL_BYTES | piece.own.owner(i), Relaxed);
                    }
                }
            }
        }
        Some(first)
    }

    /// The sectors, if the words are whole ones and of threads in a row.
    #[inline(always)]
    fn rows<'a>(&self, words: AccessedWords<'a>) -> Option<Rows<'a>> {
        let AccessedWords {
            shadow,
            at,
            words,
            own,
        } = words;
        let are_whole = at % SECTOR == 0 && words % SECTOR == 0;
        (are_whole && self.is_row(own)).then(|| Rows {
            sectors: shadow.sectors(at / SECTOR, words / SECTOR),
            first: self.me | u64::from(own.shift) << SHIFT | own.first,
            step: own.step * (SECTOR as u64 >> own.shift),
        })
    }

    /// True if threads in a row access the words, one accesses all, or several access each.
    #[inline(always)]
    fn is_row(&self, own: WordOwners) -> bool {
        own.step == 1 || self.me & MANY != 0 || own == WordOwners::one(own.first)
    }

    /// Owner of a piece's sector, if it is a whole one and of threads in a row.
    #[inline(always)]
    fn row(&self, piece: &Piece<'_>) -> Option<u64> {
        let own = piece.own;
        let is_row = piece.words == SECTOR && self.is_row(own);
        is_row.then_some(self.me | u64::from(own.shift) << SHIFT | own.first)
    }

    /// Owner of a piece's sector, if its record can stand for all words; otherwise the sector is
    /// split afterwards.
    #[inline(always)]
    fn whole_row(&self, shadow: &Shadow, piece: &Piece<'_>) -> Option<u64> {
        let row = self.row(piece);
        if row.is_some() && (!is_split(piece.sector) || self.join(shadow, piece)) {
            return row;
        }
        split(shadow, piece.at);
        None
    }

    /// Unites a split sector again, if all records of its words are of earlier launches.
    #[inline(never)]
    fn join(&self, shadow: &Shadow, piece: &Piece<'_>) -> bool {
        let (writes, reads) = piece.records(shadow);
        let all = writes.iter().chain(reads);
        let old = all.fold(true, |old, record| old & (record.load(Relaxed) < self.old));
        if old {
            for record in piece.sector {
                record.store(0, Relaxed);
            }
        }
        old
    }

    /// The sector's record of reads by several threads of the block.
    #[inline(always)]
    fn several(&self) -> u64 {
        self.me & u64::MAX << SERIAL | MANY
    }

    /// The sector's record of reads by several blocks.
    #[inline(always)]
    fn many_blocks(&self) -> u64 {
        self.everyone | MANY
    }

    /// True if a write is of an earlier launch, of the thread itself, or of its block before the
    /// last barrier. `owner` is the part of the record that tells the thread.
    #[inline(always)]
    fn is_before(&self, write: u64, owner: u64, mine: u64) -> bool {
        let of_block = write >> SERIAL == self.me >> SERIAL;
        let earlier = write >> EPOCH != self.now >> EPOCH;
        (write < self.old) | (of_block & earlier) | (write & owner == mine)
    }

    #[inline(always)]
    fn is_row_before(&self, write: u64, row: u64) -> bool {
        self.is_before(write, ROW, row)
    }

    /// A record of reads, with those of `mine`: `several` and `everyone` are records of reads by
    /// several threads of the block and by several blocks.
    #[inline(always)]
    fn joined(&self, read: u64, mine: u64, several: u64, everyone: u64) -> u64 {
        let of_block = read >> SERIAL == self.me >> SERIAL;
        let others = if of_block { several } else { everyone };
        if (read < self.old) | (read == mine) {
            mine
        } else {
            others
        }
    }

    fn word_reads_on_record(&self, reads: &[AtomicU64], own: WordOwners) -> bool {
        let (several, everyone) = (self.several() | ALL_BYTES, self.many_blocks() | ALL_BYTES);
        reads.iter().enumerate().all(|(i, read)| {
            let r = read.load(Relaxed);
            (r == self.me | ALL_BYTES | own.owner(i)) | (r == several) | (r == everyone)
        })
    }

    fn word_writes_on_record(&self, writes: &[AtomicU64], own: WordOwners) -> bool {
        let mut writes = writes.iter().enumerate();
        writes.all(|(i, write)| write.load(Relaxed) == self.now | ALL_BYTES | own.owner(i))
    }

    #[inline(always)]
    fn record_word_reads(
        &self,
        writes: &[AtomicU64],
        reads: &[AtomicU64],
        own: WordOwners,
    ) -> bool {
        let (several, everyone) = (self.several() | ALL_BYTES, self.many_blocks() | ALL_BYTES);
        let records = || writes.iter().zip(reads).enumerate();
        let good = records().all(|(i, (write, read))| {
            let r = read.load(Relaxed);
            let whole = r & (SYNC | ALL_BYTES) == ALL_BYTES;
            self.is_before(write.load(Relaxed), WHO, self.me | own.owner(i))
                & ((r < self.old) | whole)
        });
        if good {
            for (i, (_, read)) in records() {
                let mine = self.me | ALL_BYTES | own.owner(i);
                let joined = self.joined(read.load(Relaxed), mine, several, everyone);
                read.store(joined, Relaxed);
            }
        }
        good
    }

    /// True if nobody else has accessed the words, and whether some bytes are written for the first
    /// time in the launch.
    fn may_write_words(
        &self,
        writes: &[AtomicU64],
        reads: &[AtomicU64],
        own: WordOwners,
    ) -> (bool, bool) {
        let (mut good, mut first) = (true, false);
        for (i, (write, read)) in writes.iter().zip(reads).enumerate() {
            let (w, r) = (write.load(Relaxed), read.load(Relaxed));
            let mine = self.me | own.owner(i);
            good &= self.is_before(w, WHO, mine) & ((r < self.old) | (r & WHO == mine));
            first |= (w < self.old) | (w & ALL_BYTES != ALL_BYTES);
        }
        (good, first)
    }
}

#[inline(always)]
fn is_split(sector: &[AtomicU64; 2]) -> bool {
    sector[0].load(Relaxed) & SPLIT != 0
}

/// Splits the sector of a word: its words have records of their own from now on. The caller holds
/// the lock of the word.
#[inline(always)]
pub(crate) fn split(shadow: &Shadow, word: usize) {
    let number = word / SECTOR;
    if !is_split(shadow.sector(number)) {
        split_whole(shadow, number);
    }
}

#[inline(never)]
fn split_whole(shadow: &Shadow, number: usize) {
    let sector = shadow.sector(number);
    let words = SECTOR * number;
    let records = [shadow.writes(words, SECTOR), shadow.reads(words, SECTOR)];
    for (whole, records) in sector.iter().zip(records) {
        let whole = whole.load(Relaxed);
        for (i, record) in records.iter().enumerate() {
            record.store(word_record(whole, i), Relaxed);
        }
    }
    for record in sector {
        // Who sees it without the lock may still see old records of words. Those are of earlier
        // launches, so that nothing is found on record.
        record.store(SPLIT, Relaxed);
    }
}

/// The record of a sector's word `i` that follows from the record of the whole sector.
fn word_record(whole: u64, i: usize) -> u64 {
    let own = WordOwners {
        first: whole & THREAD,
        shift: (whole >> SHIFT) as u32 & 3,
        step: u64::from(whole & MANY == 0),
    };
    whole & !(ALL_BYTES | THREAD) | ALL_BYTES | own.owner(i)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 1 << 40;
    const WORDS: usize = 64;

    /// Numbers that follow from a seed.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0 = (self.0).wrapping_mul(6364136223846793005).wrapping_add(1);
            (self.0 >> 33) as usize % n
        }
    }

    /// What a launch does with its sectors split from the start, and what it does with them whole:
    /// returns how many accesses of the former were good, and of the latter.
    fn compare(seed: u64, shifts: &[u32]) -> [usize; 2] {
        let shadows = [(); 2].map(|()| Shadow::new(BASE, 4 * WORDS as u64).expect("address space"));
        let mut dice = Dice(seed);
        let mut good = [0; 2];
        for launch in 1..6 {
            let first = launch * 10;
            let (mut block, mut barriers) = (0, [0; 4]);
            for _ in 0..dice.below(40) {
                match dice.below(8) {
                    0 => barriers[block] += 1,
                    1 => block = dice.below(4),
                    _ => {}
                }
                let shift = shifts[dice.below(shifts.len())];
                let is_shared = dice.below(6) == 0;
                let step = [1, 1, 1, 3][dice.below(4)];
                let unit = 1 << shift;
                let at = dice.below(WORDS / 8) * 8 + [0, 0, 0, unit][dice.below(4)];
                let words = [8, 16, 32, unit, 24 + unit][dice.below(5)].min(WORDS - at);
                let own = WordOwners {
                    first: if is_shared {
                        0
                    } else {
                        dice.below(3) as u64 * 32
                    },
                    shift: if is_shared { 0 } else { shift },
                    step: if is_shared { 0 } else { step },
                };
                let serial = (first + block as u64) << SERIAL;
                let bounds = IndependenceBounds {
                    old: first << SERIAL,
                    me: serial | if is_shared { MANY } else { 0 },
                    now: serial | barriers[block] << EPOCH,
                    everyone: (first + 9) << SERIAL,
                };
                let write = !is_shared && dice.below(3) == 0;
                let [split_first, whole] = [&shadows[0], &shadows[1]].map(|shadow| AccessedWords {
                    shadow,
                    at,
                    words,
                    own,
                });
                for word in at..at + words {
                    split(split_first.shadow, word);
                }
                let [by_word, by_sector] = [split_first, whole].map(|words| {
                    if write {
                        let known = bounds.writes_on_record(words);
                        (known, bounds.record_writes(words))
                    } else {
                        let known = bounds.reads_on_record(words);
                        (known, bounds.record_reads(words).then_some(false))
                    }
                });
                let known = by_word.0 || by_sector.0;
                assert!(
                    !known || by_word.1.is_some(),
                    "seed {seed}: known, but in doubt"
                );
                if by_sector.1.is_some() {
                    assert_eq!(by_word.1, by_sector.1, "seed {seed}: too little doubt");
                }
                good[0] += usize::from(by_word.1.is_some());
                good[1] += usize::from(by_sector.1.is_some());
                if by_sector.1.is_none() {
                    break; // in doubt
                }
                if shifts.len() == 1 {
                    assert_eq!(
                        words_of(&shadows[0], &bounds),
                        words_of(&shadows[1], &bounds)
                    );
                }
            }
        }
        good
    }

    /// Records of this launch, by word.
    fn words_of(shadow: &Shadow, bounds: &IndependenceBounds) -> Vec<[u64; 2]> {
        let of_launch = |record: u64| if record < bounds.old { 0 } else { record };
        let word = |word: usize| {
            let sector = shadow.sector(word / SECTOR);
            let records = [&shadow.writes(word, 1)[0], &shadow.reads(word, 1)[0]];
            [0, 1].map(|i| match sector[i].load(Relaxed) {
                whole if whole & SPLIT == 0 => of_launch(word_record(whole, word % SECTOR)),
                _ => of_launch(records[i].load(Relaxed)),
            })
        };
        (0..WORDS).map(word).collect()
    }

    #[test]
    fn a_sector_stands_for_its_words() {
        for shift in 0..3 {
            for seed in 0..500 {
                let [by_word, by_sector] = compare(seed, &[shift]);
                assert_eq!(by_word, by_sector, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_sector_is_in_doubt_wherever_its_words_are() {
        let sum = (0..500).fold([0; 2], |sum, seed| {
            let good = compare(seed, &[0, 1, 2]);
            [sum[0] + good[0], sum[1] + good[1]]
        });
        assert!(sum[1] > 1000 && sum[0] >= sum[1], "{sum:?}");
    }
}
