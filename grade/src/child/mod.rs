//! The learner's program: its sources, its build, its process.

mod build;
mod copy;
mod output;
mod process;
mod sandbox;

pub use build::{BuildError, Program, build};
pub use process::{Child, Limits, Lost};
