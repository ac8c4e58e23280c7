//! The C interface: arguments, handles, and errors and panics at its boundary.
//!
//! - `arguments`: raw pointers of the C interface as types that check for null
//! - `handle`: handles and the tables that look them up
//! - `guard`: the body of each exported function; keeps error texts, faults and the last launch per
//!   thread

mod arguments;
mod guard;
mod handle;

pub(crate) use crate::status::{Code, Error, Result, Status};
pub(crate) use arguments::{In, InOut, Out, Text};
pub(crate) use guard::{catch, guard, keep_launch, text_of};
pub use guard::{last_fault, last_launch, take_fault};
pub(crate) use handle::{Handle, Table};
