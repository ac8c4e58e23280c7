//! Operations of a graph as an instantiated graph or a child node has them: a copy of its nodes and
//! edges at one time.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    graph::{Allocations, Node, NodeKind},
    operation::Operation,
    user_object::References,
};
use crate::{driver::ffi::Handle, sync::lock};

/// Operations of a graph, and what they use. The default has none.
#[derive(Clone, Default)]
pub(crate) struct Nested {
    /// In order.
    pub(super) operations: Vec<Operation>,
    /// Indices of the operations that a launch skips.
    pub(super) disabled: HashSet<usize>,
    /// The nodes whose operations these are, in the same order.
    pub(super) topology: Arc<Topology>,
    /// Depth of nested graphs: 1 if none is, 0 if it is no graph's.
    pub(crate) depth: u32,
    /// Nodes, those of nested graphs included, as often as these are nested.
    pub(super) nodes: u64,
    /// Kept until the operations have run.
    pub(super) references: References,
    /// Kept until the operations have run, and cannot be launched again.
    pub(super) allocations: Option<Arc<Allocations>>,
}

impl Nested {
    /// Operations of the nodes of `topology`, the graph's references to user objects, and its
    /// memory.
    pub(super) fn new(
        operations: Vec<Operation>,
        topology: Arc<Topology>,
        references: References,
        allocations: Option<Arc<Allocations>>,
    ) -> Self {
        let children = || {
            operations.iter().filter_map(|operation| match operation {
                Operation::Graph(nested) => Some(nested),
                _ => None,
            })
        };
        let depth = children().map(|nested| nested.depth).max().unwrap_or(0);
        let nodes = children().fold(operations.len() as u64, |sum, nested| {
            sum.saturating_add(nested.nodes)
        });
        Self {
            depth: 1 + depth,
            nodes,
            operations,
            disabled: HashSet::new(),
            topology,
            references,
            allocations,
        }
    }

    /// The operations that a launch runs, in order.
    pub(super) fn enabled(&self) -> impl Iterator<Item = &Operation> {
        let operations = self.operations.iter().enumerate();
        operations
            .filter(|(index, _)| !self.disabled.contains(index))
            .map(|(_, operation)| operation)
    }

    /// True if the graph has allocated memory in its capture.
    pub(super) fn has_memory(&self) -> bool {
        self.allocations
            .as_ref()
            .is_some_and(|allocations| !allocations.is_empty())
    }
}

/// Nodes of a graph and the edges among them, at one time.
#[derive(Default)]
pub(super) struct Topology {
    /// In the order in which they run.
    pub(super) places: Vec<Place>,
}

/// A node in a [`Topology`].
pub(super) struct Place {
    pub(super) node: Handle,
    pub(super) kind: NodeKind,
    /// Indices of the nodes that run before it, in the order in which the edges were added.
    pub(super) after: Vec<usize>,
}

impl Topology {
    /// Topology of nodes in the order in which they run.
    pub(super) fn new(ordered: &[Arc<Node>]) -> Self {
        let handles = ordered.iter().map(|node| node.handle);
        let index: HashMap<Handle, usize> = handles.zip(0..).collect();
        let place = |node: &Arc<Node>| Place {
            node: node.handle,
            kind: node.kind,
            after: lock(&node.after)
                .iter()
                .filter_map(|first| index.get(first).copied())
                .collect(),
        };
        Self {
            places: ordered.iter().map(place).collect(),
        }
    }

    /// The exits: indices of the nodes on which no other depends, in the order in which these were
    /// added.
    pub(super) fn exits(&self) -> Vec<usize> {
        let mut is_exit = vec![true; self.places.len()];
        for &first in self.places.iter().flat_map(|place| &place.after) {
            is_exit[first] = false;
        }
        let mut exits: Vec<usize> = (0..is_exit.len()).filter(|&at| is_exit[at]).collect();
        // A node that is added later has a greater handle.
        exits.sort_by_key(|&at| self.places[at].node);
        exits
    }
}
