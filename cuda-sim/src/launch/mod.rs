//! What the driver and [`Simulator`](crate::Simulator) have in common: modules with their variables
//! in device memory, the limits of a launch, its run.
//!
//! - `ptx_target`: the architecture that a module is for
//! - `placed_module`: a module whose variables have places
//! - `shape`: grid, block and shared memory of a launch, and their limits
//! - `prepared`: a launch that has been checked, and its run

mod placed_module;
mod prepared;
mod ptx_target;
mod shape;

pub(crate) use placed_module::PlacedModule;
pub(crate) use prepared::{PreparedLaunch, Submission};
pub(crate) use ptx_target::PtxTarget;
pub(crate) use shape::{Limits, Shape, check_block};
