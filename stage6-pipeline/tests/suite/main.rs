//! All tests of the package in one program, except `fuzz`, which counts allocations, and `hub`,
//! which needs its feature.

#[path = "../common/mod.rs"]
mod common;
mod rig;

mod batch;
mod checkpoint;
mod cli;
mod decoders;
mod families;
mod forward;
mod judged;
mod linear;
mod replay;
mod steps;
mod storyteller;
mod text;
