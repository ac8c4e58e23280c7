//! Device memory.
//!
//! `arena` allocates it, `map` is what a launch sees of the allocations. `shadow` has the records
//! of accesses for each word, `written` the bytes that were written, `sectors` those that a launch
//! has touched; `undo_log` takes back what blocks wrote, `exclusive_use` tells which launches may
//! use device memory at the same time. `pages` come from the operating system, or grow a
//! WebAssembly module's memory.

pub(crate) mod arena;
pub(crate) mod exclusive_use;
pub(crate) mod map;
mod pages;
pub(crate) mod sectors;
pub(crate) mod shadow;
pub(crate) mod undo_log;
pub(crate) mod written;
mod zeros;
