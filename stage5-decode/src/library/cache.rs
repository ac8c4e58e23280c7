//! A contiguous cache.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use gpu::arguments::{ArgumentError, Checks};

use crate::library::storage::{Counts, KeysAndValues};
use crate::{Cache, CacheShape, CacheView, CacheViewMut, CountsMut, Error, PerSequence};

/// A contiguous cache for the layers of a model: keys and values `[B, H_kv, max_seq, D]`
/// of each, and the length of each sequence, on the host and in device memory. All memory
/// is taken when it is made.
///
/// A step of a model grows the cache once, and then updates it in each layer:
///
/// ```no_run
/// # use std::sync::Arc;
/// # use cudarc::driver::{CudaStream, CudaView};
/// # use stage5_decode::{Decode, Error, Inputs, KvCache, NewTokens, Outputs, Shape};
/// # struct Layer<'a> { q: CudaView<'a, f32>, new: NewTokens<'a>, outputs: Outputs<'a> }
/// # fn step(
/// #     stream: &Arc<CudaStream>, decode: &Decode, cache: &mut KvCache, layers: Vec<Layer>,
/// # ) -> Result<(), Error> {
/// cache.grow(stream, &[1, 1])?; // a token for each of 2 sequences
/// for (i, Layer { q, new, outputs }) in layers.into_iter().enumerate() {
///     let (layer, counts) = cache.layer_mut(i);
///     decode.update_cache(stream, layer, counts, new)?;
///     let cache = cache.layer(i);
///     decode.forward(stream, Inputs { q, cache }, outputs, &Shape::packed(32, 1, 128))?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct KvCache {
    shape: CacheShape,
    layers: Vec<KeysAndValues>,
    counts: Counts,
}

impl KvCache {
    /// A cache of empty sequences: `2 · layers · B · H_kv · max_seq · D` elements.
    ///
    /// # Errors
    ///
    /// A size that no kernel takes; the driver's, if the device has not enough memory.
    pub fn new(stream: &Arc<CudaStream>, layers: usize, shape: CacheShape) -> Result<Self, Error> {
        shape.check(&Checks::new("KvCache::new", stream.context()))?;
        Ok(Self {
            shape,
            layers: KeysAndValues::layers(stream, layers, shape.bytes())?,
            counts: Counts::new(stream, shape.batch)?,
        })
    }

    /// Sizes and element type of a layer.
    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    /// The number of layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Tokens of each sequence, `[B]`.
    pub fn lengths(&self) -> &[usize] {
        self.counts.lengths().host
    }

    /// Counts `new` more tokens in each sequence, `[B]`.
    /// [`Decode::update_cache`](crate::Decode::update_cache) writes them, layer by layer.
    ///
    /// # Errors
    ///
    /// [`Error::CacheFull`] if a sequence would have more than `max_seq` tokens, and another number
    /// of sequences: nothing has changed then. The driver's.
    pub fn grow(&mut self, stream: &Arc<CudaStream>, new: &[usize]) -> Result<(), Error> {
        let lengths = self.grown(stream, "KvCache::grow", new)?;
        Ok(self.counts.set(stream, lengths, new.to_vec())?)
    }

    /// The same, but on the device the tokens count from the next
    /// [`Decode::advance`](crate::Decode::advance) on: a CUDA graph that has captured it can
    /// be replayed after each call. Copies nothing to the device if the last call was this
    /// one, with the same numbers.
    ///
    /// # Errors
    ///
    /// Those of [`KvCache::grow`].
    pub fn prepare_advance(
        &mut self,
        stream: &Arc<CudaStream>,
        new: &[usize],
    ) -> Result<(), Error> {
        let lengths = self.grown(stream, "KvCache::prepare_advance", new)?;
        Ok(self
            .counts
            .set_before_advance(stream, lengths, new.to_vec())?)
    }

    /// Lengths with `new` more tokens, if there is room for them.
    fn grown(
        &self,
        stream: &Arc<CudaStream>,
        operation: &'static str,
        new: &[usize],
    ) -> Result<Vec<usize>, Error> {
        self.check_batch(stream, operation, "new", new)?;
        let max_seq = self.shape.max_seq;
        let mut lengths = Vec::with_capacity(new.len());
        for (sequence, (&length, &new)) in self.lengths().iter().zip(new).enumerate() {
            if new > max_seq - length {
                return Err(Error::CacheFull {
                    operation,
                    sequence,
                    length,
                    new,
                    max_seq,
                });
            }
            lengths.push(length + new);
        }
        Ok(lengths)
    }

    /// Forgets all tokens of each sequence but the first `lengths`, `[B]`: of drafts that were
    /// refused, or of sequences that have ended. A sequence that has fewer keeps them.
    ///
    /// # Errors
    ///
    /// Another number of sequences; the driver's.
    pub fn truncate(&mut self, stream: &Arc<CudaStream>, lengths: &[usize]) -> Result<(), Error> {
        self.check_batch(stream, "KvCache::truncate", "lengths", lengths)?;
        let pairs = self.lengths().iter().zip(lengths);
        let lengths = pairs.map(|(&old, &new)| old.min(new)).collect();
        let new = vec![0; self.shape.batch];
        Ok(self.counts.set(stream, lengths, new)?)
    }

    fn check_batch(
        &self,
        stream: &Arc<CudaStream>,
        operation: &'static str,
        argument: &'static str,
        numbers: &[usize],
    ) -> Result<(), ArgumentError> {
        let checks = Checks::new(operation, self.counts.context());
        checks.device("stream", stream.context())?;
        if numbers.len() != self.shape.batch {
            let expected = format_args!("{} sequences", self.shape.batch);
            return Err(checks.error(argument, expected, numbers.len()));
        }
        Ok(())
    }

    /// A layer, to be read.
    ///
    /// # Panics
    ///
    /// If there is no such layer.
    pub fn layer(&self, layer: usize) -> CacheView<'_> {
        let KeysAndValues { k, v } = &self.layers[layer];
        Cache {
            shape: self.shape,
            k: k.as_view(),
            v: v.as_view(),
            pages: None,
            lengths: self.counts.lengths(),
        }
    }

    /// A layer, to be written, and how many tokens of each sequence are new.
    ///
    /// # Panics
    ///
    /// If there is no such layer.
    pub fn layer_mut(&mut self, layer: usize) -> (CacheViewMut<'_>, PerSequence<'_>) {
        let KeysAndValues { k, v } = &mut self.layers[layer];
        let view = Cache {
            shape: self.shape,
            k: k.as_view_mut(),
            v: v.as_view_mut(),
            pages: None,
            lengths: self.counts.lengths(),
        };
        (view, self.counts.new_tokens())
    }

    /// The counts on the device, for [`Decode::advance`](crate::Decode::advance).
    pub fn counts_mut(&mut self) -> CountsMut<'_> {
        self.counts.on_device()
    }
}
