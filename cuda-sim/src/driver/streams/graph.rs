//! Graphs: operations and the order among them, from a capture or built node by node.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::{Arc, Mutex},
};

use super::{
    operation::{Nested, Operation},
    user_object::References,
};
use crate::{
    driver::ffi::{Error, Handle, Result},
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
    Empty = 5,
    WaitEvent = 6,
    EventRecord = 7,
    MemFree = 11,
}

impl NodeKind {
    /// The kind of a captured operation.
    pub(crate) fn of(operation: &Operation) -> Self {
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
    pub(crate) operation: Mutex<Operation>,
    /// Nodes of the graph that run before.
    pub(crate) after: Mutex<Vec<Handle>>,
}

impl Node {
    /// Adds an edge: the node runs behind the node `first`. An error if it does already, or if it is that node.
    pub(crate) fn run_after(&self, first: Handle) -> Result {
        let mut after = lock(&self.after);
        if first == self.handle || after.contains(&first) {
            return Err(Error::value(format!(
                "the edge from {first:#x} to {:#x} exists, or is a loop",
                self.handle
            )));
        }
        after.push(first);
        Ok(())
    }
}

/// A graph.
pub(crate) struct Graph {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    /// In the order in which they were added.
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

    /// The nodes in an order that respects their dependencies: of those that may come next, the one added first. An error if
    /// they depend on each other in a circle.
    pub(crate) fn ordered(&self) -> Result<Vec<Arc<Node>>> {
        let nodes = lock(&self.nodes);
        let index: HashMap<Handle, usize> = nodes.iter().map(|node| node.handle).zip(0..).collect();
        let mut waits_for = vec![0; nodes.len()];
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            for first in lock(&node.after).iter().filter_map(|node| index.get(node)) {
                waits_for[at] += 1;
                before[*first].push(at);
            }
        }
        let free = (0..nodes.len()).filter(|&at| waits_for[at] == 0);
        let mut free: BinaryHeap<Reverse<usize>> = free.map(Reverse).collect();
        let mut ordered = Vec::with_capacity(nodes.len());
        while let Some(Reverse(at)) = free.pop() {
            ordered.push(Arc::clone(&nodes[at]));
            for &next in &before[at] {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    free.push(Reverse(next));
                }
            }
        }
        if ordered.len() < nodes.len() {
            return Err(Error::value(
                "nodes of the graph depend on each other in a circle",
            ));
        }
        Ok(ordered)
    }

    /// The graph, ready to launch: its nodes as they are now.
    pub(crate) fn instantiate(&self, handle: Handle) -> Result<Executable> {
        let ordered = self.ordered()?;
        let operations = ordered.iter().map(|node| lock(&node.operation).clone());
        let allocations = Some(Arc::clone(&self.allocations));
        let nested = Nested::new(operations.collect(), self.references.clone(), allocations);
        let kinds = ordered.iter().map(|node| node.kind).enumerate();
        Ok(Executable {
            handle,
            context: self.context,
            place: ordered.iter().map(|node| node.handle).zip(kinds).collect(),
            nested: Mutex::new(nested.into()),
        })
    }
}

/// An instantiated graph.
pub(crate) struct Executable {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    /// By node of the graph: the index of its operation, and its kind.
    place: HashMap<Handle, (usize, NodeKind)>,
    nested: Mutex<Arc<Nested>>,
}

impl Executable {
    /// The operations that a launch runs.
    pub(crate) fn nested(&self) -> Arc<Nested> {
        Arc::clone(&lock(&self.nested))
    }

    /// Replaces the operation of a node of this kind, for later launches.
    pub(crate) fn replace(&self, node: Handle, kind: NodeKind, operation: Operation) -> Result {
        let &(place, old) = self.place.get(&node).ok_or_else(|| {
            Error::value(format!(
                "{node:#x} was no node of the graph when it was instantiated"
            ))
        })?;
        old.check(kind)?;
        // Copies the others only if a launch still uses them.
        Arc::make_mut(&mut *lock(&self.nested)).operations[place] = operation;
        Ok(())
    }
}

/// Allocations made while capturing: freed with the last graph or operation that was made of the capture.
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

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.live).is_empty()
    }

    /// Adds the allocation at `addr`.
    pub(crate) fn own(&self, addr: u64) {
        lock(&self.live).extend(self.arena.find("graph", addr));
    }

    /// Whether the allocation at `addr` is one of them.
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
