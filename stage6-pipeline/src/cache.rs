//! The keys and values of every token so far, in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};

use crate::{Config, Error};

/// A contiguous cache: room for the whole context is taken when it is made.
#[derive(Debug)]
pub struct KvCache {
    /// One entry per transformer block.
    pub(crate) layers: Vec<LayerCache>,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) context: usize,
    pub(crate) len: usize,
}

/// The keys and values of one transformer block, each `[H, context, D]`, of which the first
/// [`KvCache::len`] rows of each head are filled.
#[derive(Debug)]
pub(crate) struct LayerCache {
    pub(crate) k: CudaSlice<f32>,
    pub(crate) v: CudaSlice<f32>,
}

impl KvCache {
    /// An empty cache for one sequence: `2 · n_layer · n_ctx · n_embd` floats.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if the device has not enough memory.
    pub fn new(stream: &Arc<CudaStream>, config: &Config) -> Result<Self, Error> {
        let size = config.n_ctx * config.n_embd;
        let layer = |_| {
            Ok(LayerCache {
                k: stream.alloc_zeros::<f32>(size)?,
                v: stream.alloc_zeros::<f32>(size)?,
            })
        };
        Ok(Self {
            layers: (0..config.n_layer)
                .map(layer)
                .collect::<Result<_, Error>>()?,
            heads: config.n_head,
            head_dim: config.head_dim(),
            context: config.n_ctx,
            len: 0,
        })
    }

    /// Tokens in the cache.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most tokens that it can hold.
    pub fn context(&self) -> usize {
        self.context
    }
}
