//! The structs that kernels take by value.

use cudarc::driver::DeviceRepr;
use gpu::arguments::Strides;

use crate::view::Cache as View;
use crate::{Inputs, Shape};

/// `struct Cache` of `kernels/library/problem.cuh`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub(crate) struct Cache {
    kv_heads: i32,
    max_seq: i32,
    head_dim: i32,
    columns: i32,
    page_size: i32,
}

impl Cache {
    /// The sizes of a cache that was checked: they fit 32 bits.
    pub(crate) fn new<V>(cache: &View<'_, V>) -> Self {
        let pages = cache.pages.as_ref();
        Self {
            kv_heads: cache.shape.kv_heads as i32,
            max_seq: cache.shape.max_seq as i32,
            head_dim: cache.shape.head_dim as i32,
            columns: pages.map_or(0, |pages| pages.columns as i32),
            page_size: pages.map_or(0, |pages| pages.page_size as i32),
        }
    }
}

// ANCHOR: problem
/// `struct Problem` of `kernels/library/problem.cuh`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub(crate) struct Problem {
    q: Strides,
    pub(crate) o: Strides,
    cache: Cache,
    heads: i32,
    group: i32,
    nq: i32,
    splits: i32,
    window: i32,
    scale: f32,
}
// ANCHOR_END: problem

// SAFETY: integers of 64 and 32 bits and a float in C layout, the same as
// `struct Problem` in the kernels.
unsafe impl DeviceRepr for Problem {}

impl Problem {
    /// The problem as the kernels take it. Its sizes have been checked: they fit 32 bits.
    pub(crate) fn new(shape: &Shape, inputs: &Inputs<'_>, splits: usize) -> Self {
        let of_cache = &inputs.cache.shape;
        Self {
            q: shape.q,
            o: shape.o,
            cache: Cache::new(&inputs.cache),
            heads: shape.heads as i32,
            group: (shape.heads / of_cache.kv_heads.max(1)) as i32,
            nq: shape.nq as i32,
            splits: splits as i32,
            window: shape.window() as i32,
            scale: shape.scale(of_cache.head_dim),
        }
    }
}

/// `struct Update` of `kernels/library/update_cache.cu`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub(crate) struct Update {
    pub(crate) k: Strides,
    pub(crate) v: Strides,
    pub(crate) cache: Cache,
    pub(crate) n: i32,
    pub(crate) rows: i32,
    pub(crate) dtype: i32,
}

// SAFETY: integers of 64 and 32 bits in C layout, the same as `struct Update` in the kernel.
unsafe impl DeviceRepr for Update {}
