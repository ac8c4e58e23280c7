//! Tests of the simulated driver through its public face: CUDA's own calls, mostly by cudarc.
//!
//! A test that needs a process of its own (`settings`, `processes`,
//! `fuzz`, …) runs this program again for one function that is marked `ignore`, by [`common::run`].

mod bulk_copies;
mod calls;
mod common;
mod contexts;
mod control_flow;
mod counters;
mod faults;
mod fuzz;
mod generators;
mod graph_nodes;
mod graphs;
mod instructions;
mod launch;
mod libraries;
mod linkers;
mod memory;
mod needed_target;
mod processes;
mod ragged_loads;
mod recordings;
mod rows;
mod scheduling;
mod settings;
mod streams;
mod symbols;
mod timing;
mod undone;
mod unset_loads;
mod user_objects;
