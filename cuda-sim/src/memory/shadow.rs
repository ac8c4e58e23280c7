//! Shadow of device memory: which bytes were written, and for each word the records of its last
//! accesses. It lies in address ranges beside the arena, whose pages exist once they are used.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::jitter;
use crate::memory::exclusive_use::DeviceUse;
use crate::memory::sectors::{SECTOR, Sectors};
use crate::memory::undo_log::UndoLog;
use crate::memory::written::WrittenBytes;
use crate::memory::zeros::ZeroedRange;
use crate::sync::lock;

/// The shadow of the device memory `base..base + size`.
pub(crate) struct Shadow {
    base: u64,
    size: u64,
    /// Which bytes were written.
    pub(crate) bytes: WrittenBytes,
    /// A record per word of four bytes: its last write, and the reads of the present launch.
    writes: ZeroedRange,
    reads: ZeroedRange,
    /// The same per sector, one beside the other.
    sectors: ZeroedRange,
    /// Where blocks run in order: when those happened, and which warps read.
    times: ZeroedRange,
    readers: ZeroedRange,
    launches: Mutex<Launches>,
    launch_ended: Condvar,
    locks: Box<[Padded]>,
    /// Empty ones, for launches that are to come.
    undo_logs: Mutex<Vec<UndoLog>>,
    pub(crate) device_use: DeviceUse,
}

/// State that launches share.
struct Launches {
    /// The first serial number that no launch has had since the records were cleared.
    next_serial: u32,
    running: usize,
    /// For launches that are to come.
    spare: Vec<Sectors>,
}

/// Numbers that tell the accesses of one launch from those of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchMarks {
    /// Serial number of the first block; the others follow, and then one that stands for several
    /// blocks.
    pub first: u32,
    /// Blocks that have a number of their own.
    pub blocks: u32,
}

#[repr(align(64))]
struct Padded(AtomicBool);

/// Words that share a lock.
const STRIPE: u64 = 1024;

impl Shadow {
    /// Bytes of addresses for a sector of device memory: bits of written bytes, records of words
    /// and of the sector, and the marks of one launch. Each further launch at the same time takes
    /// two more.
    pub(crate) const BYTES_PER_SECTOR: u64 = SECTOR / 8 + 3 * 2 * SECTOR + 16 + SECTOR + 2;

    pub(crate) fn new(base: u64, size: u64) -> io::Result<Shadow> {
        Ok(Shadow {
            base,
            size,
            bytes: WrittenBytes::new(base, size)?,
            writes: ZeroedRange::reserve(size * 2, 0)?,
            reads: ZeroedRange::reserve(size * 2, 1)?,
            sectors: ZeroedRange::reserve(size / SECTOR * 16, 2)?,
            times: ZeroedRange::reserve(size * 2, 3)?,
            readers: ZeroedRange::reserve(size, 4)?,
            launches: Mutex::new(Launches {
                next_serial: 1,
                running: 0,
                spare: vec![Sectors::new(base, size)?],
            }),
            launch_ended: Condvar::new(),
            locks: (0..256).map(|_| Padded(AtomicBool::new(false))).collect(),
            undo_logs: Mutex::default(),
            device_use: DeviceUse::default(),
        })
    }

    /// Marks for a launch of `blocks` blocks, and room to mark the sectors that it touches, to be
    /// given back at its end. When serial numbers are used up, it waits until no launch is running,
    /// and all begins anew.
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
            self.sectors.clear();
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
        sectors.begin();
        (LaunchMarks { first, blocks }, sectors)
    }

    /// Ends a launch: takes back what [`Shadow::begin_launch`] gave.
    pub(crate) fn end_launch(&self, sectors: Sectors) {
        let mut launches = lock(&self.launches);
        launches.spare.push(sectors);
        launches.running -= 1;
        self.launch_ended.notify_all();
    }

    /// An empty undo log, with the room that it had when it was kept.
    pub(crate) fn undo_log(&self) -> UndoLog {
        lock(&self.undo_logs).pop().unwrap_or_default()
    }

    /// Keeps an empty undo log for another launch.
    pub(crate) fn keep_undo_log(&self, undo_log: UndoLog) {
        lock(&self.undo_logs).push(undo_log);
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

    /// Records of a sector: of writes and of reads.
    #[inline(always)]
    pub(crate) fn sector(&self, number: usize) -> &[AtomicU64; 2] {
        &self.sectors(number, 1)[0]
    }

    /// Records of `count` sectors from `number` on.
    #[inline(always)]
    pub(crate) fn sectors(&self, number: usize, count: usize) -> &[[AtomicU64; 2]] {
        let (pairs, _) = self.sectors.records(2 * number, 2 * count).as_chunks();
        pairs
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

    /// Runs `f` while no other thread runs one for the words around `at`, or has them locked.
    pub(crate) fn alone<T>(&self, at: usize, f: impl FnOnce() -> T) -> T {
        let _locked = self.lock(at);
        f()
    }

    /// Locks the words around `at`. Inlined, unlike a closure: it lies on the path of every store.
    #[inline(always)]
    pub(crate) fn lock(&self, at: usize) -> Locked<'_> {
        let stripe = at as u64 / STRIPE;
        let lock = &self.locks[stripe as usize % self.locks.len()].0;
        while lock.swap(true, Acquire) {
            while lock.load(Relaxed) {
                std::hint::spin_loop();
            }
        }
        Locked(lock)
    }

    /// Words from `at` on that share a lock with it, at most `words`.
    pub(crate) fn stretch(at: usize, words: usize) -> usize {
        words.min((STRIPE - at as u64 % STRIPE) as usize)
    }
}

/// Words that a thread has locked, until it is dropped.
pub(crate) struct Locked<'a>(&'a AtomicBool);

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(false, Release);
        jitter::pause();
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
            // The second one is still running. A short launch, whose numbers are left, does not
            // wait for it.
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
