//! Graphs built node by node, and changes of the nodes of an instantiated
//! graph: kernels and copies.

use std::{collections::HashSet, ffi::c_void, iter, sync::Arc};

use crate::{
    driver::{
        api::{
            launch::{Dimensions, prepare},
            pitched::{self, Copy3D},
        },
        ffi::{Code, Error, Handle, In, InOut, Out, Result, guard},
        state::{Driver, driver},
        streams::{Allocations, Graph, Node, NodeKind, Operation},
    },
    sync::lock,
};

impl Driver {
    /// Adds a node to a graph, which runs after those that were added before.
    pub(super) fn add_node(&self, graph: &Graph, kind: NodeKind, operation: Operation) -> Handle {
        let node = self.nodes.insert(|handle| Node {
            handle,
            kind,
            graph: graph.handle,
            operation,
        });
        lock(&graph.nodes).push(Arc::clone(&node));
        node.handle
    }

    /// Removes a graph and its nodes.
    pub(super) fn remove_graph(&self, graph: Handle) -> Result {
        self.remove_nodes(&*self.graphs.remove(graph)?);
        Ok(())
    }

    /// Removes the nodes of a graph that is in no table any more.
    pub(super) fn remove_nodes(&self, graph: &Graph) {
        for node in lock(&graph.nodes).iter() {
            // In the table: nothing else removes it.
            let _ = self.nodes.remove(node.handle);
        }
    }
}

/// Adds a node whose operation `make` prepares. Its dependencies are nodes of the graph, so they
/// were added before, and nodes run in the order in which they were added: that respects them.
fn add(
    node: Out<Handle>,
    graph: Handle,
    (after, count): (In<Handle>, usize),
    kind: NodeKind,
    make: impl FnOnce(&'static Driver) -> Result<Operation>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        node.check("phGraphNode")?;
        let graph = driver.graphs.get(graph)?;
        let mut known = HashSet::new();
        for (at, first) in after.list("dependencies", count)?.into_iter().enumerate() {
            let found = driver.nodes.get(first);
            let found =
                found.map_err(|error| error.in_argument(format_args!("dependencies[{at}]")))?;
            if found.graph != graph.handle {
                return Err(Error::value(format!(
                    "dependencies[{at}]: node {first:#x} belongs to another graph"
                )));
            }
            if !known.insert(first) {
                return Err(Error::value(format!(
                    "dependency {first:#x} is given twice"
                )));
            }
        }
        let new = driver.add_node(&graph, kind, make(driver)?);
        node.set("phGraphNode", new)
    })
}

/// Replaces the operation of a node of an instantiated graph by the one that `make` prepares in its
/// place, from `argument`. An error if the node is no more in the graph that it was instantiated
/// from.
fn set_in_executable(
    executable: Handle,
    node: Handle,
    kind: NodeKind,
    argument: &str,
    make: impl FnOnce(&'static Driver, &Operation) -> Result<Operation>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let executable = driver.executables.get(executable)?;
        driver.nodes.get(node)?;
        executable.replace(node, kind, argument, |old| make(driver, old))
    })
}

/// Creates a graph without nodes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphCreate(graph: Out<Handle>, flags: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        let context = driver.current()?.handle;
        graph.check("phGraph")?;
        if flags != 0 {
            return Err(Error::value(format!("flags are {flags:#x}, must be 0")));
        }
        let allocations = Allocations::new(&driver.arena);
        let new = driver
            .graphs
            .insert(|handle| Graph::new(handle, context, allocations));
        graph.set("phGraph", new.handle)
    })
}

