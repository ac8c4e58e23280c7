//! Settings of the simulator for launches: the order of blocks and warps, the checks, and the limit
//! on instructions.

use std::env;

/// Runs `work` with an order of blocks and warps that `seed` permutes, in the launches of this
/// thread. A GPU takes its own order.
pub fn with_seed<T>(seed: u64, work: impl FnOnce() -> T) -> T {
    cuda_sim::set_seed(Some(seed));
    let _reset = Reset(|| cuda_sim::set_seed(None));
    work()
}

/// Runs `work`, in which one warp of a launch of this thread may run so many instructions, unless
/// `CUDA_SIM_BUDGET` sets the limit. A kernel that runs more counts as endless. A GPU has no such
/// limit.
pub fn with_budget<T>(instructions: u64, work: impl FnOnce() -> T) -> T {
    if env::var_os("CUDA_SIM_BUDGET").is_some() {
        return work();
    }
    cuda_sim::set_budget(Some(instructions));
    let _reset = Reset(|| cuda_sim::set_budget(None));
    work()
}

/// Undoes a setting when it is dropped, also by a panic.
struct Reset(fn());

impl Drop for Reset {
    fn drop(&mut self) {
        self.0();
    }
}

/// True if the text of an error is that of a launch which was ended by a limit on instructions.
/// Further launches of the kernel would take as long.
pub fn is_endless(error: &str) -> bool {
    ["endless loop: ", "long launch: "]
        .iter()
        .any(|kind| error.contains(kind))
}

/// Turns on or off the checks of the simulator that take time: races, and reads of memory or
/// variables that nobody wrote. Bounds, alignment and barriers are always checked. They are on
/// unless `CUDA_SIM_CHECK` is `off`. A GPU checks nothing.
pub fn set_checks(on: bool) {
    cuda_sim::set_checks(Some(on));
}
