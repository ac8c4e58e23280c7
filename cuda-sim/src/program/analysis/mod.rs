//! Analyses of a kernel's operations, done once when a module is loaded; `barrier_paths` and
//! `update` when a launch has faulted.
//!
//! - `basic_blocks`: control flow
//! - `register_flow`: registers that basic blocks pass on to each other
//! - `unset_registers`: registers that may be used unset; `byte_flow`: which bytes of results come
//!   from which operands
//! - `compare_and_swap_reads`: plain reads that start a compare-and-swap loop
//! - `shared_arrays`: the shared array from which an address is made
//! - `block_communication`: whether blocks may depend on each other
//! - `straight_line`: operations that the same threads run one after the other
//! - `barrier_paths`: the barrier that explains a fault, because not all threads come to it
//! - `update`: accesses that load, change and store one place
//! - `volatile_exchange`: lanes that pass values on with no barrier between
//! - `phases`: code between barriers; `latency`: time that it takes a warp alone
//! - `joined_loads`: loads of shared memory that the assembler joins

pub(crate) mod barrier_paths;
pub(crate) mod basic_blocks;
pub(crate) mod block_communication;
pub(crate) mod byte_flow;
pub(crate) mod compare_and_swap_reads;
pub(crate) mod joined_loads;
pub(crate) mod latency;
pub(crate) mod phases;
pub(crate) mod product_registers;
pub(crate) mod register_flow;
pub(crate) mod shared_arrays;
pub(crate) mod straight_line;
pub(crate) mod unset_registers;
pub(crate) mod update;
pub(crate) mod volatile_exchange;
