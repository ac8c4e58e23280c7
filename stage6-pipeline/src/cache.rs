//! The keys and values of every token so far, in device memory.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};

use crate::{Architecture, Error};

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
    /// An empty cache for one sequence: `2 · layers · context · H_kv · D` floats.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if the device has not enough memory.
    pub fn new(stream: &Arc<CudaStream>, architecture: &Architecture) -> Result<Self, Error> {
        let size = architecture.context * architecture.kv_heads * architecture.head_dim;
        let layer = |_| {
            Ok(LayerCache {
                k: stream.alloc_zeros::<f32>(size)?,
                v: stream.alloc_zeros::<f32>(size)?,
            })
        };
        Ok(Self {
            layers: (0..architecture.layers)
                .map(layer)
                .collect::<Result<_, Error>>()?,
            heads: architecture.kv_heads,
            head_dim: architecture.head_dim,
            context: architecture.context,
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
