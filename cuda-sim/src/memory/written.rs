//! Map of the bytes of device memory that were written.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::memory::zeros::ZeroedRange;

/// A bit for each byte of the device memory `base..base + size`: it was written.
pub(crate) struct WrittenBytes {
    base: u64,
    size: u64,
    written: ZeroedRange,
}

impl WrittenBytes {
    pub(crate) fn new(base: u64, size: u64) -> io::Result<WrittenBytes> {
        Ok(WrittenBytes {
            base,
            size,
            written: ZeroedRange::reserve(size / 8, 0)?,
        })
    }

    /// True if all of `bytes` bytes at `address` were written.
    #[inline(always)]
    pub(crate) fn is_written(&self, address: u64, bytes: u64) -> bool {
        let mut all = true;
        self.written_bits(address, bytes, |word, mask| {
            all &= word.load(Relaxed) & mask == mask;
        });
        all
    }

    /// True if all of the bytes were written, false if none; `None` if some were.
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

    /// Copies the marks of written bytes from `from` to `to`. The ranges may overlap.
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

/// The bits of the map's word `i` that stand for the bytes `first..=last`, one of which it must
/// hold.
#[inline(always)]
fn covered(i: u64, first: u64, last: u64) -> u64 {
    let from = first.max(i * 64) % 64;
    let to = last.min(i * 64 + 63) % 64;
    (u64::MAX >> (63 - to)) & (u64::MAX << from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 1 << 40;

    #[test]
    fn bytes_are_written_one_by_one_and_in_ranges() {
        let map = WrittenBytes::new(BASE, 1 << 20).expect("address space");
        map.set_written(BASE + 3, 1);
        assert!(map.is_written(BASE + 3, 1));
        assert!(!map.is_written(BASE + 2, 2) && !map.is_written(BASE + 3, 2));
        map.set_written(BASE + 60, 200);
        assert!(map.is_written(BASE + 60, 200));
        assert!(!map.is_written(BASE + 59, 200) && !map.is_written(BASE + 61, 200));
        map.set_unwritten(BASE + 128, 1);
        assert!(map.is_written(BASE + 60, 68) && !map.is_written(BASE + 60, 69));
        map.copy_written(BASE + 1000, BASE + 126, 4);
        let copied = [0, 1, 2, 3].map(|i| map.is_written(BASE + 1000 + i, 1));
        assert_eq!(copied, [true, true, false, true]);
    }

    #[test]
    fn a_copy_is_the_copy_of_each_byte() {
        const SIZE: usize = 512;
        let map = WrittenBytes::new(BASE, SIZE as u64).expect("address space");
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
                    map.set_written(at(to), count as u64);
                }
                1 => {
                    bytes[to..to + count].fill(false);
                    map.set_unwritten(at(to), count as u64);
                }
                _ => {
                    bytes.copy_within(from..from + count, to);
                    map.copy_written(at(to), at(from), count as u64);
                }
            }
            let found: Vec<bool> = (0..SIZE).map(|i| map.is_written(at(i), 1)).collect();
            assert_eq!(found, bytes, "round {round}: {count} bytes, {from} to {to}");
        }
    }
}
