//! Edges of graphs: which nodes depend on which.

use std::{collections::HashSet, iter, sync::Arc};

use crate::{
    driver::{
        ffi::{Code, Error, Handle, In, InOut, Out, Result, guard},
        state::{Driver, driver},
        streams::{Graph, Node},
    },
    sync::lock,
};

/// `CUgraphEdgeData`: zeros are an edge that waits for the whole node before.
type EdgeData = [u8; 8];

/// An error unless `node` is a node of `graph`.
pub(super) fn check_in(driver: &Driver, graph: &Graph, node: Handle) -> Result<Arc<Node>> {
    let node = driver.nodes.get(node)?;
    if node.graph == graph.handle {
        return Ok(node);
    }
    Err(Error::value(format!(
        "node {:#x} belongs to another graph",
        node.handle
    )))
}

/// The nodes of edges, which must all be in the graph.
fn edges(
    driver: &Driver,
    graph: &Graph,
    [from, to]: [In<Handle>; 2],
    count: usize,
) -> Result<Vec<(Handle, Arc<Node>)>> {
    let node = |list: &str, at: usize, node| {
        check_in(driver, graph, node)
            .map_err(|error| error.in_argument(format_args!("{list}[{at}]")))
    };
    let from = from.list("from", count)?.into_iter();
    let pairs = from.zip(to.list("to", count)?).enumerate();
    let edges = pairs.map(|(at, (from, to))| {
        node("from", at, from)?;
        Ok((from, node("to", at, to)?))
    });
    edges.collect()
}

/// An error for edges that wait for less than a whole node.
fn check_data(data: &In<EdgeData>, count: usize) -> Result {
    if data.address().is_null() {
        return Ok(());
    }
    match data
        .list("edgeData", count)?
        .iter()
        .all(|data| *data == [0; 8])
    {
        true => Ok(()),
        false => Err(Error::unsupported("ports and types of edges of a graph")),
    }
}

/// Adds edges: each node `to[i]` depends on `from[i]`. An edge that exists is an error, and no edge
/// is added. A cycle is an error of the instantiation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddDependencies(
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    count: usize,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let graph = driver.graphs.get(graph)?;
        let edges = edges(driver, &graph, [from, to], count)?;
        for (at, (from, to)) in edges.iter().enumerate() {
            if let Err(error) = to.run_after(*from) {
                for (from, to) in &edges[..at] {
                    to.run_without(*from);
                }
                return Err(error);
            }
        }
        Ok(())
    })
}

/// Adds edges, as [`cuGraphAddDependencies`] does. Their data must be null or zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddDependencies_v2(
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    data: In<EdgeData>,
    count: usize,
) -> Code {
    match guard(|| check_data(&data, count)) {
        // SAFETY: the same arguments, under the same promises.
        0 => unsafe { cuGraphAddDependencies(graph, from, to, count) },
        code => code,
    }
}

/// Removes edges. One that does not exist, or is given twice, is an error, and no edge is removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphRemoveDependencies(
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    count: usize,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let graph = driver.graphs.get(graph)?;
        graph.check_without_memory("lose an edge")?;
        let edges = edges(driver, &graph, [from, to], count)?;
        let mut known = HashSet::new();
        for (from, to) in &edges {
            let problem = match lock(&to.after).contains(from) {
                false => "does not exist",
                true if !known.insert((*from, to.handle)) => "is given twice",
                true => continue,
            };
            return Err(Error::value(format!(
                "the edge from {from:#x} to {:#x} {problem}",
                to.handle
            )));
        }
        for (from, to) in &edges {
            to.run_without(*from);
        }
        Ok(())
    })
}

/// Removes edges, as [`cuGraphRemoveDependencies`] does. Their data must be null or zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphRemoveDependencies_v2(
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    data: In<EdgeData>,
    count: usize,
) -> Code {
    match guard(|| check_data(&data, count)) {
        // SAFETY: the same arguments, under the same promises.
        0 => unsafe { cuGraphRemoveDependencies(graph, from, to, count) },
        code => code,
    }
}

