//! What a launch did, counted.

/// Counters of one launch. They are exact and the same on every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Instructions, once per warp that ran them.
    pub warp_instructions: u64,
    /// Instructions, once per thread that ran them with its guard true.
    pub lane_instructions: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.warp_instructions += other.warp_instructions;
        self.lane_instructions += other.lane_instructions;
    }
}
