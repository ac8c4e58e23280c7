//! Operations of a graph as an instantiated graph or a captured launch of it has them: a copy
//! of its nodes at one time.

use std::sync::Arc;

use super::{graph::Allocations, operation::Operation, user_object::References};

/// Operations of a graph, and what they use. The default has none.
#[derive(Clone, Default)]
pub(crate) struct Nested {
    /// In order.
    pub(super) operations: Vec<Operation>,
    /// Depth of nested graphs: 1 if none is, 0 if it is no graph's.
    pub(crate) depth: u32,
    /// Nodes, those of nested graphs included, as often as these are nested.
    pub(super) nodes: u64,
    /// Kept until the operations have run.
    _references: References,
    /// Kept until the operations have run, and cannot be launched again.
    _allocations: Option<Arc<Allocations>>,
}

impl Nested {
    /// Operations of a graph, its references to user objects, and its memory.
    pub(super) fn new(
        operations: Vec<Operation>,
        references: References,
        allocations: Arc<Allocations>,
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
            _references: references,
            _allocations: Some(allocations),
        }
    }
}
