//! Keys and values in pages of device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DriverError};
use gpu::arguments::{Checks, upload};

use super::{BatchTables, PageCopy, PageError, PageTables, SequenceId};
use crate::library::storage::{Counts, KeysAndValues};
use crate::{
    Cache, CacheShape, CacheView, CacheViewMut, CountsMut, Dtype, Error, PageTable, PerSequence,
};

/// The sizes and the element type of a paged cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PagedShape {
    /// Pages of the pool that all sequences share.
    pub pages: usize,
    /// Tokens of a page, 16 to 256.
    pub page_size: usize,
    /// Heads of keys and values, `H_kv`.
    pub kv_heads: usize,
    /// Elements of a row, `D`, 1 to 256.
    pub head_dim: usize,
    /// The element type.
    pub dtype: Dtype,
}

impl PagedShape {
    /// The shape of `pages` contiguous sequences that have the length of a page: they lie
    /// in memory as the pages do.
    fn contiguous(&self, pages: usize) -> CacheShape {
        CacheShape {
            batch: pages,
            kv_heads: self.kv_heads,
            max_seq: self.page_size,
            head_dim: self.head_dim,
            dtype: self.dtype,
        }
    }
}

/// A paged cache for the layers of a model: in each layer a pool of keys and one of
/// values, `[pages, H_kv, page_size, D]`, and [`PageTables`] for all layers. All memory
/// is taken when it is made.
///
/// A step of a model grows the cache once, for the sequences that take part, and then updates it in
/// each layer, as with a [`KvCache`](crate::KvCache). Each step may have other sequences.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use stage5_decode::{Decode, Error, Inputs, NewTokens, Outputs, Shape, paged::PagedCache};
/// # fn steps(stream: &Arc<cudarc::driver::CudaStream>, decode: &Decode, cache: &mut PagedCache,
/// #          shape: &Shape, q: &cudarc::driver::CudaSlice<f32>,
/// #          new_tokens: impl Fn(usize) -> NewTokens<'static>,
/// #          outputs: impl Fn(usize) -> Outputs<'static>) -> Result<(), Error> {
/// let a = cache.create();
/// cache.grow(stream, &[(a, 100)])?; // a prompt of 100 tokens; then update_cache in each layer
/// let b = cache.fork(a)?; // shares the pages of a
/// cache.grow(stream, &[(a, 1), (b, 1)])?; // copies the last page, which both would write
/// for layer in 0..cache.layers() {
///     let (view, counts) = cache.layer_mut(layer);
///     decode.update_cache(stream, view, counts, new_tokens(layer))?; // row 0 is of a, row 1 of b
///     let inputs = Inputs { q: q.as_view(), cache: cache.layer(layer) };
///     decode.forward(stream, inputs, outputs(layer), shape)?;
/// }
/// cache.free(a)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PagedCache {
    shape: PagedShape,
    tables: PageTables,
    layers: Vec<KeysAndValues>,
    batch: Batch,
}

/// The sequences of one step, in device memory.
#[derive(Debug)]
struct Batch {
    counts: Counts,
    /// `[B, columns]`.
    entries: CudaSlice<i32>,
    columns: usize,
    /// The least number of columns.
    reserved: usize,
    /// The same as `entries` on the host.
    on_host: Vec<i32>,
}

impl PagedCache {
    /// A cache of no sequences: `2 · layers · pages · H_kv · page_size · D` elements.
    ///
    /// # Errors
    ///
    /// A size that no kernel takes; the driver's, if the device has not enough memory.
    pub fn new(stream: &Arc<CudaStream>, layers: usize, shape: PagedShape) -> Result<Self, Error> {
        let tables = PageTables::new(shape.pages, shape.page_size)?;
        let pool = shape.contiguous(shape.pages);
        pool.check(&Checks::new("PagedCache::new", stream.context()))?;
        Ok(Self {
            shape,
            tables,
            layers: KeysAndValues::layers(stream, layers, pool.bytes())?,
            batch: Batch {
                counts: Counts::new(stream, 0)?,
                entries: upload(stream, &[])?,
                columns: 0,
                reserved: 0,
                on_host: Vec::new(),
            },
        })
    }

