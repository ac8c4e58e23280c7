//! The program: a file per subcommand, and what they share.

mod assignment;
pub mod bench;
mod case;
mod estimate;
mod ladder;
mod lengths;
mod pages;
mod problem;
pub mod tune;
