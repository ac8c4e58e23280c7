//! Scheduling of blocks: at the same time on several host threads, or one after the other.

pub(crate) mod host_threads;
pub(crate) mod in_order;
pub(crate) mod parallel;
