//! Graphs: operations and the order among them, from a capture or built node by node.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::{Arc, Mutex},
};

use super::{
    nested::{Nested, Topology},
    operation::Operation,
    update::{Mismatch, Updated},
    user_object::References,
};
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
    Empty = 5,
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
    pub(crate) operation: Mutex<Operation>,
    /// Nodes of the graph that run before.
    pub(crate) after: Mutex<Vec<Handle>>,
}

impl Node {
    /// Adds an edge: the node depends on the node `first`. An error if it does already, or if it is
    /// that node.
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

    /// Removes an edge, if it is there.
    pub(crate) fn run_without(&self, first: Handle) {
        lock(&self.after).retain(|&other| other != first);
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

    /// The nodes in an order that respects their dependencies: of those that may come next, the one
    /// added first. An error if they depend on each other in a cycle.
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
                "nodes of the graph depend on each other in a cycle",
            ));
        }
        Ok(ordered)
    }

    /// An error if it has allocated memory in its capture: then it cannot do `what`, as in CUDA.
    pub(crate) fn check_without_memory(&self, what: &str) -> Result {
        if self.allocations.is_empty() {
            return Ok(());
        }
        Err(Error::value(format!(
            "a graph with memory that was allocated in its capture cannot {what}"
        )))
    }

    /// Its operations as they are now. An error if nodes depend on each other in a cycle, or if
    /// they are more than [`MAX_NODES`].
    pub(crate) fn nested(&self) -> Result<Nested> {
        let ordered = self.ordered()?;
        let operations = ordered.iter().map(|node| lock(&node.operation).clone());
        let nested = Nested::new(
            operations.collect(),
            Topology::new(&ordered).into(),
            self.references.clone(),
            Some(Arc::clone(&self.allocations)),
        );
        if nested.nodes > MAX_NODES {
            return Err(Status::OutOfMemory.error(format!(
                "a graph of {} nodes, those of its child graphs included; cuda-sim instantiates at most {MAX_NODES}",
                nested.nodes
            )));
        }
        Ok(nested)
    }

    /// The graph, ready to launch: its nodes as they are now.
    pub(crate) fn instantiate(&self, handle: Handle, flags: u64) -> Result<Executable> {
        let nested = self.nested()?;
        let nodes = nested.topology.places.iter().map(|place| place.node);
        Ok(Executable {
            handle,
            context: self.context,
            flags,
            index: nodes.zip(0..).collect(),
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
    /// `CUgraphInstantiate_flags`.
    pub(crate) flags: u64,
    /// By node of the graph: the index of its operation.
    index: HashMap<Handle, usize>,
    nested: Mutex<Arc<Nested>>,
}

impl Executable {
    /// The operations that a launch runs.
    pub(crate) fn nested(&self) -> Arc<Nested> {
        Arc::clone(&lock(&self.nested))
    }

    /// The index of a node's operation.
    fn index_of(&self, node: Handle) -> Result<usize> {
        self.index.get(&node).copied().ok_or_else(|| {
            Error::value(format!(
                "{node:#x} was no node of the graph when it was instantiated"
            ))
        })
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
        let index = self.index_of(node)?;
        let mut nested = lock(&self.nested);
        nested.topology.places[index].kind.check(kind)?;
        let old = &nested.operations[index];
        let replaced = old.replaced_by(&make(old)?, &mut Updated::default());
        let replaced = replaced.map_err(|(_, difference)| {
            Error::value(format!(
                "{argument}: a node cannot be updated to {difference}"
            ))
        })?;
        // Copies the others only if a launch still uses them.
        Arc::make_mut(&mut nested).operations[index] = replaced;
        Ok(())
    }

    /// True if a launch runs a node. An error for nodes that cannot be skipped.
    pub(crate) fn is_enabled(&self, node: Handle) -> Result<bool> {
        let index = self.index_of(node)?;
        let nested = lock(&self.nested);
        match nested.topology.places[index].kind {
            NodeKind::Kernel | NodeKind::Memcpy | NodeKind::Memset => {
                Ok(!nested.disabled.contains(&index))
            }
            kind => Err(Error::value(format!(
                "the node is of the kind {kind:?}; only kernels, copies and memsets are enabled and disabled"
            ))),
        }
    }

    /// Makes later launches run a node, or skip it.
    pub(crate) fn set_enabled(&self, node: Handle, enabled: bool) -> Result {
        self.is_enabled(node)?;
        let index = self.index_of(node)?;
        let mut nested = lock(&self.nested);
        let disabled = &mut Arc::make_mut(&mut nested).disabled;
        match enabled {
            true => disabled.remove(&index),
            false => disabled.insert(index),
        };
        Ok(())
    }

    /// Replaces the operations of all nodes by those of `graph`, for later launches. If `graph`
    /// differs in what cannot be updated, nothing changes, and the difference is returned.
    pub(crate) fn update(&self, graph: &Graph) -> Result<Option<Mismatch>> {
        let new = graph.nested()?;
        let mut nested = lock(&self.nested);
        match nested.updated(&new, &mut Updated::default()) {
            Ok(updated) => *nested = updated.into(),
            Err(mismatch) => return Ok(Some(mismatch)),
        }
        Ok(None)
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

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.live).is_empty()
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
