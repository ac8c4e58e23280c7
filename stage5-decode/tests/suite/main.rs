//! All tests of the crate's public side, in one program.

mod counted;
mod graph;
mod judged;
mod page_tables;
mod paged_cache;
mod paged_decode;
#[cfg(feature = "cli")] // runs the program
mod readme;
mod steps;
