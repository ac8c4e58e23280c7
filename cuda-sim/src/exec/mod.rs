//! Runs kernels: blocks at the same time, or one after the other if they may depend on each other,
//! those of a cluster in turns; warps of 32 lanes in lock step.

// A loop over lanes by index reads several arrays at once, and is what the compiler vectorises
// best.
#![allow(clippy::needless_range_loop)]
// A fault is large, but there is at most one per launch.
#![allow(clippy::result_large_err)]

mod access;
mod active_warp;
mod aligned_bytes;
mod block;
mod block_memory;
mod checks;
pub(crate) mod cluster;
mod copies_under_way;
mod fused;
mod half_float;
pub(crate) mod host_simd;
mod host_thread;
mod lane_fault;
mod lane_mask;
mod launch;
mod launch_attempt;
mod operations;
mod permutation;
mod printed;
pub(crate) mod register_pool;
mod registers;
mod scheduling;
pub(crate) mod tally;
mod tracer;
mod warp;

use std::cell::Cell;
use std::sync::Arc;

pub use launch::Launch;
#[cfg(target_arch = "wasm32")]
pub use printed::take_output;

use crate::fault::Fault;
use crate::profile::Record;
use crate::settings;
pub use crate::settings::MmaMode;

/// Runs a launch to its end. What comes of it does not depend on the host's threads: blocks that
/// may depend on each other run one after the other.
///
/// # Errors
/// The fault of the first block, in the order in which blocks start, that had one.
pub fn run(launch: Launch) -> Result<Record, Fault> {
    let launch = Arc::new(launch);
    if launch.cluster != [1; 3] || launch.kernel.uses_clusters {
        let _beside = launch.shadow.device_use.shared();
        return scheduling::clusters::run(&launch);
    }
    if launch.tracing.is_none()
        && !launch.kernel.blocks_communicate
        && launch.blocks() <= MAX_APART
        && let Some(_alone) = launch.shadow.device_use.exclusive()
    {
        let grid = Arc::new(scheduling::parallel::ParallelLaunch::new(Arc::clone(
            &launch,
        )));
        scheduling::host_threads::run(&grid);
        if let Some(outcome) = grid.outcome() {
            return outcome;
        }
    }
    let _beside = launch.shadow.device_use.shared();
    scheduling::in_order::run(&launch)
}

/// Blocks of a launch that have a serial number of their own.
const MAX_APART: u64 = 1 << 30;

thread_local! {
    static BUDGET: Cell<Option<u64>> = const { Cell::new(None) };
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    static CHECKS: Cell<Option<bool>> = const { Cell::new(None) };
    static MMA: Cell<Option<MmaMode>> = const { Cell::new(None) };
}

/// Instructions that one warp may run in launches that this thread asks for; `None` for the
/// default: `CUDA_SIM_BUDGET`, or 2^28. A warp that runs more faults as
/// [`FaultKind::Runaway`](crate::FaultKind::Runaway), and so do blocks that together spend more on
/// waiting for each other.
pub fn set_budget(instructions: Option<u64>) {
    BUDGET.set(instructions);
}

/// Permutes the order in which blocks (or clusters of them) start and warps get their turn, in
/// launches that this thread asks for; `None` for the default: `CUDA_SIM_SEED`, or launch order. A
/// kernel whose results depend on the seed depends on the order of its threads.
pub fn set_seed(seed: Option<u64>) {
    SEED.set(seed);
}

/// Sets whether launches that this thread asks for look for reads of uninitialised memory and for
/// races; `None` for the default: yes, unless `CUDA_SIM_CHECK` is `off`. Bounds, alignment and
/// barriers are always checked.
pub fn set_checks(on: Option<bool>) {
    CHECKS.set(on);
}

/// Sets the mode in which `mma` adds floats, in launches that this thread asks for; `None` for the
/// default: exactly as a tensor core, unless `CUDA_SIM_MMA` is `fast`.
pub fn set_mma(mode: Option<MmaMode>) {
    MMA.set(mode);
}

/// Settings of launches that this thread asks for. The launch of a CUDA graph asks for those of its
/// kernels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub budget: u64,
    pub launch_budget: u64,
    pub seed: Option<u64>,
    pub checks: bool,
    pub mma: MmaMode,
}

/// The settings of launches that this thread asks for.
pub(crate) fn settings() -> Settings {
    let default = settings::settings();
    Settings {
        budget: BUDGET.get().unwrap_or(default.budget),
        launch_budget: default.launch_budget,
        seed: SEED.get().or(default.seed),
        checks: CHECKS.get().unwrap_or(default.checks),
        mma: MMA.get().unwrap_or(default.mma),
    }
}
