//! The tests of the stage, in one program: it links once. `memory.rs` has a program of
//! its own, for its allocator.

mod backward;
mod dropout;
mod errors;
mod judged;
mod properties;
mod scores;
