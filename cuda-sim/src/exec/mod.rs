//! Runs kernels: blocks in parallel, warps of 32 lanes in lock step.

// A loop over lanes by index reads several arrays at once, and is what the compiler vectorises best.
#![allow(clippy::needless_range_loop)]

mod atomic;
mod block;
mod data;
mod float;
mod grid;
mod integer;
mod isa;
mod lanes;
mod memory;
mod predicate;
mod print;
mod registers;
mod rounding;
mod spaces;
mod vectors;
mod warp;
mod workers;

use std::cell::Cell;
use std::sync::Arc;

pub use grid::Launch;

use crate::fault::Fault;
use crate::stats::Stats;

/// Runs a launch to its end.
///
/// # Errors
/// The fault of the first block, in launch order, that had one.
#[allow(clippy::result_large_err)] // At most one per launch.
pub fn run(launch: Launch) -> Result<Stats, Fault> {
    let grid = Arc::new(grid::Grid::new(launch));
    workers::run(&grid);
    grid.outcome()
}

thread_local! {
    static BUDGET: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Instructions that one warp may run in launches that this thread asks for; `None` for the default:
/// `CUDA_SIM_BUDGET` if it is a number, otherwise 2^28. A warp that runs more faults as
/// [`FaultKind::Runaway`](crate::FaultKind::Runaway), and so do blocks that together spend more on waiting for each
/// other.
pub fn set_budget(instructions: Option<u64>) {
    BUDGET.set(instructions);
}

/// The budget of launches that this thread asks for.
pub(crate) fn budget() -> u64 {
    let asked = || std::env::var("CUDA_SIM_BUDGET").ok()?.parse().ok();
    BUDGET.get().or_else(asked).unwrap_or(1 << 28)
}
