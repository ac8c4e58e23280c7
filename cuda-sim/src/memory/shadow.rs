//! What is known of each byte of device memory beside its value: whether it was ever written, and which block of which
//! launch touched it last. Address ranges beside the arena, whose pages exist once they are used.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::jitter;
use crate::memory::exclusive_use::Turns;
use crate::memory::undo_log::Journal;
use crate::sync::lock;

/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 32;

/// The shadow of the device memory `base..base + size`.
pub(crate) struct Shadow {
    base: u64,
    size: u64,
    /// A bit per byte: it was written.
    written: Range,
    /// A record per word of four bytes: its last write, and the reads of the present launch.
    writes: Range,
    reads: Range,
    /// Where blocks run in order: when those happened, and which warps read.
    times: Range,
    readers: Range,
    launches: Mutex<Launches>,
    launch_ended: Condvar,
    locks: Box<[Padded]>,
    /// Empty ones, for launches that are to come.
    journals: Mutex<Vec<Journal>>,
    pub(crate) turns: Turns,
}

/// What launches share.
struct Launches {
    /// The first serial number that no launch has had since the records were cleared.
    next_serial: u32,
    running: usize,
    /// For launches that are to come.
    spare: Vec<Sectors>,
}

/// Which sectors a launch has touched. Each running launch has its own.
pub(crate) struct Sectors {
    base: u64,
    /// A byte per sector: the last launch that read it, of those that had this value.
    read: Range,
    /// The same for writes.
    written: Range,
    tag: u8,
}

/// Numbers that tell the accesses of one launch from those of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchMarks {
    /// Serial number of the first block; the others follow, and then one that stands for several blocks.
    pub first: u32,
    /// Blocks that have a number of their own.
    pub blocks: u32,
}

#[repr(align(64))]
struct Padded(AtomicBool);

/// Words that share a lock.
const STRIPE: u64 = 1024;

impl Shadow {
    pub(crate) fn new(base: u64, size: u64) -> io::Result<Shadow> {
        Ok(Shadow {
            base,
            size,
            written: Range::reserve(size / 8)?,
            writes: Range::reserve(size * 2)?,
            reads: Range::reserve(size * 2)?,
            times: Range::reserve(size * 2)?,
            readers: Range::reserve(size)?,
            launches: Mutex::new(Launches {
                next_serial: 1,
                running: 0,
                spare: vec![Sectors::new(base, size)?],
            }),
            launch_ended: Condvar::new(),
            locks: (0..256).map(|_| Padded(AtomicBool::new(false))).collect(),
            journals: Mutex::default(),
            turns: Turns::default(),
        })
    }

    /// Marks for a launch of `blocks` blocks, and room to mark the sectors that it touches, to be given back at its end.
    /// When serial numbers are used up, it waits until no launch is running, and all begins anew.
    pub(crate) fn begin_launch(&self, blocks: u64) -> (LaunchMarks, Sectors) {
        let blocks = blocks.min(1 << 30) as u32;
        let mut launches = lock(&self.launches);
        while launches.next_serial.checked_add(blocks + 1).is_none() {
            if launches.running > 0 {
                launches = self.wait_for_an_end(launches);
                continue;
            }
            self.writes.clear();
            self.reads.clear();
            launches.next_serial = 1;
        }
        let first = launches.next_serial;
        launches.next_serial += blocks + 1;
        launches.running += 1;
        let mut sectors = loop {
            if let Some(sectors) = launches.spare.pop() {
                break sectors;
            }
            if let Ok(sectors) = Sectors::new(self.base, self.size) {
                break sectors;
            }
            // There are no addresses for more; but another launch has some, and ends.
            launches = self.wait_for_an_end(launches);
        };
        drop(launches);
        if sectors.tag == u8::MAX {
            sectors.read.clear();
            sectors.written.clear();
            sectors.tag = 0;
        }
        sectors.tag += 1;
        (LaunchMarks { first, blocks }, sectors)
    }

    /// Ends a launch: takes back what [`Shadow::begin_launch`] gave.
    pub(crate) fn end_launch(&self, sectors: Sectors) {
        let mut launches = lock(&self.launches);
        launches.spare.push(sectors);
        launches.running -= 1;
        self.launch_ended.notify_all();
    }

    /// An empty journal, with the room that it had when it was kept.
    pub(crate) fn journal(&self) -> Journal {
        lock(&self.journals).pop().unwrap_or_default()
    }

