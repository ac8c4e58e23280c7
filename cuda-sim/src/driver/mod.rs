//! The CUDA driver API.
//!
//! Data flows one way: an exported function (`api`) finds the objects of its handles in the
//! driver's state (`state`), and submits operations to a stream (`submit`), which runs them
//! (`streams`).
//!
//! - `install`: the jump table named `libcuda.so` that leads every CUDA call of this process here
//! - `api`: the exported functions, one file per family
//! - `submit`: submits operations; the default stream's order
//! - `state`: the one global value, with a table per kind of object
//! - `forked`: refuses calls in a child of `fork`
//! - `context`, `module`, `library`, `linker`, `pool`, `registered`: objects that
//!   handles stand for
//! - `library_contexts`: modules and functions of libraries
//! - `streams`: streams, what they execute, events, captures, graphs, modelled time
//! - `leaks`, `report`: memory that a context left behind; where reports of faults go
//! - `ffi`: arguments, handles, result codes, panics and error texts

#![allow(non_snake_case)] // The functions are called what CUDA calls them.

mod api;
mod context;
mod ffi;
mod forked;
mod install;
mod leaks;
mod library;
mod library_contexts;
mod linker;
mod module;
mod pool;
mod registered;
mod report;
mod state;
mod streams;
mod submit;

pub(crate) use api::*; // for the jump table
pub use ffi::{last_fault, last_launch, take_fault};
pub use install::install;
pub use leaks::{Leaks, held, last_leaks};
pub(crate) use state::{driver, started};
