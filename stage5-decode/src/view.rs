//! Views of one layer of a cache, contiguous or in pages.

use std::ops::RangeInclusive;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DeviceSlice};
use gpu::arguments::{ArgumentError, Checks};
use serde::{Deserialize, Serialize};
use stage1_reference::Sizes;

use crate::Dtype;

/// Page sizes that the kernels read.
pub const PAGE_SIZES: RangeInclusive<usize> = 16..=256;

/// The sizes and the element type of the cache of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CacheShape {
    /// Sequences, `B`.
    pub batch: usize,
    /// Heads of keys and values, `H_kv`.
    pub kv_heads: usize,
    /// Tokens that a sequence can have.
    pub max_seq: usize,
    /// Elements of a row, `D`, 1 to 256.
    pub head_dim: usize,
    /// The element type.
    pub dtype: Dtype,
}

impl CacheShape {
    /// Bytes of the keys, and as many of the values, of a contiguous cache.
    /// Saturates at `usize::MAX`.
    pub fn bytes(&self) -> usize {
        let rows = [self.batch, self.kv_heads, self.max_seq, self.head_dim];
        rows.into_iter()
            .fold(self.dtype.bytes(), usize::saturating_mul)
    }

    pub(crate) fn check(&self, checks: &Checks) -> Result<(), ArgumentError> {
        let Self {
            batch,
            kv_heads,
            max_seq,
            head_dim,
            ..
        } = *self;
        if !(1..=Sizes::MAX_HEAD_DIM).contains(&head_dim) {
            let expected = format_args!("1 to {}", Sizes::MAX_HEAD_DIM);
            return Err(checks.error("head_dim", expected, head_dim));
        }
        checks.sizes([
            ("batch", batch),
            ("kv_heads", kv_heads),
            ("max_seq", max_seq),
        ])?;
        Ok(())
    }
}

/// A number for each sequence, `[B]`: on the host, which checks it, and in device memory, where
/// kernels read it. Both must be the same.
#[derive(Debug)]
pub struct PerSequence<'a> {
    /// On the host.
    pub host: &'a [usize],
    /// In device memory.
    pub device: CudaView<'a, i32>,
}

/// Where the tokens of a paged cache lie. Token `j` of sequence `b` is row `j % page_size` of page
/// `entries[b · columns + j / page_size]`.
///
/// The table is on the host, which checks it, and in device memory, where kernels read it. Both
/// must be the same: kernels do not check it again.
#[derive(Debug)]
pub struct PageTable<'a> {
    /// Pages of each sequence, `[B, columns]`, on the host. Entries beyond the length of a sequence
    /// are not read; the others are from 0 to below the number of pages.
    pub host: &'a [i32],
    /// The same in device memory.
    pub entries: CudaView<'a, i32>,
    /// Pages that a sequence can have.
    pub columns: usize,
    /// Tokens of a page, 16 to 256.
    pub page_size: usize,
}

/// The keys and values of one layer in device memory: see [`CacheView`] and [`CacheViewMut`].
#[derive(Debug)]
pub struct Cache<'a, V> {
    /// Sizes and element type.
    pub shape: CacheShape,
    /// The bytes of the keys: `[B, H_kv, max_seq, D]`, or `[pages, H_kv, page_size, D]`.
    pub k: V,
    /// The bytes of the values, as those of the keys.
    pub v: V,
    /// Where the tokens lie, if the cache is paged.
    pub pages: Option<PageTable<'a>>,
    /// Tokens of each sequence, at most `max_seq`. Rows from there on are not read.
    pub lengths: PerSequence<'a>,
}

/// A cache to be read.
pub type CacheView<'a> = Cache<'a, CudaView<'a, u8>>;

/// A cache to be written.
pub type CacheViewMut<'a> = Cache<'a, CudaViewMut<'a, u8>>;

