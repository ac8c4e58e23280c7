//! Undo log of device memory: what words held before blocks wrote them, so that blocks can be
//! undone.
//!
//! Each host thread keeps one. A word is noted before its first write; entries are taken back in
//! reverse order, so that a word that was noted twice ends with its first value.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::exec::host_simd::copy_words;
use crate::memory::written::WrittenBytes;

/// Values that were overwritten, in that order.
#[derive(Debug, Default)]
pub(crate) struct UndoLog {
    runs: Vec<Run>,
    values: Vec<u32>,
}

/// Words in a row that one block wrote.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Number of the block, in the order in which blocks start.
    block: u64,
    address: u64,
    words: u32,
    /// Bytes of each word that are noted, a bit each.
    bytes: u8,
    /// Those of them that had been written before.
    written: u8,
}

/// Every byte of a word.
const WHOLE: u8 = 0xf;

/// Words and runs that an empty undo log keeps room for.
const KEPT: usize = 1 << 20;
/// Bytes that an undo log may take: beyond, blocks run in order, which needs none.
const FULL: usize = 1 << 30;

impl UndoLog {
    /// Notes `words` words from `address` on, which `block` is about to write.
    #[inline(always)] // on the path of every store
    pub(crate) fn log(&mut self, map: &WrittenBytes, block: u64, address: u64, words: u32) {
        let written = match map.written_of(address, 4 * u64::from(words)) {
            Some(true) => WHOLE,
            Some(false) => 0,
            None => {
                for i in 0..u64::from(words) {
                    self.log_bytes(map, block, address + 4 * i, WHOLE);
                }
                return;
            }
        };
        self.runs.push(Run {
            block,
            address,
            words,
            bytes: WHOLE,
            written,
        });
        let (len, words) = (self.values.len(), words as usize);
        self.values.reserve(words);
        // SAFETY: the words lie inside a live allocation (see `word`). Then they are in the values'
        // room.
        unsafe {
            copy_words(address, &mut self.values.spare_capacity_mut()[..words]);
            self.values.set_len(len + words);
        }
    }

    /// Notes some bytes of the word at `address`.
    pub(crate) fn log_bytes(&mut self, map: &WrittenBytes, block: u64, address: u64, bytes: u8) {
        let written = (0..4).fold(0, |all, byte| {
            all | u8::from(map.is_written(address + byte, 1)) << byte
        });
        self.runs.push(Run {
            block,
            address,
            words: 1,
            bytes,
            written,
        });
        self.values.push(word(address).load(Relaxed));
    }

    /// Gives the words back what they held before the blocks from number `first` on wrote them, and
    /// forgets everything.
    pub(crate) fn undo(&mut self, map: &WrittenBytes, first: u64) {
        let mut end = self.values.len();
        for run in self.runs.iter().rev() {
            let start = end - run.words as usize;
            if run.block >= first {
                for (address, &old) in (run.address..).step_by(4).zip(&self.values[start..end]) {
                    run.restore(address, old, map);
                }
            }
            end = start;
        }
        self.forget();
    }

    /// True if no more should be noted.
    pub(crate) fn is_full(&self) -> bool {
        size_of::<Run>() * self.runs.len() + size_of::<u32>() * self.values.len() > FULL
    }

    /// Makes room for another launch.
    pub(crate) fn forget(&mut self) {
        self.runs.clear();
        self.values.clear();
        self.values.shrink_to(KEPT);
        self.runs.shrink_to(KEPT / 16);
    }
}

impl Run {
    fn restore(&self, address: u64, old: u32, written: &WrittenBytes) {
        let bytes: [u8; 4] = std::array::from_fn(|byte| (self.bytes >> byte & 1) * 0xff);
        let mask = u32::from_le_bytes(bytes);
        let place = word(address);
        // The host may write the other bytes at the same time.
        let update = |now: u32| Some(now & !mask | old & mask);
        let _ = place.fetch_update(Relaxed, Relaxed, update);
        for byte in 0..4 {
            if self.bytes >> byte & 1 == 0 {
                continue;
            }
            if self.written >> byte & 1 == 0 {
                written.set_unwritten(address + byte, 1);
            } else {
                written.set_written(address + byte, 1);
            }
        }
    }
}

/// The word of device memory at an address that a kernel may write.
#[inline(always)]
fn word<'a>(address: u64) -> &'a AtomicU32 {
    // SAFETY: only words are noted of which bytes were found inside a live allocation; the arena's
    // memory stays mapped, is aligned to words, and is accessed by atomics or by assembly.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words with a shadow of their own, none of them written.
    fn memory() -> (Vec<u32>, u64, WrittenBytes) {
        let mut words: Vec<u32> = (0..64).collect();
        let base = words.as_mut_ptr() as u64;
        let written = WrittenBytes::new(base & !0xff, 1 << 16).expect("address space");
        (words, base, written)
    }

    fn write(undo_log: &mut UndoLog, written: &WrittenBytes, block: u64, at: u64, value: u32) {
        undo_log.log(written, block, at, 1);
        written.set_written(at, 4);
        word(at).store(value, Relaxed);
    }

    #[test]
    fn the_first_value_of_a_word_comes_back_and_whether_it_was_written() {
        let (words, base, written) = memory();
        written.set_written(base, 4);
        let mut undo_log = UndoLog::default();
        for (i, value) in [(0, 100), (1, 101), (0, 102), (1, 103)] {
            write(&mut undo_log, &written, 0, base + 4 * i, value);
        }
        written.set_unwritten(base, 1);
        undo_log.log(&written, 0, base, 3);
        undo_log.undo(&written, 0);
        assert_eq!(words[..3], [0, 1, 2]);
        assert!(written.is_written(base, 4) && !written.is_written(base + 4, 4));
    }

    #[test]
    fn blocks_before_the_first_one_stay() {
        let (words, base, written) = memory();
        let mut undo_log = UndoLog::default();
        write(&mut undo_log, &written, 3, base, 100);
        write(&mut undo_log, &written, 5, base + 4, 101);
        write(&mut undo_log, &written, 4, base + 8, 102);
        undo_log.undo(&written, 4);
        assert_eq!(words[..3], [100, 1, 2]);
        assert!(written.is_written(base, 4) && !written.is_written(base + 4, 8));
    }

    #[test]
    fn bytes_come_back_by_themselves() {
        let (words, base, written) = memory();
        let mut undo_log = UndoLog::default();
        undo_log.log_bytes(&written, 0, base, 0b0010);
        word(base).store(0x1234_5678, Relaxed);
        written.set_written(base, 2);
        undo_log.undo(&written, 0);
        assert_eq!(words[0], 0x1234_0078);
        assert!(written.is_written(base, 1) && !written.is_written(base + 1, 1));
    }
}
