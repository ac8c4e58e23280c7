//! Stage 1: multi-head attention on the CPU, in plain [`ndarray`], written to be read.
//!
//! The text of the stage, in reading order:
//!
//! - [`attention()`]: `o = softmax(scale · q kᵀ + mask) v` on `[B, H, N, D]` arrays.
//! - [`Options`] and [`Mask`]: which keys a query sees. [`Dropout`]: which weights are dropped. The
//!   later stages use them, too.
//! - [`MultiHeadAttention`]: the layer around it: project, split heads,
//!   attend, concatenate, project.
//!
//! [`by_head`] and [`tiles`] cut attention into heads and tiles, for stage 3 and its exercise.
//!
//! [`Attend`] and [`MultiHead`] are the stage's interface: an exercise implements it, a suite in
//! `conformance` judges it. Without the feature `solution` only the interface and these are there:
//! an exercise cannot call what it is to compute.
//!
//! All arrays have the axes `[B, H, N, D]`: batch, heads, sequence, head dimension. They may lie in
//! memory in any order of the axes.
//! `q` and `o` have `nq` rows, `k` and `v` have `nk`, and `k` and `v` may have fewer heads
//! (grouped-query attention).
//!
//! Left out: speed. Each head's whole score matrix is formed; nothing is tiled or runs in
//! parallel. Stage 3 changes that.

#[cfg(feature = "solution")]
mod attention;
mod by_head;
mod dropout;
mod error;
mod feature;
#[cfg(feature = "solution")]
mod heads;
mod interface;
mod layer;
mod mask;
#[cfg(feature = "solution")]
mod multi_head;
mod options;
mod sizes;

#[cfg(feature = "solution")]
pub use attention::{Stage1, attention};
pub use by_head::{Head, by_head, tiles};
pub use dropout::Dropout;
pub use error::Error;
pub use feature::Feature;
pub use interface::{Attend, MultiHead, Output};
pub use layer::{Linear, MultiHeadAttention};
pub use mask::{Mask, Tile};
pub use options::{BLOCK, Options, Window};
pub use sizes::Sizes;