/// Writes lists of one length, as much of them as there is room for, and that number to `count`,
/// which has the room. Places that are left over become null. Without a first list, the length
/// only. Returns how many were written.
pub(super) fn write_lists<const N: usize>(
    lists: [(&str, Out<Handle>); N],
    (argument, count): (&str, InOut<usize>),
    found: [Vec<Handle>; N],
) -> Result<usize> {
    let number = found[0].len();
    if !lists[0].1.is_given() {
        count.set(argument, number)?;
        return Ok(0);
    }
    let room = count.get(argument)?;
    for ((argument, list), found) in lists.into_iter().zip(found) {
        list.set_list(
            argument,
            found.into_iter().chain(iter::repeat(0)).take(room),
        )?;
    }
    let written = room.min(number);
    count.set(argument, written)?;
    Ok(written)
}

/// Writes nodes, and the data of the edges to them if it is asked for.
fn write_neighbours(
    nodes: (&str, Out<Handle>),
    data: Out<EdgeData>,
    count: (&str, InOut<usize>),
    found: Vec<Handle>,
) -> Result {
    let written = write_lists([nodes], count, [found])?;
    write_data(data, written)
}

fn write_data(data: Out<EdgeData>, count: usize) -> Result {
    match data.is_given() {
        true => data.set_list("edgeData", iter::repeat_n([0; 8], count)),
        false => Ok(()),
    }
}

/// The edges of a graph, by the nodes that they lead to in the order in which these were added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetEdges(
    graph: Handle,
    from: Out<Handle>,
    to: Out<Handle>,
    count: InOut<usize>,
) -> Code {
    // SAFETY: the same arguments, under the same promises, and no place for data.
    unsafe { cuGraphGetEdges_v2(graph, from, to, Out::at(std::ptr::null_mut()), count) }
}

/// The edges of a graph, as [`cuGraphGetEdges`] gives them, and their data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetEdges_v2(
    graph: Handle,
    from: Out<Handle>,
    to: Out<Handle>,
    data: Out<EdgeData>,
    count: InOut<usize>,
) -> Code {
    guard(|| {
        let graph = driver()?.graphs.get(graph)?;
        if from.is_given() != to.is_given() {
            return Err(Error::value("one of from and to is null"));
        }
        let mut found = [Vec::new(), Vec::new()];
        for node in lock(&graph.nodes).iter() {
            for &first in lock(&node.after).iter() {
                found[0].push(first);
                found[1].push(node.handle);
            }
        }
        let written = write_lists([("from", from), ("to", to)], ("numEdges", count), found)?;
        write_data(data, written)
    })
}

/// The nodes on which a node depends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeGetDependencies(
    node: Handle,
    nodes: Out<Handle>,
    count: InOut<usize>,
) -> Code {
    // SAFETY: the same arguments, under the same promises, and no place for data.
    unsafe { cuGraphNodeGetDependencies_v2(node, nodes, Out::at(std::ptr::null_mut()), count) }
}

/// The nodes on which a node depends, and the data of their edges to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeGetDependencies_v2(
    node: Handle,
    nodes: Out<Handle>,
    data: Out<EdgeData>,
    count: InOut<usize>,
) -> Code {
    guard(|| {
        let node = driver()?.nodes.get(node)?;
        let found = lock(&node.after).clone();
        let count = ("numDependencies", count);
        write_neighbours(("dependencies", nodes), data, count, found)
    })
}

/// The nodes that depend on a node, in the order in which they were added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeGetDependentNodes(
    node: Handle,
    nodes: Out<Handle>,
    count: InOut<usize>,
) -> Code {
    // SAFETY: the same arguments, under the same promises, and no place for data.
    unsafe { cuGraphNodeGetDependentNodes_v2(node, nodes, Out::at(std::ptr::null_mut()), count) }
}

/// The nodes that depend on a node, in the order in which they were added, and the data of its
/// edges to them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeGetDependentNodes_v2(
    node: Handle,
    nodes: Out<Handle>,
    data: Out<EdgeData>,
    count: InOut<usize>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let node = driver.nodes.get(node)?;
        let graph = driver.graphs.get(node.graph)?;
        let nodes_of = lock(&graph.nodes);
        let dependent = nodes_of
            .iter()
            .filter(|other| lock(&other.after).contains(&node.handle));
        let found = dependent.map(|other| other.handle).collect();
        let count = ("numDependentNodes", count);
        write_neighbours(("dependentNodes", nodes), data, count, found)
    })
}