    /// Keeps an empty journal for another launch.
    pub(crate) fn keep_journal(&self, journal: Journal) {
        lock(&self.journals).push(journal);
    }

    fn wait_for_an_end<'a>(&self, launches: MutexGuard<'a, Launches>) -> MutexGuard<'a, Launches> {
        self.launch_ended
            .wait(launches)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a word's records.
    #[inline(always)]
    pub(crate) fn word(&self, address: u64) -> usize {
        ((address - self.base) / 4) as usize
    }

    /// Records of writes of `words` words from `at` on.
    #[inline(always)]
    pub(crate) fn writes(&self, at: usize, words: usize) -> &[AtomicU64] {
        self.writes.records(at, words)
    }

    /// Records of reads.
    #[inline(always)]
    pub(crate) fn reads(&self, at: usize, words: usize) -> &[AtomicU64] {
        self.reads.records(at, words)
    }

    /// Times of the last write (low half) and of the first unordered read (high half).
    #[inline(always)]
    pub(crate) fn times(&self, at: usize, words: usize) -> &[AtomicU64] {
        self.times.records(at, words)
    }

    /// Warps that have read.
    #[inline(always)]
    pub(crate) fn readers(&self, at: usize, words: usize) -> &[AtomicU32] {
        self.readers.groups(at as u64, words as u64)
    }

    /// Runs `f` while no other thread runs one for the words around `at`.
    pub(crate) fn alone<T>(&self, at: usize, f: impl FnOnce() -> T) -> T {
        let stripe = at as u64 / STRIPE;
        let lock = &self.locks[stripe as usize % self.locks.len()].0;
        while lock.swap(true, Acquire) {
            while lock.load(Relaxed) {
                std::hint::spin_loop();
            }
        }
        let result = f();
        lock.store(false, Release);
        jitter::pause();
        result
    }

    /// Words from `at` on that share a lock with it, at most `words`.
    pub(crate) fn stretch(at: usize, words: usize) -> usize {
        words.min((STRIPE - at as u64 % STRIPE) as usize)
    }

    /// Whether all of `bytes` bytes at `address` were written.
    #[inline(always)]
    pub(crate) fn is_written(&self, address: u64, bytes: u64) -> bool {
        let mut all = true;
        self.written_bits(address, bytes, |word, mask| {
            all &= word.load(Relaxed) & mask == mask;
        });
        all
    }

    /// Whether all of the bytes were written, or none; `None` if some were.
    #[inline(always)]
    pub(crate) fn written_of(&self, address: u64, bytes: u64) -> Option<bool> {
        let (mut all, mut some) = (true, false);
        self.written_bits(address, bytes, |word, mask| {
            let written = word.load(Relaxed) & mask;
            all &= written == mask;
            some |= written != 0;
        });
        (all || !some).then_some(all)
    }

    /// The bytes were written.
    #[inline(always)]
    pub(crate) fn set_written(&self, address: u64, bytes: u64) {
        self.written_bits(address, bytes, |word, mask| {
            if word.load(Relaxed) & mask != mask {
                word.fetch_or(mask, Relaxed);
            }
        });
    }

    /// The bytes are new, and hold nothing.
    pub(crate) fn set_unwritten(&self, address: u64, bytes: u64) {
        self.written_bits(address, bytes, |word, mask| {
            if word.load(Relaxed) & mask != 0 {
                word.fetch_and(!mask, Relaxed);
            }
        });
    }

    /// What was written of `bytes` bytes at `from` is written at `to`, and no more. The ranges may overlap.
    pub(crate) fn copy_written(&self, to: u64, from: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let first = to - self.base;
        let last = first + bytes - 1;
        let map = self.written.records(0, (self.size / 64) as usize);
        // Outside the map there is nothing that `covered` keeps.
        let at = |i: i64| {
            let word = usize::try_from(i).ok().and_then(|i| map.get(i));
            word.map_or(0, |word| word.load(Relaxed))
        };
        let distance = from as i64 - to as i64;
        let copy = |i: u64| {
            let source = i as i64 * 64 + distance;
            let (index, shift) = (source.div_euclid(64), source.rem_euclid(64));
            let mut known = at(index) >> shift;
            if shift > 0 {
                known |= at(index + 1) << (64 - shift);
            }
            let mask = covered(i, first, last);
            let target = &map[i as usize];
            target.fetch_or(known & mask, Relaxed);
            target.fetch_and(known | !mask, Relaxed);
        };
        // As `memmove` does: no word of the source is overwritten before it is read.
        let words = first / 64..=last / 64;
        if to <= from {
            words.for_each(copy);
        } else {
            words.rev().for_each(copy);
        }
    }

    /// Calls `f` with each 64 bits that cover the bytes, and the bits concerned.
    #[inline(always)]
    fn written_bits(&self, address: u64, bytes: u64, mut f: impl FnMut(&AtomicU64, u64)) {
        if bytes == 0 {
            return;
        }
        let first = address - self.base;
        let last = first + bytes - 1;
        debug_assert!(last < self.size);
        let words = self
            .written
            .records((first / 64) as usize, (last / 64 - first / 64 + 1) as usize);
        for (i, word) in (first / 64..).zip(words) {
            f(word, covered(i, first, last));
        }
    }
}

