//! The order in which the simulator runs blocks and warps.

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
