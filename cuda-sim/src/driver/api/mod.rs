//! The exported functions of the driver API, one file per family.
//!
//! `parameters` copies a kernel's parameters out of the caller's memory. All functions of `symbols.txt` are re-exported
//! here for the jump table.

mod context;
mod copy;
mod device;
mod error;
mod event;
mod graph;
mod launch;
mod memory;
mod module;
mod occupancy;
mod parameters;
mod pool;
mod stream;
mod unsupported;

pub(crate) use {
    context::*, copy::*, device::*, error::*, event::*, graph::*, launch::*, memory::*, module::*,
    occupancy::*, pool::*, stream::*, unsupported::*,
};
