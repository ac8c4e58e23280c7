//! Stage 3: FlashAttention-2 on the CPU. The function of stage 1, tile by tile, in memory that grows with the length
//! of the sequence and not with its square.
//!
//! The text of the stage, in reading order:
//!
//! - [`attention()`]: the forward pass, Algorithm 1 of the paper. `forward.rs` has the loop, with the paper's line
//!   numbers.
//! - [`attention_backward()`]: the backward pass, Algorithm 2, which computes the scores again.
//! - `online_softmax` in `simd/softmax.rs`: line 9 of Algorithm 1, the idea that makes tiles possible.
//! - `masks.rs`: which tiles are skipped, and what is hidden in those that are not.
//!
//! The interface of the stage is [`Attend`], which is stage 1's, and [`AttendBackward`]: what an exercise implements, and
//! what the suite in `conformance` judges.
//!
//! Apart from it, what makes it fast:
//!
//! - `simd/`: matrix product, softmax and `e^x`, compiled for AVX-512, for AVX2 and portably, chosen at run time.
//! - `lanes.rs`: the matrices on the chip, so to speak: small enough for the cache, a query per SIMD lane.
//! - `spread.rs`: shares out the tiles among the threads of rayon's current pool.
//!
//! Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023,
//! <https://arxiv.org/abs/2307.08691>. Line 10 of its Algorithm 1 rescales by the inverse of what it should; here it is
//! as in the text of section 3.1.
//!
//! Left out: f16 and bf16, which most CPUs only convert; a short query against a long cache, which is stage 5.

mod backward;
mod error;
mod forward;
mod interface;
mod lanes;
mod masks;
mod simd;
mod spread;
#[cfg(test)]
mod tests;
mod tiles;

pub use backward::{Gradients, attention_backward, attention_backward_with_tiles};
pub use error::Error;
pub use forward::{attention, attention_with_tiles};
pub use interface::{AttendBackward, Stage3};
pub use simd::instruction_set;
pub use stage1_reference::{Attend, Options, Output};
pub use tiles::Tiles;
