//! A memory access: its addresses, its traffic, and the values that it moves.

pub(crate) mod address_space;
mod bank_conflicts;
pub(crate) mod owners;
pub(crate) mod part;
pub(crate) mod pattern;
pub(crate) mod traffic;
pub(crate) mod word;
