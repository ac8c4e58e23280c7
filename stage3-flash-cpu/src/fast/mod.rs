//! FlashAttention-2 with every option, on tiles that are vectorised and shared out among threads.

mod backward;
mod forward;
mod lanes;
mod masks;
mod simd;
mod spread;
#[cfg(test)]
mod tests;
mod tiles;

pub use backward::{Gradients, attention_backward, attention_backward_with_tiles};
pub use forward::{attention, attention_with_tiles};
pub use simd::instruction_set;
pub use tiles::Tiles;
