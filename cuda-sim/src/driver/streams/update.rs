//! Update of an instantiated graph from a graph of the same topology, by the rules of
//! `cuGraphExecUpdate`.

use std::{collections::HashMap, sync::Arc};

use super::{
    nested::{Nested, Topology},
    operation::Operation,
};
use crate::driver::ffi::Handle;

/// Why an update is refused: a `CUgraphExecUpdateResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Refusal {
    TopologyChanged = 2,
    NodeTypeChanged = 3,
    ParametersChanged = 5,
    NotSupported = 6,
    UnsupportedFunctionChange = 7,
    AttributesChanged = 8,
}

/// A difference of two graphs that an update does not allow.
#[derive(Debug)]
pub(crate) struct Mismatch {
    pub(crate) refusal: Refusal,
    /// The node of the new graph; null if it is no single one.
    pub(crate) node: Handle,
    /// The dependency of that node that differs; null if none does.
    pub(crate) dependency: Handle,
    pub(crate) text: String,
}

impl Mismatch {
    fn topology(node: Handle, dependency: Handle, text: String) -> Self {
        Self {
            refusal: Refusal::TopologyChanged,
            node,
            dependency,
            text,
        }
    }
}

/// The nested graphs of an update that are updated already, by the addresses of the old and the new
/// one. A graph that nests another twice, and is itself nested twice, and so on, is walked once,
/// and keeps sharing them.
#[derive(Default)]
pub(super) struct Updated(HashMap<[*const Nested; 2], Arc<Nested>>);

impl Nested {
    /// The operations of `new` in the places of these, with the references of `new` to user
    /// objects. Nodes keep their handles, and those that are skipped still are.
    pub(super) fn updated(&self, new: &Nested, done: &mut Updated) -> Result<Nested, Mismatch> {
        if self.has_memory() || new.has_memory() {
            return Err(Mismatch {
                refusal: Refusal::NotSupported,
                node: 0,
                dependency: 0,
                text: "a graph with memory that was allocated in its capture".to_owned(),
            });
        }
        let pairs = self.topology.paired(&new.topology)?;
        let own = self.topology.places.iter().zip(&self.operations);
        let operations = own.zip(pairs).map(|((place, operation), pair)| {
            let new_place = &new.topology.places[pair];
            let refused = |(refusal, text)| Mismatch {
                refusal,
                node: new_place.node,
                dependency: 0,
                text,
            };
            if place.kind != new_place.kind {
                let text = format!(
                    "a node of the kind {:?}, not {:?}",
                    new_place.kind, place.kind
                );
                return Err(refused((Refusal::NodeTypeChanged, text)));
            }
            operation
                .replaced_by(&new.operations[pair], done)
                .map_err(refused)
        });
        let operations = operations.collect::<Result<_, _>>()?;
        let topology = Arc::clone(&self.topology);
        let references = new.references.clone();
        Ok(Nested {
            disabled: self.disabled.clone(),
            ..Nested::new(operations, topology, references, None)
        })
    }
}

impl Topology {
    /// The index in `new` of the node that each node pairs with. The exits, which are the nodes on
    /// which no other depends, pair in the order in which they were added, then the dependencies of
    /// each pair in the order of their edges.
    fn paired(&self, new: &Topology) -> Result<Vec<usize>, Mismatch> {
        let (count, new_count) = (self.places.len(), new.places.len());
        if count != new_count {
            let text = format!("{new_count} nodes, not {count}");
            return Err(Mismatch::topology(0, 0, text));
        }
        let (exits, new_exits) = (self.exits(), new.exits());
        if let Some(&more) = new_exits.get(exits.len()) {
            let text = format!(
                "{} nodes on which no other depends, not {}",
                new_exits.len(),
                exits.len()
            );
            return Err(Mismatch::topology(new.places[more].node, 0, text));
        }
        let mut pairs = vec![None; count];
        let mut is_paired = vec![false; count];
        let mut waiting: Vec<(usize, usize)> = exits.into_iter().zip(new_exits).collect();
        for &(own, other) in &waiting {
            pairs[own] = Some(other);
            is_paired[other] = true;
        }
        while let Some((own, other)) = waiting.pop() {
            let node = new.places[other].node;
            let (before, new_before) = (&self.places[own].after, &new.places[other].after);
            if before.len() != new_before.len() {
                let text = format!("{} dependencies, not {}", new_before.len(), before.len());
                return Err(Mismatch::topology(node, 0, text));
            }
            for (&first, &new_first) in before.iter().zip(new_before) {
                match pairs[first] {
                    Some(pair) if pair == new_first => {}
                    None if !is_paired[new_first] => {
                        pairs[first] = Some(new_first);
                        is_paired[new_first] = true;
                        waiting.push((first, new_first));
                    }
                    _ => {
                        let dependency = new.places[new_first].node;
                        let text = format!("a dependency on the node {dependency:#x}");
                        return Err(Mismatch::topology(node, dependency, text));
                    }
                }
            }
        }
        let pairs: Option<Vec<usize>> = pairs.into_iter().collect();
        pairs.ok_or_else(|| {
            let text = "fewer nodes on which no other depends".to_owned();
            Mismatch::topology(0, 0, text)
        })
    }
}

