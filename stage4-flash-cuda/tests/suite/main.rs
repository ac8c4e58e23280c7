//! The tests of the stage, in one program: it links once.

mod backward;
mod backward_library;
mod counted;
mod dropout;
mod errors;
mod judged;
#[cfg(feature = "cli")] // runs the program
mod measured;
mod memory;
mod modes;
mod no_compiler;
#[cfg(feature = "cli")] // runs the program
mod readme;
