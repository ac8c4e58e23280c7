//! Operations, one file per family, and the functions that run them on each instruction set of the host.

pub(crate) mod atomic;
mod bits;
mod data;
pub(crate) mod dispatch;
mod float;
mod integer;
pub(crate) mod lanes;
pub(crate) mod load_store;
pub(crate) mod locate;
pub(crate) mod predicate;
pub(crate) mod print;
mod rounding;
mod word_access;
