//! Tests of the program `gpu` and of its parts.

mod cases;
mod command_check;
mod command_profile;
mod command_run;
mod command_trace;
mod common;
mod fuzz;
mod hardware;
mod invocation;
mod kernels;
mod library;
mod program;
mod readme;
mod strangers;
mod structs;
mod tensor_maps;
mod tidy;
