//! Addresses of a memory access: its pattern over the lanes, its traffic, and the state space that
//! it lies in.

pub(crate) mod address_space;
mod bank_conflicts;
pub(crate) mod lane_operands;
pub(crate) mod loaded_lines;
pub(crate) mod matrix_fragment;
pub(crate) mod owners;
pub(crate) mod part;
pub(crate) mod pattern;
pub(crate) mod spare_patterns;
pub(crate) mod traffic;
pub(crate) mod word;