impl<V: DeviceSlice<u8>> Cache<'_, V> {
    /// Checks everything about the cache but its addresses: see [`Cache::is_aligned`].
    ///
    /// # Errors
    ///
    /// A size out of range, too few bytes, a length above `max_seq`, a page table that is too short
    /// or names a page that is not there, a view of another device.
    pub fn check(&self, checks: &Checks) -> Result<(), ArgumentError> {
        let shape = self.shape;
        shape.check(checks)?;
        let least = match &self.pages {
            None => shape.bytes(),
            Some(pages) => pages.check(checks, &shape).map(|()| 0)?, // as many pages as the table names
        };
        for (argument, bytes) in [("k_cache", &self.k), ("v_cache", &self.v)] {
            checks.device(argument, bytes.stream().context())?;
            if bytes.len() < least {
                let expected = format_args!("at least {least} bytes");
                return Err(checks.error(argument, expected, bytes.len()));
            }
        }
        self.lengths
            .check(checks, "lengths", &shape, |_| shape.max_seq)?;
        match &self.pages {
            None => Ok(()),
            Some(table) => {
                let bytes = self.k.len().min(self.v.len());
                table.check_entries(checks, &shape, bytes, self.lengths.host)
            }
        }
    }
}

impl<V: DeviceSlice<u8> + DevicePtr<u8>> Cache<'_, V> {
    /// True if every row begins at a multiple of 16 bytes.
    ///
    /// # Errors
    ///
    /// A tensor that does not begin at a multiple of its element's size.
    pub fn is_aligned(
        &self,
        checks: &Checks,
        stream: &Arc<CudaStream>,
    ) -> Result<bool, ArgumentError> {
        let CacheShape {
            dtype, head_dim, ..
        } = self.shape;
        let mut aligned = (head_dim * dtype.bytes()).is_multiple_of(16);
        for (argument, bytes) in [("k_cache", &self.k), ("v_cache", &self.v)] {
            let (address, _in_use) = bytes.device_ptr(stream);
            if !address.is_multiple_of(dtype.bytes() as u64) {
                let expected = format_args!("an address that is a multiple of {}", dtype.bytes());
                return Err(checks.error(argument, expected, format_args!("{address:#x}")));
            }
            aligned &= address.is_multiple_of(16);
        }
        Ok(aligned)
    }
}

impl PerSequence<'_> {
    /// Checks that there is a number for each sequence, at most `limit` of it.
    pub(crate) fn check(
        &self,
        checks: &Checks,
        argument: &'static str,
        shape: &CacheShape,
        limit: impl Fn(usize) -> usize,
    ) -> Result<(), ArgumentError> {
        let batch = shape.batch;
        if self.host.len() != batch || self.device.len() < batch {
            let actual = format_args!("{} and {}", self.host.len(), self.device.len());
            return Err(checks.error(argument, format_args!("{batch} sequences"), actual));
        }
        checks.device(argument, self.device.stream().context())?;
        for (b, &number) in self.host.iter().enumerate() {
            if number > limit(b) {
                let expected = format_args!("at most {} in sequence {b}", limit(b));
                return Err(checks.error(argument, expected, number));
            }
        }
        Ok(())
    }
}

impl PageTable<'_> {
    fn check(&self, checks: &Checks, shape: &CacheShape) -> Result<(), ArgumentError> {
        if !PAGE_SIZES.contains(&self.page_size) {
            return Err(checks.error("page_size", "16 to 256", self.page_size));
        }
        checks.sizes([("columns", self.columns)])?;
        let room = self.columns * self.page_size;
        if room < shape.max_seq {
            let expected = format_args!("pages for {} tokens", shape.max_seq);
            return Err(checks.error("columns", expected, format_args!("{room} tokens")));
        }
        checks.device("entries", self.entries.stream().context())?;
        let needed = shape.batch.saturating_mul(self.columns);
        let entries = self.entries.len().min(self.host.len());
        if entries < needed {
            let expected = format_args!("at least {needed} entries");
            return Err(checks.error("entries", expected, entries));
        }
        Ok(())
    }

    /// Checks that each entry that is read names a page of pools of `bytes` bytes.
    fn check_entries(
        &self,
        checks: &Checks,
        shape: &CacheShape,
        bytes: usize,
        lengths: &[usize],
    ) -> Result<(), ArgumentError> {
        let page = CacheShape {
            batch: 1,
            max_seq: self.page_size,
            ..*shape
        };
        // Without heads no row is read.
        let pages = bytes.checked_div(page.bytes()).unwrap_or(usize::MAX);
        for (b, length) in lengths.iter().enumerate() {
            let row = &self.host[b * self.columns..][..length.div_ceil(self.page_size)];
            let outside =
                |entry: &&i32| usize::try_from(**entry).map_or(true, |page| page >= pages);
            if let Some(entry) = row.iter().find(outside) {
                let expected = format_args!("pages below {pages} in sequence {b}");
                return Err(checks.error("entries", expected, entry));
            }
        }
        Ok(())
    }
}
