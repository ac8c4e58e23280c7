//! Stage 5: decoding with a KV cache, launched with plain [`cudarc`].
//!
//! A generator computes the keys and values of each token once and keeps them. A step then has one query for each head, or a
//! few, against a long cache: it reads all of the cache and computes little, so it is as fast as memory is. The kernels are a
//! ladder, one idea per rung:
//!
//! | rung | kernel file | idea |
//! |---|---|---|
//! | 1 | `1_naive.cu` | a block for each sequence and head walks the cache |
//! | 2 | `2_split.cu` | FlashDecoding: blocks for parts of a sequence, merged by `combine.cu`; vector loads |
//! | 3 | `3_grouped.cu` | one read of keys and values serves all heads of a group, and all queries |
//!
//! All rungs read f32, f16 and bf16 caches, contiguous or in pages, at any head dimension from 1 to 256.
//!
//! The files of this crate:
//!
//! - [`Decode`]: loaded kernels, kept for reuse; [`Decode::update_cache`] writes new tokens, [`Decode::forward`] attends.
//! - [`KvCache`]: a contiguous cache for all layers of a model; [`CacheView`] and [`CacheViewMut`]: one layer of any cache.
//! - [`paged`]: a cache in pages that sequences share, with fork and copy-on-write; `storage.rs`: the device memory of both
//!   caches.
//! - [`Shape`], [`Inputs`], [`Outputs`], [`NewTokens`]: one step: sizes, strides, options, and where its tensors lie.
//! - [`Workspace`], [`Decode::advance`]: steps without allocations and copies, which a CUDA graph can replay.
//! - [`Mode`]: which rung runs; [`splits()`]: in how many parts it splits sequences.
//! - `rungs/`: a file beside each kernel file: constants and launch; `problem.rs`: the structs that kernels take.
//! - [`committed`]: which kernels have committed PTX.
//!
//! [`Decoding`] is what the suite of `conformance` judges; [`Stage5`] has it.
//!
//! Nothing panics on bad input, and nothing is launched: see [`Error`].

mod cache;
pub mod committed;
mod decode;
mod dtype;
mod error;
mod interface;
mod mode;
pub mod paged;
mod problem;
mod rungs;
mod shape;
mod splits;
mod storage;
mod view;
mod workspace;

pub use cache::KvCache;
pub use decode::{Decode, KERNELS};
pub use dtype::Dtype;
pub use error::Error;
pub use interface::{Decoding, Stage5};
pub use mode::Mode;
pub use shape::{Inputs, MAX_QUERIES, NewTokens, Outputs, Shape};
pub use splits::{MAX_SPLITS, splits};
pub use storage::CountsMut;
pub use view::{Cache, CacheShape, CacheView, CacheViewMut, PAGE_SIZES, PageTable, PerSequence};
pub use workspace::Workspace;
