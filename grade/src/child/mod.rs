//! The learner's program: its sources, its build, its process. `THREATS.md` says what is defended.

mod build;
mod copy;
mod output;
mod process;
mod sandbox;

pub use build::{BuildError, Program, build};
pub use process::{Child, Limits, Lost};

pub use crate::clock::TooLong;
