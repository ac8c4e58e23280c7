//! Sectors of device memory that a launch has touched.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use crate::memory::zeros::ZeroedRange;

/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 32;

/// Sectors that a launch has touched. Each running launch has its own.
pub(crate) struct Sectors {
    base: u64,
    /// A byte per sector: the last launch that read it, of those that had this value.
    read: ZeroedRange,
    /// The same for writes.
    written: ZeroedRange,
    tag: u8,
}

impl Sectors {
    pub(crate) fn new(base: u64, size: u64) -> io::Result<Sectors> {
        Ok(Sectors {
            base,
            read: ZeroedRange::reserve(size / SECTOR, 0)?,
            written: ZeroedRange::reserve(size / SECTOR, 1)?,
            tag: 0,
        })
    }

    /// Begins a launch, which has touched none.
    pub(crate) fn begin(&mut self) {
        if self.tag == u8::MAX {
            self.read.clear();
            self.written.clear();
            self.tag = 0;
        }
        self.tag += 1;
    }

    /// Counts the sectors of `bytes` bytes at `address` that the launch has not read or written
    /// yet, and marks them.
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
