//! Stage 3: FlashAttention-2 on the CPU. The function of stage 1, tile by tile, in memory that
//! grows with the length of the sequence and not with its square.
//!
//! To be read: `flash.rs`, Algorithm 1 of the paper on plain matrices, with the online softmax that
//! makes tiles possible. [`Flash`] calls it for each head. It is also the solution of the exercise.
//!
//! To be called, in `fast/`: every option of stage 1, and the backward pass.
//!
//! - [`attention()`]: the forward pass. `forward.rs` has the loop, with the paper's line numbers.
//! - [`attention_backward()`]: the backward pass, Algorithm 2, which computes the scores again.
//! - `masks.rs`: the tiles that are skipped, and what is hidden in those that are not.
//! - `simd/`: matrix product, softmax and `e^x`, compiled for AVX-512, for AVX2 and
//!   portably, chosen at run time.
//! - `lanes.rs`: matrices small enough for the cache, a query per SIMD lane.
//! - `spread.rs`: shares out the tiles among the threads of rayon's current pool.
//!
//! The interface of the stage is [`Attend`], which is stage 1's, and [`AttendBackward`]: what an
//! exercise implements, and what the suite in `conformance` judges.
//!
//! Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
//! 2023, <https://arxiv.org/abs/2307.08691>. Line 10 of its Algorithm 1 rescales by the inverse of
//! what it should; here it is as in the text of section 3.1.
//!
//! Left out: f16 and bf16, which most CPUs only convert; a short query against a long
//! cache, which is stage 5.

mod error;
mod fast;
mod flash;
mod head;
mod interface;

pub use error::Error;
pub use fast::{
    Gradients, Tiles, attention, attention_backward, attention_backward_with_tiles,
    attention_with_tiles, instruction_set,
};
pub use head::Flash;
pub use interface::{AttendBackward, Stage3};
pub use stage1_reference::{Attend, Options, Output};
use stage1_reference::{Head, tiles}; // `flash.rs` has them from the crate's root, as in the exercise
