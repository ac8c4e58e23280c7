//! Scheduling of blocks: at the same time on several host threads (`parallel`), or one after the
//! other (`in_order`), or clusters of blocks one after the other (`clusters`).

pub(crate) mod clusters;
pub(crate) mod host_threads;
pub(crate) mod in_order;
pub(crate) mod parallel;
