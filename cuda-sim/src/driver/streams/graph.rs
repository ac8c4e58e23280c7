//! Graphs: operations in the order in which they run, from a capture or built node by node.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::{nested::Nested, operation::Operation, user_object::References};
use crate::{
    driver::ffi::{Error, Handle, Result, Status},
    memory::arena::{Arena, Found},
    sync::lock,
};

/// `CUgraphNodeType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum NodeKind {
    Kernel = 0,
    Memcpy = 1,
    Memset = 2,
    Host = 3,
    Graph = 4,
    WaitEvent = 6,
    EventRecord = 7,
    MemFree = 11,
}

impl NodeKind {
    /// The kind of a captured operation.
    pub(crate) fn from_operation(operation: &Operation) -> Self {
        match operation {
            Operation::Launch(_) => NodeKind::Kernel,
            Operation::Upload { .. } | Operation::Download { .. } | Operation::Copy { .. } => {
                NodeKind::Memcpy
            }
            Operation::Fill { .. } => NodeKind::Memset,
            Operation::Host { .. } => NodeKind::Host,
            Operation::Graph(_) => NodeKind::Graph,
            Operation::Wait { .. } => NodeKind::WaitEvent,
            Operation::Record { .. } => NodeKind::EventRecord,
            Operation::Free { .. } => NodeKind::MemFree,
        }
    }

    /// An error unless it is `wanted`.
    pub(crate) fn check(self, wanted: NodeKind) -> Result {
        if self == wanted {
            return Ok(());
        }
        Err(Error::value(format!(
            "the node is of the kind {self:?}, not {wanted:?}"
        )))
    }
}

/// A node of a graph: one operation.
pub(crate) struct Node {
    pub(crate) handle: Handle,
    pub(crate) kind: NodeKind,
    /// The graph that it is in.
    pub(crate) graph: Handle,
    pub(crate) operation: Operation,
}

/// A graph.
pub(crate) struct Graph {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    /// In the order in which they were added, and run.
    pub(crate) nodes: Mutex<Vec<Arc<Node>>>,
    pub(crate) allocations: Arc<Allocations>,
    /// Its references to user objects.
    pub(crate) references: References,
}

impl Graph {
    /// A graph without nodes.
    pub(crate) fn new(handle: Handle, context: Handle, allocations: Arc<Allocations>) -> Self {
        Self {
            handle,
            context,
            nodes: Mutex::default(),
            allocations,
            references: References::default(),
        }
    }

    /// The graph, ready to launch: its nodes as they are now. An error if they are more than
    /// [`MAX_NODES`].
    pub(crate) fn instantiate(&self, handle: Handle) -> Result<Executable> {
        let nodes = lock(&self.nodes);
        let nested = Nested::new(
            nodes.iter().map(|node| node.operation.clone()).collect(),
            self.references.clone(),
            Arc::clone(&self.allocations),
        );
        if nested.nodes > MAX_NODES {
            return Err(Status::OutOfMemory.error(format!(
                "a graph of {} nodes, those of its child graphs included; cuda-sim instantiates at most {MAX_NODES}",
                nested.nodes
            )));
        }
        let places = nodes.iter().enumerate();
        Ok(Executable {
            handle,
            context: self.context,
            places: places
                .map(|(index, node)| (node.handle, (index, node.kind)))
                .collect(),
            nested: Mutex::new(nested.into()),
        })
    }
}

/// The most nodes of an instantiated graph. CUDA copies a child graph into its node, so a graph
/// that nests another twice, and is itself nested twice, and so on, has 2ⁿ nodes: there it runs out
/// of memory.
const MAX_NODES: u64 = 1 << 22;

/// An instantiated graph.
pub(crate) struct Executable {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    /// By node of the graph: the index of its operation, and its kind.
    places: HashMap<Handle, (usize, NodeKind)>,
    nested: Mutex<Arc<Nested>>,
}

impl Executable {
    /// The operations that a launch runs.
    pub(crate) fn nested(&self) -> Arc<Nested> {
        Arc::clone(&lock(&self.nested))
    }

    /// Replaces the operation of a node of this kind by the one that `make` prepares in its place,
    /// for later launches. An error that names `argument` if it differs in what cannot be updated.
    pub(crate) fn replace(
        &self,
        node: Handle,
        kind: NodeKind,
        argument: &str,
        make: impl FnOnce(&Operation) -> Result<Operation>,
    ) -> Result {
        let &(index, found) = self.places.get(&node).ok_or_else(|| {
            Error::value(format!(
                "{node:#x} was no node of the graph when it was instantiated"
            ))
        })?;
        found.check(kind)?;
        let mut nested = lock(&self.nested);
        let old = &nested.operations[index];
        let new = make(old)?;
        if let Some(difference) = old.difference(&new) {
            return Err(Error::value(format!(
                "{argument}: a node cannot be updated to {difference}"
            )));
        }
        // Copies the others only if a launch still uses them.
        Arc::make_mut(&mut nested).operations[index] = new;
        Ok(())
    }
}

/// Allocations made while capturing: freed with the last graph or operation that was made of the
/// capture.
pub(crate) struct Allocations {
    arena: &'static Arena,
    live: Mutex<Vec<Found>>,
}

impl Allocations {
    /// None yet.
    pub(crate) fn new(arena: &'static Arena) -> Arc<Self> {
        let live = Mutex::default();
        Arc::new(Self { arena, live })
    }

    /// Adds the allocation at `addr`.
    pub(crate) fn own(&self, addr: u64) {
        lock(&self.live).extend(self.arena.find("graph", addr));
    }

    /// True if the allocation at `addr` is one of them.
    pub(crate) fn owns(&self, addr: u64) -> bool {
        lock(&self.live).iter().any(|found| found.start == addr)
    }
}

impl Drop for Allocations {
    fn drop(&mut self) {
        // The program may have freed some of them, and have others at their addresses.
        for found in lock(&self.live).iter() {
            self.arena.free_by_id(found.id);
        }
    }
}
