//! The warm-ups: eight kernels of a few lines, judged on the simulator in this process.
//!
//! - [`tasks`]: the eight, as data.
//! - `judge`: compiles a kernel, launches it under several orders of blocks and warps with all checks, compares values and counters.
//! - [`starter`]: starters, which `reset` puts back.
//! - [`cli`]: the command, which `cargo grade warm-up` and `cargo warm-up` share.
//!
//! The launches and the expected values are here, not in the learner's files.

pub mod cli;
mod judge;
pub mod starter;
pub mod tasks;

pub use judge::{Verdict, judge};
