//! The CUDA driver API: one file per family of functions, and what they share.
//!
//! `status`, `ffi` and `handle` are the boundary: codes, arguments and handles. `state` is the one global value;
//! `operation` is what streams execute, `clock` their modelled time. All functions of `symbols.txt` are re-exported here for the jump table.

#![allow(non_snake_case)] // The functions are called what CUDA calls them.

mod clock;
mod context;
mod copy;
mod device;
mod event;
mod ffi;
mod graph;
mod handle;
mod launch;
mod memory;
mod module;
mod occupancy;
mod operation;
mod parameters;
mod state;
pub(crate) mod status;
mod stream;
mod unsupported;

pub(crate) use state::started;

pub(crate) use {
    context::*, copy::*, device::*, event::*, graph::*, launch::*, memory::*, module::*,
    occupancy::*, status::*, stream::*, unsupported::*,
};
