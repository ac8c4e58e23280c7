//! The program: a file per subcommand.

pub mod bench;
pub mod padding;
mod plot;
mod problem;
pub mod tune;
