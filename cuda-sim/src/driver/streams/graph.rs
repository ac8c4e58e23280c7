//! Graphs: the operations of a capture, and the allocations that it made.

use std::sync::Arc;

use super::operation::Operation;
use crate::{
    driver::ffi::Handle,
    memory::arena::{Arena, Kind},
};

/// A graph, or an instantiated one: the two differ in their tables only.
pub(crate) struct Graph {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    pub(crate) operations: Arc<[Operation]>,
    /// How deep graphs are nested in it: 1 if none is.
    pub(crate) depth: u32,
    allocations: Arc<Allocations>,
}

impl Graph {
    pub(crate) fn new(
        handle: Handle,
        context: Handle,
        operations: Vec<Operation>,
        allocations: Allocations,
    ) -> Self {
        let nested = operations.iter().map(|operation| match operation {
            Operation::Graph { depth, .. } => *depth,
            _ => 0,
        });
        Self {
            handle,
            context,
            depth: 1 + nested.max().unwrap_or(0),
            operations: operations.into(),
            allocations: Arc::new(allocations),
        }
    }

    /// The same graph, ready to launch.
    pub(crate) fn instantiate(&self, handle: Handle) -> Self {
        Self {
            handle,
            context: self.context,
            operations: Arc::clone(&self.operations),
            depth: self.depth,
            allocations: Arc::clone(&self.allocations),
        }
    }
}

/// Allocations made while capturing: freed with the last graph that was made of the capture.
pub(crate) struct Allocations {
    pub(crate) arena: &'static Arena,
    pub(crate) addresses: Vec<u64>,
}

impl Drop for Allocations {
    fn drop(&mut self) {
        for &addr in &self.addresses {
            // Fails if the program has freed it, which it may.
            let _ = self.arena.free(addr, &[Kind::Device]);
        }
    }
}
