//! From syntax to a program that a warp can run.
//!
//! [`Module::load`] parses a PTX module, gives each kernel a flat list of decoded operations (device
//! functions inlined, names resolved, registers packed) and lists the variables that the driver must place
//! in device memory. An instruction that is not known does not fail the module: it becomes an operation
//! that faults when a thread reaches it.

mod arrays;
mod class;
mod communication;
mod decode;
mod expected;
pub(crate) mod family;
pub(crate) mod flow;
mod latency;
mod lower;
mod module;
pub(crate) mod op;
mod registers;
pub(crate) mod report;
mod stretches;
mod unset;
mod uses;
mod variables;

pub(crate) use latency::Latency;
pub(crate) use module::{Constant, Instruction, Source};
pub use module::{Kernel, Module};