impl Operation {
    /// `new`, if it may take the place of this operation of a node of the same kind. Nested graphs
    /// are looked up in `done`.
    pub(super) fn replaced_by(
        &self,
        new: &Operation,
        done: &mut Updated,
    ) -> Result<Operation, (Refusal, String)> {
        use Operation::{Copy, Download, Fill, Free, Graph, Host, Launch, Record, Upload, Wait};
        let refused = |refusal, text: &str| Err((refusal, text.to_owned()));
        match (self, new) {
            (Launch(old), Launch(new)) if old.context != new.context => refused(
                Refusal::UnsupportedFunctionChange,
                "a kernel of another context",
            ),
            (Launch(old), Launch(new)) if old.cooperative != new.cooperative => refused(
                Refusal::AttributesChanged,
                "a launch that is cooperative in one of the graphs only",
            ),
            (Fill { .. }, Fill { .. }) if self.rows_of_fill() != new.rows_of_fill() => refused(
                Refusal::ParametersChanged,
                "a memset of rows with other sizes",
            ),
            (Graph(old), Graph(new)) => {
                let pair = [Arc::as_ptr(old), Arc::as_ptr(new)];
                if let Some(nested) = done.0.get(&pair) {
                    return Ok(Graph(Arc::clone(nested)));
                }
                let nested = old.updated(new, done).map_err(|mismatch| {
                    let text = format!("a child graph with {}", mismatch.text);
                    (mismatch.refusal, text)
                })?;
                let nested = Arc::new(nested);
                done.0.insert(pair, Arc::clone(&nested));
                Ok(Graph(nested))
            }
            (Free { .. }, _) => refused(Refusal::NotSupported, "a node that frees memory"),
            (Launch(_), Launch(_))
            | (Upload { .. }, Upload { .. })
            | (Download { .. }, Download { .. })
            | (Copy { .. }, Copy { .. })
            | (Fill { .. }, Fill { .. })
            | (Host { .. }, Host { .. })
            | (Record { .. }, Record { .. })
            | (Wait { .. }, Wait { .. }) => Ok(new.clone()),
            // A copy or memset of no bytes has no type of memory.
            _ if self.is_empty() || new.is_empty() => Ok(new.clone()),
            _ => refused(
                Refusal::ParametersChanged,
                "a copy between other types of memory",
            ),
        }
    }

    /// Sizes of a memset of several rows: bytes of an element, elements of a row, rows, and bytes
    /// from row to row.
    fn rows_of_fill(&self) -> Option<[usize; 4]> {
        match *self {
            Operation::Fill {
                width,
                count,
                rows,
                pitch,
                ..
            } if rows > 1 => Some([width, count, rows, pitch]),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{graph::NodeKind, nested::Place, user_object::References},
        *,
    };

    fn graph(operations: Vec<Operation>) -> Nested {
        let place = |node| Place {
            node,
            kind: NodeKind::Graph,
            after: Vec::new(),
        };
        let places = (0..operations.len() as Handle).map(place).collect();
        let topology = Topology { places }.into();
        Nested::new(operations, topology, References::default(), None)
    }

    #[test]
    fn a_graph_that_is_nested_twice_stays_one() {
        let twice = || {
            let inner = Operation::Graph(graph(Vec::new()).into());
            graph(vec![inner.clone(), inner])
        };
        let updated = twice().updated(&twice(), &mut Updated::default());
        let operations = updated.expect("the topology is the same").operations;
        let [Operation::Graph(first), Operation::Graph(second)] = operations.as_slice() else {
            panic!("they are two graphs");
        };
        assert!(Arc::ptr_eq(first, second));
    }
}
