//! Streams and what they execute.
//!
//! A [`Stream`] runs an [`Operation`], queues it for its worker thread, or adds it to a
//! [`Capture`].
//!
//! - `stream`: order of operations, worker thread; `progress`: operations that have ended, and
//!   their first error
//! - `operation`: what streams execute, as data; `rows`: the bytes of a copy
//! - `host_function`: a host callback
//! - `event`, `capture`, `graph`, `user_object`: CUDA's objects of those names
//! - `nested`: operations of a graph that is instantiated, or whose launch was captured
//! - `clock`: modelled time
//!
//! Five of these files form a circle, because their data does: an operation may be a whole graph
//! (`nested`), or mark an event, whose last record may lie in a `capture`, which has a `graph` of
//! operations.

pub(crate) mod clock;

mod capture;
mod event;
mod graph;
mod host_function;
mod nested;
mod operation;
mod progress;
mod rows;
mod stream;
mod user_object;

pub(crate) use capture::{Capture, RELAXED};
pub(crate) use event::Event;
pub(crate) use graph::{Allocations, Executable, Graph, Node, NodeKind};
pub(crate) use host_function::{HostAddress, HostFunction, in_host_function};
pub(crate) use operation::{Operation, Source};
pub(crate) use progress::{Progress, not_ready};
pub(crate) use rows::{Distances, Rows};
pub(crate) use stream::{Stream, StreamKind};
pub(crate) use user_object::{References, UserObject, UserObjects};
