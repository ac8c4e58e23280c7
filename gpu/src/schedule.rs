//! Settings of the simulator for launches: the order of blocks and warps, the checks, and the limit
//! on instructions.

use std::env;

use cuda_sim::FaultKind;

/// Runs `work` with an order of blocks and warps that `seed` permutes, in the launches of this
/// thread. A GPU takes its own order.
pub fn with_seed<T>(seed: u64, work: impl FnOnce() -> T) -> T {
    cuda_sim::set_seed(Some(seed));
    let _reset = Reset(|| cuda_sim::set_seed(None));
    work()
}

/// Runs `work`, in which one warp of a launch of this thread may run so many instructions, unless
/// `CUDA_SIM_BUDGET` sets the limit. Gives its result, and false if a limit ended a launch: further
/// launches of the kernel would take as long. A GPU has no such limit.
pub fn with_budget<T>(instructions: u64, work: impl FnOnce() -> T) -> (T, bool) {
    let _reset = env::var_os("CUDA_SIM_BUDGET").is_none().then(|| {
        cuda_sim::set_budget(Some(instructions));
        Reset(|| cuda_sim::set_budget(None))
    });
    let _ = cuda_sim::take_fault(); // of an earlier launch
    let result = work();
    let endless = cuda_sim::last_fault().is_some_and(|fault| {
        matches!(
            fault.kind,
            FaultKind::Runaway { .. } | FaultKind::LongLaunch { .. }
        )
    });
    (result, !endless)
}

/// Undoes a setting when it is dropped, also by a panic.
struct Reset(fn());

impl Drop for Reset {
    fn drop(&mut self) {
        self.0();
    }
}

/// Turns on or off the checks of the simulator that take time: races, and reads of memory or
/// variables that nobody wrote. Bounds, alignment and barriers are always checked. They are on
/// unless `CUDA_SIM_CHECK` is `off`. A GPU checks nothing.
pub fn set_checks(on: bool) {
    cuda_sim::set_checks(Some(on));
}
