//! How the simulator runs launches: the order of blocks and warps, and the checks.

/// Runs `work` with an order of blocks and warps that `seed` permutes, in the launches of this thread. A GPU takes its own
/// order.
pub fn with_seed<T>(seed: u64, work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            cuda_sim::set_seed(None);
        }
    }
    cuda_sim::set_seed(Some(seed));
    let _reset = Reset; // also if `work` panics
    work()
}

/// Turns on or off the checks of the simulator that take time: races, and reads of memory or variables that nobody wrote.
/// Bounds, alignment and barriers are always checked. They are on unless `CUDA_SIM_CHECK` is `off`. A GPU checks nothing.
pub fn set_checks(on: bool) {
    cuda_sim::set_checks(Some(on));
}