/// The bits of the map's word `i` that stand for the bytes `first..=last`, one of which it must hold.
#[inline(always)]
fn covered(i: u64, first: u64, last: u64) -> u64 {
    let from = first.max(i * 64) % 64;
    let to = last.min(i * 64 + 63) % 64;
    (u64::MAX >> (63 - to)) & (u64::MAX << from)
}

impl Sectors {
    fn new(base: u64, size: u64) -> io::Result<Sectors> {
        Ok(Sectors {
            base,
            read: Range::reserve(size / SECTOR)?,
            written: Range::reserve(size / SECTOR)?,
            tag: 0,
        })
    }

    /// Counts the sectors of `bytes` bytes at `address` that the launch has not read or written yet, and marks them.
    #[inline(always)]
    pub(crate) fn touch(&self, address: u64, bytes: u64, write: bool) -> u64 {
        let first = (address - self.base) / SECTOR;
        let last = (address + bytes - 1 - self.base) / SECTOR;
        let range = if write { &self.written } else { &self.read };
        let groups = range.groups(first / 4, last / 4 - first / 4 + 1);
        let tag = u32::from_ne_bytes([self.tag; 4]);
        let mut fresh = 0;
        for (i, group) in (first / 4..).zip(groups) {
            // The bytes of this group that are meant.
            let from = first.max(i * 4) % 4;
            let to = last.min(i * 4 + 3) % 4;
            let mask = (u32::MAX >> (8 * (3 - to))) & (u32::MAX << (8 * from));
            let old = group.load(Relaxed);
            if (old ^ tag) & mask != 0 {
                let update = |old: u32| Some(old & !mask | tag & mask);
                let old = group.fetch_update(Relaxed, Relaxed, update).unwrap_or(old);
                let differs = ((old ^ tag) & mask).to_ne_bytes();
                fresh += differs.into_iter().filter(|&byte| byte != 0).count() as u64;
            }
        }
        fresh
    }
}

/// A range of zeros, whose pages exist once they are used.
struct Range {
    start: u64,
    bytes: u64,
}