/// `CUDA_KERNEL_NODE_PARAMS` of CUDA 11.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct KernelParams {
    function: Handle,
    dimensions: Dimensions,
    params: *const *const c_void,
    extra: *const *const c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS` from CUDA 12 on: a kernel of a library in a context may take the
/// function's place. Null is the current context.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct KernelParams2 {
    first: KernelParams,
    kernel: Handle,
    context: Handle,
}

impl KernelParams {
    /// The launch, cooperative or not: an attribute of the node, which parameters do not have.
    fn operation(&self, driver: &'static Driver, cooperative: bool) -> Result<Operation> {
        let function = driver.function(self.function)?;
        let prepared = prepare(
            driver,
            &function,
            self.dimensions.shape(cooperative),
            self.params,
            self.extra,
        )?;
        Ok(Operation::Launch(Arc::new(prepared)))
    }
}

impl KernelParams2 {
    /// As [`KernelParams::operation`].
    fn operation(&self, driver: &'static Driver, cooperative: bool) -> Result<Operation> {
        if self.first.function != 0 {
            return self.first.operation(driver, cooperative);
        }
        if self.context != 0 && self.context != driver.current()?.handle {
            return Err(Error::unsupported(
                "kernels of a library as nodes of a context that is not current",
            ));
        }
        KernelParams {
            function: self.kernel,
            ..self.first
        }
        .operation(driver, cooperative)
    }
}

/// Adds a kernel launch. Its parameters are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddKernelNode(
    node: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    params: In<KernelParams>,
) -> Code {
    add(node, graph, (after, count), NodeKind::Kernel, |driver| {
        params.get("nodeParams")?.operation(driver, false)
    })
}

/// Adds a kernel launch. Its parameters are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddKernelNode_v2(
    node: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    params: In<KernelParams2>,
) -> Code {
    add(node, graph, (after, count), NodeKind::Kernel, |driver| {
        params.get("nodeParams")?.operation(driver, false)
    })
}

/// Replaces a kernel launch of an instantiated graph by one in the same context, for later launches
/// of it. A captured cooperative launch stays one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecKernelNodeSetParams(
    executable: Handle,
    node: Handle,
    params: In<KernelParams>,
) -> Code {
    let (kind, argument) = (NodeKind::Kernel, "nodeParams");
    set_in_executable(executable, node, kind, argument, |driver, old| {
        params
            .get(argument)?
            .operation(driver, old.is_cooperative())
    })
}

/// Replaces a kernel launch of an instantiated graph by one in the same context, for later launches
/// of it. A captured cooperative launch stays one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecKernelNodeSetParams_v2(
    executable: Handle,
    node: Handle,
    params: In<KernelParams2>,
) -> Code {
    let (kind, argument) = (NodeKind::Kernel, "nodeParams");
    set_in_executable(executable, node, kind, argument, |driver, old| {
        params
            .get(argument)?
            .operation(driver, old.is_cooperative())
    })
}

/// The operation of a copy in a context.
fn copy(driver: &Driver, params: &In<Copy3D>, context: Handle) -> Result<Operation> {
    driver.context(context)?;
    pitched::operation(driver, &params.get("copyParams")?)
}

/// Adds a copy. Host memory is read or written when the graph is launched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddMemcpyNode(
    node: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    params: In<Copy3D>,
    context: Handle,
) -> Code {
    add(node, graph, (after, count), NodeKind::Memcpy, |driver| {
        copy(driver, &params, context)
    })
}

/// Replaces a copy of an instantiated graph, for later launches of it. The old and the new copy
/// must be of one row, or of rows without gaps, of at least one byte, and between the same types of
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecMemcpyNodeSetParams(
    executable: Handle,
    node: Handle,
    params: In<Copy3D>,
    context: Handle,
) -> Code {
    let (kind, argument) = (NodeKind::Memcpy, "copyParams");
    set_in_executable(executable, node, kind, argument, |driver, old| {
        let new = copy(driver, &params, context)?;
        match old.is_one_row() && new.is_one_row() {
            true => Ok(new),
            false => Err(Error::value(format!(
                "{argument}: the copy of a node and the one that replaces it must be of one row, of at least one byte"
            ))),
        }
    })
}

/// The nodes of a graph, in the order in which they were added: as many as `count` has room for,
/// and their number to `count`. Places that are left over become null. Without a list, the number
/// only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetNodes(
    graph: Handle,
    nodes: Out<Handle>,
    count: InOut<usize>,
) -> Code {
    guard(|| {
        let graph = driver()?.graphs.get(graph)?;
        let found: Vec<Handle> = lock(&graph.nodes).iter().map(|node| node.handle).collect();
        let number = found.len();
        if !nodes.is_given() {
            return count.set("numNodes", number);
        }
        let room = count.get("numNodes")?;
        nodes.set_list("nodes", found.into_iter().chain(iter::repeat(0)).take(room))?;
        count.set("numNodes", room.min(number))
    })
}

/// `CUgraphNodeType` of a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeGetType(node: Handle, kind: Out<u32>) -> Code {
    guard(|| kind.set("type", driver()?.nodes.get(node)?.kind as u32))
}
