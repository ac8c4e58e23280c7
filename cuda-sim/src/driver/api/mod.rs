//! The exported functions of the driver API, one file per family.
//!
//! `parameters` copies a kernel's parameters out of the caller's memory, `image` reads PTX,
//! `jit_log` tells a program why it was refused. All functions of `symbols.txt` are re-exported
//! here for the jump table.

mod context;
mod copy;
mod device;
mod entry_point;
mod error;
mod event;
mod graph;
mod graph_nodes;
mod image;
mod jit_log;
mod launch;
mod library;
mod link;
mod memory;
mod module;
mod occupancy;
mod parameters;
mod peer;
mod pitched;
mod pointer;
mod pool;
mod stream;
mod tensor_map;
mod unsupported;
mod user_object;

pub(super) use jit_log::JitLog;
pub(crate) use {
    context::*, copy::*, device::*, entry_point::*, error::*, event::*, graph::*, graph_nodes::*,
    launch::*, library::*, link::*, memory::*, module::*, occupancy::*, peer::*, pitched::*,
    pointer::*, pool::*, stream::*, tensor_map::*, unsupported::*, user_object::*,
};
