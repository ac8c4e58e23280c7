//! Checks of memory accesses: races, and reads of bytes that nobody wrote.

pub(crate) mod accesses;
pub(crate) mod checked_access;
pub(crate) mod device_clock;
pub(crate) mod device_memory;
pub(crate) mod device_races;
pub(crate) mod device_records;
pub(crate) mod happens_before;
pub(crate) mod independence;
pub(crate) mod independence_records;
pub(crate) mod shared_memory;
pub(crate) mod shared_records;
pub(crate) mod syncthreads;
pub(crate) mod vector_clock;