    /// Sizes and element type of a layer.
    pub fn shape(&self) -> PagedShape {
        self.shape
    }

    /// The number of layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Lengths and page tables of all sequences, and how many pages are free.
    pub fn tables(&self) -> &PageTables {
        &self.tables
    }

    /// A new sequence of no tokens.
    pub fn create(&mut self) -> SequenceId {
        self.tables.create()
    }

    /// A new sequence with the tokens of `sequence`. It shares its pages, and copies nothing.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`].
    pub fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, PageError> {
        self.tables.fork(sequence)
    }

    /// Forgets all tokens of a sequence but the first `length`, and frees pages that no
    /// sequence holds any more.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`].
    pub fn truncate(&mut self, sequence: SequenceId, length: usize) -> Result<(), PageError> {
        self.tables.truncate(sequence, length)
    }

    /// Frees a sequence, and the pages that no other sequence holds.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownSequence`].
    pub fn free(&mut self, sequence: SequenceId) -> Result<(), PageError> {
        self.tables.free(sequence)
    }

    /// Makes room on the device for the counts and page tables of `sequences` sequences of `tokens`
    /// tokens. Batches within these limits have them at the same addresses and with the same
    /// strides, so a CUDA graph that reads them can be replayed.
    ///
    /// # Errors
    ///
    /// A stream of another device, tables that are too large; the driver's.
    pub fn reserve(
        &mut self,
        stream: &Arc<CudaStream>,
        sequences: usize,
        tokens: usize,
    ) -> Result<(), Error> {
        let checks = Checks::new("PagedCache::reserve", self.batch.entries.context());
        checks.device("stream", stream.context())?;
        let columns = tokens.div_ceil(self.shape.page_size);
        checks.sizes([("sequences", sequences), ("tokens", tokens)])?;
        checks.sizes([("sequences", sequences.saturating_mul(columns))])?;
        Ok(self.batch.reserve(stream, sequences, columns)?)
    }

    /// Begins a step: counts new tokens, to each sequence the number beside it, which may be 0.
    /// These sequences, in this order, are the batch that [`PagedCache::layer`] and
    /// [`PagedCache::layer_mut`] show until the next call.
    ///
    /// Copies shared pages that the step will write, in all layers, on `stream`.
    ///
    /// # Errors
    ///
    /// [`PageError::OutOfPages`], [`PageError::UnknownSequence`], [`PageError::RepeatedSequence`],
    /// a stream of another device: nothing has changed then. After an error of the driver, the
    /// tokens of the batch are lost.
    pub fn grow(
        &mut self,
        stream: &Arc<CudaStream>,
        batch: &[(SequenceId, usize)],
    ) -> Result<(), Error> {
        let (lengths, new) = self.begin(stream, "PagedCache::grow", batch)?;
        Ok(self.batch.counts.set(stream, lengths, new)?)
    }

    /// The same, but on the device the tokens count from the next
    /// [`Decode::advance`](crate::Decode::advance) on: a CUDA graph that has captured it can be
    /// replayed after each call. If the last call was this one with the same batch, copies to the
    /// device only page tables that have changed, and those once in `page_size` tokens.
    ///
    /// # Errors
    ///
    /// Those of [`PagedCache::grow`].
    pub fn prepare_advance(
        &mut self,
        stream: &Arc<CudaStream>,
        batch: &[(SequenceId, usize)],
    ) -> Result<(), Error> {
        let (lengths, new) = self.begin(stream, "PagedCache::prepare_advance", batch)?;
        Ok(self.batch.counts.set_before_advance(stream, lengths, new)?)
    }

    /// Takes pages for a step, and brings its page tables to the device.
    /// Returns lengths and new tokens.
    fn begin(
        &mut self,
        stream: &Arc<CudaStream>,
        operation: &'static str,
        batch: &[(SequenceId, usize)],
    ) -> Result<(Vec<usize>, Vec<usize>), Error> {
        let checks = Checks::new(operation, self.batch.entries.context());
        checks.device("stream", stream.context())?;
        let copies = self.tables.append(batch)?;
        let page_bytes = self.shape.contiguous(1).bytes();
        for KeysAndValues { k, v } in &mut self.layers {
            for &copy in &copies {
                copy_page(stream, k, page_bytes, copy)?;
                copy_page(stream, v, page_bytes, copy)?;
            }
        }
        let (sequences, new): (Vec<_>, _) = batch.iter().copied().unzip();
        let lengths = self.batch.set(stream, self.tables.batch(&sequences)?)?;
        Ok((lengths, new))
    }

