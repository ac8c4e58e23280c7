//! Stage 5: decoding with a KV cache, launched with plain [`cudarc`].
//!
//! A generator computes the keys and values of each token once and keeps them. A step then has one
//! query for each head, or a few, against a long cache: it reads all of the cache and computes
//! little, so it is as fast as memory is. Two things are here:
//!
//! - **The ladder**, to be read and written: packed tensors, one idea a file, each rung one step
//!   from the last. All but `3_grouped.cu` and `4_mma.cu` is the solution of exercise 5. `ladder/`
//!   has the launches.
//!
//!   | kernel file | idea |
//!   |---|---|
//!   | `update_cache.cu` | a warp moves a row of k and of v into the cache |
//!   | `1_decode.cu` | a block for each query walks the cache |
//!   | `2_split.cu` | FlashDecoding: blocks for parts of a sequence, merged by `combine.cu` |
//!   | `3_grouped.cu` | one read of keys and values serves the heads of a group |
//!   | `4_mma.cu` | tensor cores multiply all heads of a group at once; keys and values in f16 |
//!
//! - **The library**, to be called: f32, f16 and bf16 caches, contiguous or in pages, windows,
//!   strides, several queries, any head dimension from 1 to 256. `library/` has its parts.
//!
//! The files of this crate:
//!
//! - [`Decode`]: loaded kernels, kept for reuse; [`Decode::update_cache`] writes new tokens,
//!   [`Decode::forward`] attends. [`Mode`]: by the library, or by a rung.
//! - [`Shape`], [`Inputs`], [`Outputs`], [`NewTokens`]: one step: sizes, strides, options, and
//!   where its tensors lie; [`CacheView`] and [`CacheViewMut`]: one layer of any cache.
//! - `library/`: [`KvCache`], a contiguous cache for all layers of a model; [`paged`], one in pages
//!   that sequences share, with fork and copy-on-write; [`splits()`], the number of splits of a
//!   sequence, which are the parts of its keys; [`Workspace`], steps without allocations and
//!   copies, which a CUDA graph can replay; a file beside each of its kernels; [`committed`], the
//!   variants with committed PTX.
//!
//! [`Decoding`] is what the suite of `conformance` judges; [`Stage5`] has it.
//!
//! Nothing panics on bad input, and nothing is launched: see [`Error`].

// The launches of the ladder are exercise 5's solution, too, where this crate has its name.
extern crate self as stage5_decode;

mod decode;
mod dtype;
mod error;
mod interface;
pub mod ladder;
mod library;
mod mode;
mod shape;
mod view;

pub use decode::{Decode, KERNELS};
pub use dtype::{Dtype, Element};
pub use error::Error;
pub use gpu::arguments::Strides;
pub use interface::{Decoding, Stage5};
pub use ladder::Rung;
pub use library::{CountsMut, KvCache, MAX_SPLITS, PerSm, Workspace, committed, paged, splits};
pub use mode::Mode;
pub use shape::{Inputs, MAX_QUERIES, NewTokens, Outputs, Shape};
pub use view::{Cache, CacheShape, CacheView, CacheViewMut, PAGE_SIZES, PageTable, PerSequence};
