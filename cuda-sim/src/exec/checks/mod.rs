//! Checks of memory accesses: races, and reads of bytes that nobody wrote.
//!
//! `accesses` is the entry: a load, a store, an atomic operation, a fence. It asks `shared_memory`
//! or `device_memory`, which keep a record of the last write and the last reads of each word.
//! Device memory has two detectors: `independence` proves that blocks which run at the same time do
//! not depend on each other, `device_races` finds races when blocks run in order. `happens_before`
//! decides whether two accesses of a block are ordered, by the vector clocks of `vector_clock`
//! (warps of a block) and `device_clock` (blocks). `ranges` has what bulk copies access of device
//! memory, `unwritten_bytes` has loads of what nobody
//! wrote. A new race rule of one block belongs to `happens_before`, of several blocks to
//! `device_races`; what orders accesses belongs to `vector_clock`.

pub(crate) mod accesses;
pub(crate) mod async_proxy;
pub(crate) mod checked_access;
pub(crate) mod copies_in_flight;
pub(crate) mod device_clock;
pub(crate) mod device_memory;
pub(crate) mod device_races;
pub(crate) mod device_records;
pub(crate) mod engines;
pub(crate) mod happens_before;
pub(crate) mod independence;
pub(crate) mod independence_records;
pub(crate) mod ranges;
pub(crate) mod shared_memory;
pub(crate) mod shared_ranges;
pub(crate) mod shared_records;
pub(crate) mod syncthreads;
pub(crate) mod unwritten_bytes;
pub(crate) mod vector_clock;
