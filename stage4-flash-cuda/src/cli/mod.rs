//! The program: a file per subcommand.

mod backward;
pub mod bench;
mod case;
mod estimate;
pub mod ladder;
mod problem;
mod report;
pub mod tune;
