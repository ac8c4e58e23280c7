//! Device memory: its allocations, and what is known of each byte besides its value.

pub(crate) mod arena;
pub(crate) mod exclusive_use;
pub(crate) mod map;
pub(crate) mod sectors;
pub(crate) mod shadow;
pub(crate) mod undo_log;
pub(crate) mod written;
mod zeros;
