//! The program: a file per subcommand.

pub mod bench;
mod case;
mod estimate;
pub mod ladder;
pub mod padding;
mod plot;
mod problem;
mod report;
mod roofline;
pub mod tune;
