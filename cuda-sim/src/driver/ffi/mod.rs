//! The C interface: arguments, handles, result codes, and errors and panics at its boundary.
//!
//! - `status`: CUDA's result codes and the driver's error type
//! - `arguments`: raw pointers of the C interface as types that check for null
//! - `handle`: handles and the tables that look them up
//! - `guard`: the body of each exported function; keeps error texts, faults and the last launch per
//!   thread

mod arguments;
mod guard;
mod handle;
mod status;

pub(crate) use arguments::{In, InOut, Out, Text};
pub(crate) use guard::{catch, guard, keep_launch, text_of};
pub use guard::{last_fault, last_launch, take_fault};
pub(crate) use handle::{Handle, Table};
pub(crate) use status::{Code, Error, Result, Status};