impl Range {
    fn reserve(bytes: u64) -> io::Result<Range> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping replaces nothing.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes as usize,
                protection,
                flags,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // In pages of 2 MiB, if the operating system has them: with small ones a kernel that touches fresh memory spends
        // much of its time in page faults.
        // SAFETY: the range is the mapping just made.
        unsafe { libc::madvise(at, bytes as usize, libc::MADV_HUGEPAGE) };
        Ok(Range {
            start: at as u64,
            bytes,
        })
    }

    #[inline(always)]
    fn records(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!((at + count) as u64 * 8 <= self.bytes, "outside the shadow");
        // SAFETY: inside the mapping, which lives as long as `self`, is aligned to a page, and is only ever used as
        // atomics.
        unsafe { std::slice::from_raw_parts((self.start as *const AtomicU64).add(at), count) }
    }

    #[inline(always)]
    fn groups(&self, at: u64, count: u64) -> &[AtomicU32] {
        assert!((at + count) * 4 <= self.bytes, "outside the shadow");
        // SAFETY: as in `records`.
        unsafe {
            std::slice::from_raw_parts(
                (self.start as *const AtomicU32).add(at as usize),
                count as usize,
            )
        }
    }

    /// Makes all of it zero again.
    fn clear(&self) {
        // SAFETY: the range is a private anonymous mapping of this value; its pages read as zero afterwards.
        unsafe {
            libc::madvise(
                self.start as *mut libc::c_void,
                self.bytes as usize,
                libc::MADV_DONTNEED,
            )
        };
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it outlives the value.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.bytes as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 1 << 40;

    fn shadow() -> Shadow {
        Shadow::new(BASE, 1 << 20).expect("address space")
    }

    #[test]
    fn bytes_are_written_one_by_one_and_in_ranges() {
        let shadow = shadow();
        shadow.set_written(BASE + 3, 1);
        assert!(shadow.is_written(BASE + 3, 1));
        assert!(!shadow.is_written(BASE + 2, 2) && !shadow.is_written(BASE + 3, 2));
        shadow.set_written(BASE + 60, 200);
        assert!(shadow.is_written(BASE + 60, 200));
        assert!(!shadow.is_written(BASE + 59, 200) && !shadow.is_written(BASE + 61, 200));
        shadow.set_unwritten(BASE + 128, 1);
        assert!(shadow.is_written(BASE + 60, 68) && !shadow.is_written(BASE + 60, 69));
        shadow.copy_written(BASE + 1000, BASE + 126, 4);
        let copied = [0, 1, 2, 3].map(|i| shadow.is_written(BASE + 1000 + i, 1));
        assert_eq!(copied, [true, true, false, true]);
    }

    #[test]
    fn a_copy_is_the_copy_of_each_byte() {
        const SIZE: usize = 512;
        let shadow = Shadow::new(BASE, SIZE as u64).expect("address space");
        let mut bytes = [false; SIZE];
        let mut seed = 1u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        for round in 0..20_000 {
            // Both ends of the map are in reach; short and long, near and far.
            let most = [8, 70, SIZE][round % 3];
            let count = random(most + 1);
            let (to, from) = (random(SIZE - count + 1), random(SIZE - count + 1));
            let at = |i: usize| BASE + i as u64;
            match round % 4 {
                0 => {
                    bytes[to..to + count].fill(true);
                    shadow.set_written(at(to), count as u64);
                }
                1 => {
                    bytes[to..to + count].fill(false);
                    shadow.set_unwritten(at(to), count as u64);
                }
                _ => {
                    bytes.copy_within(from..from + count, to);
                    shadow.copy_written(at(to), at(from), count as u64);
                }
            }
            let found: Vec<bool> = (0..SIZE).map(|i| shadow.is_written(at(i), 1)).collect();
            assert_eq!(found, bytes, "round {round}: {count} bytes, {from} to {to}");
        }
    }

    #[test]
    fn each_sector_is_fresh_once_per_launch() {
        let shadow = shadow();
        let (_, first) = shadow.begin_launch(1);
        assert_eq!(first.touch(BASE + 31, 2, false), 2);
        assert_eq!(first.touch(BASE, 128, false), 2);
        assert_eq!(first.touch(BASE, 128, true), 4);
        let (_, at_the_same_time) = shadow.begin_launch(1);
        assert_eq!(at_the_same_time.touch(BASE, 128, false), 4);
        assert_eq!(first.touch(BASE, 128, false), 0);
        shadow.end_launch(first);
        for _ in 0..300 {
            let (_, next) = shadow.begin_launch(1);
            assert_eq!(next.touch(BASE, 1, false), 1);
            shadow.end_launch(next);
        }
    }

    #[test]
    fn records_are_cleared_when_serial_numbers_are_used_up_and_no_launch_runs() {
        let shadow = shadow();
        let [first, second, third] = [(); 3].map(|()| shadow.begin_launch(1 << 30).1);
        shadow.writes(0, 1)[0].store(7, Relaxed);
        shadow.end_launch(first);
        shadow.end_launch(third);
        std::thread::scope(|scope| {
            let fourth = scope.spawn(|| shadow.begin_launch(1 << 30));
            // The second one is still running. A short launch, whose numbers are left, does not wait for it.
            let (small, sectors) = shadow.begin_launch(5);
            assert_eq!(small.first, 3 * ((1 << 30) + 1) + 1);
            shadow.end_launch(sectors);
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!fourth.is_finished());
            assert_eq!(shadow.writes(0, 1)[0].load(Relaxed), 7);
            shadow.end_launch(second);
            let (marks, sectors) = fourth.join().expect("no panic");
            assert_eq!(marks.first, 1);
            assert_eq!(shadow.writes(0, 1)[0].load(Relaxed), 0);
            shadow.end_launch(sectors);
        });
    }
}
