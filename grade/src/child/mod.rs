//! The learner's program: its sources, its build, its process. `THREATS.md` says what is defended.

mod build;
pub mod compiler;
mod copy;
pub mod course;
mod limits;
mod output;
mod process;
mod resident;
mod sandbox;

pub use build::{BuildError, Program, build, build_story};
pub use limits::Limits;
pub use process::{Child, Lost};
pub use resident::is_told as memory_is_told;
pub use sandbox::note;

pub use crate::clock::{Deadline, TooLong};