    /// A layer, to be read by the batch of the last [`PagedCache::grow`].
    ///
    /// # Panics
    ///
    /// If there is no such layer.
    pub fn layer(&self, layer: usize) -> CacheView<'_> {
        let KeysAndValues { k, v } = &self.layers[layer];
        Cache {
            shape: self.batch.shape(&self.shape),
            k: k.as_view(),
            v: v.as_view(),
            pages: Some(self.batch.table(&self.shape)),
            lengths: self.batch.counts.lengths(),
        }
    }

    /// A layer, to be written by the batch of the last [`PagedCache::grow`], and how many tokens
    /// of each sequence are new.
    ///
    /// # Panics
    ///
    /// If there is no such layer.
    pub fn layer_mut(&mut self, layer: usize) -> (CacheViewMut<'_>, PerSequence<'_>) {
        let KeysAndValues { k, v } = &mut self.layers[layer];
        let view = Cache {
            shape: self.batch.shape(&self.shape),
            k: k.as_view_mut(),
            v: v.as_view_mut(),
            pages: Some(self.batch.table(&self.shape)),
            lengths: self.batch.counts.lengths(),
        };
        (view, self.batch.counts.new_tokens())
    }

    /// The counts on the device, for [`Decode::advance`](crate::Decode::advance).
    pub fn counts_mut(&mut self) -> CountsMut<'_> {
        self.batch.counts.on_device()
    }
}

impl Batch {
    fn reserve(
        &mut self,
        stream: &Arc<CudaStream>,
        sequences: usize,
        columns: usize,
    ) -> Result<(), DriverError> {
        self.entries = upload(stream, &vec![0; sequences * columns])?;
        (self.reserved, self.on_host) = (columns, Vec::new());
        self.counts.reserve(stream, sequences)
    }

    /// Replaces the tables, and returns the lengths. Copies entries to the device only if they
    /// changed: one token in `page_size` takes a page.
    fn set(
        &mut self,
        stream: &Arc<CudaStream>,
        tables: BatchTables,
    ) -> Result<Vec<usize>, DriverError> {
        let tables = tables.widened(self.reserved);
        if tables.entries.len() > self.entries.len() {
            self.entries = upload(stream, &tables.entries)?;
        } else if tables.entries != self.on_host {
            stream.memcpy_htod(&tables.entries, &mut self.entries)?;
        }
        (self.on_host, self.columns) = (tables.entries, tables.columns);
        Ok(tables.lengths)
    }

    fn shape(&self, cache: &PagedShape) -> CacheShape {
        CacheShape {
            batch: self.counts.lengths().host.len(),
            max_seq: self.columns * cache.page_size,
            ..cache.contiguous(0)
        }
    }

    fn table(&self, cache: &PagedShape) -> PageTable<'_> {
        PageTable {
            host: &self.on_host,
            entries: self.entries.as_view(),
            columns: self.columns,
            page_size: cache.page_size,
        }
    }
}

/// Copies a page of one pool on `stream`.
fn copy_page(
    stream: &Arc<CudaStream>,
    pool: &mut CudaSlice<u8>,
    page_bytes: usize,
    copy: PageCopy,
) -> Result<(), DriverError> {
    let [from, to] = [copy.from, copy.to].map(|page| page as usize * page_bytes);
    let (mut low, mut high) = pool.split_at_mut(from.max(to));
    if from < to {
        let mut to = high.slice_mut(..page_bytes);
        stream.memcpy_dtod(&low.slice(from..from + page_bytes), &mut to)
    } else {
        let mut to = low.slice_mut(to..to + page_bytes);
        stream.memcpy_dtod(&high.slice(..page_bytes), &mut to)
    }
}
