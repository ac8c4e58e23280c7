//! Graphs built node by node, and changes of the nodes of an instantiated graph.

use std::{
    collections::{HashMap, HashSet},
    ffi::c_void,
    sync::Arc,
};

use crate::{
    driver::{
        api::{
            graph::MAX_DEPTH,
            graph_edges::{check_in, write_lists},
            launch::{Dimensions, prepare},
            pitched::{self, Copy3D, Fill2D},
        },
        ffi::{Code, Error, Handle, In, InOut, Out, Result, guard},
        state::{Driver, driver},
        streams::{
            Allocations, Executable, Graph, HostAddress, HostFunction, Node, NodeKind, Operation,
        },
    },
    sync::lock,
};

impl Driver {
    /// Adds a node to a graph, which depends on the nodes `after`.
    pub(super) fn add_node(
        &self,
        graph: &Graph,
        kind: NodeKind,
        operation: Operation,
        after: Vec<Handle>,
    ) -> Handle {
        let node = self.nodes.insert(|handle| Node {
            handle,
            kind,
            graph: graph.handle,
            operation: operation.into(),
            after: after.into(),
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
            // In the table, unless the program destroys it at the same time.
            let _ = self.nodes.remove(node.handle);
        }
    }
}

/// Adds a node whose operation `make` prepares.
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
        let after = after.list("dependencies", count)?;
        let mut known = HashSet::new();
        for (at, &first) in after.iter().enumerate() {
            check_in(driver, &graph, first)
                .map_err(|error| error.in_argument(format_args!("dependencies[{at}]")))?;
            if !known.insert(first) {
                return Err(Error::value(format!(
                    "dependency {first:#x} is given twice"
                )));
            }
        }
        let new = driver.add_node(&graph, kind, make(driver)?, after);
        node.set("phGraphNode", new)
    })
}

/// Replaces the operation of a node by the one that `make` prepares in its place.
fn set(
    node: Handle,
    kind: NodeKind,
    make: impl FnOnce(&'static Driver, &Operation) -> Result<Operation>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let node = driver.nodes.get(node)?;
        node.kind.check(kind)?;
        let mut operation = lock(&node.operation);
        *operation = make(driver, &operation)?;
        Ok(())
    })
}

/// An instantiated graph, for a function of one of its nodes: an error if the node is no more in
/// the graph that it was instantiated from.
fn executable_of(driver: &Driver, executable: Handle, node: Handle) -> Result<Arc<Executable>> {
    let executable = driver.executables.get(executable)?;
    driver.nodes.get(node)?;
    Ok(executable)
}

/// Replaces the operation of a node of an instantiated graph by the one that `make` prepares in its
/// place, from `argument`.
fn set_in_executable(
    executable: Handle,
    node: Handle,
    kind: NodeKind,
    argument: &str,
    make: impl FnOnce(&'static Driver, &Operation) -> Result<Operation>,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let executable = executable_of(driver, executable, node)?;
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

/// Replaces a kernel launch of a graph. A captured cooperative launch stays one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphKernelNodeSetParams(
    node: Handle,
    params: In<KernelParams>,
) -> Code {
    set(node, NodeKind::Kernel, |driver, old| {
        params
            .get("nodeParams")?
            .operation(driver, old.is_cooperative())
    })
}

/// Replaces a kernel launch of a graph. A captured cooperative launch stays one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphKernelNodeSetParams_v2(
    node: Handle,
    params: In<KernelParams2>,
) -> Code {
    set(node, NodeKind::Kernel, |driver, old| {
        params
            .get("nodeParams")?
            .operation(driver, old.is_cooperative())
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

/// Replaces a copy of a graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphMemcpyNodeSetParams(node: Handle, params: In<Copy3D>) -> Code {
    set(node, NodeKind::Memcpy, |driver, _| {
        pitched::operation(driver, &params.get("nodeParams")?)
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

/// The operation of a memset in a context.
fn memset(driver: &Driver, params: &In<Fill2D>, context: Handle) -> Result<Operation> {
    driver.context(context)?;
    params.get("memsetParams")?.operation(driver)
}

/// Adds a memset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddMemsetNode(
    node: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    params: In<Fill2D>,
    context: Handle,
) -> Code {
    add(node, graph, (after, count), NodeKind::Memset, |driver| {
        memset(driver, &params, context)
    })
}

/// Replaces a memset of a graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphMemsetNodeSetParams(node: Handle, params: In<Fill2D>) -> Code {
    set(node, NodeKind::Memset, |driver, _| {
        params.get("nodeParams")?.operation(driver)
    })
}

/// Replaces a memset of an instantiated graph, for later launches of it. One of several rows keeps
/// its sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecMemsetNodeSetParams(
    executable: Handle,
    node: Handle,
    params: In<Fill2D>,
    context: Handle,
) -> Code {
    let (kind, argument) = (NodeKind::Memset, "memsetParams");
    set_in_executable(executable, node, kind, argument, |driver, _| {
        memset(driver, &params, context)
    })
}

/// `CUDA_HOST_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct HostParams {
    function: Option<HostFunction>,
    data: *mut c_void,
}

impl HostParams {
    fn operation(self) -> Result<Operation> {
        let function = self.function.ok_or_else(|| Error::value("fn is null"))?;
        Ok(Operation::Host {
            function,
            data: HostAddress(self.data),
        })
    }
}

/// Adds a call of a function of the program, which must not call the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddHostNode(
    node: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    params: In<HostParams>,
) -> Code {
    add(node, graph, (after, count), NodeKind::Host, |_| {
        params.get("nodeParams")?.operation()
    })
}

/// Replaces a call of a graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphHostNodeSetParams(node: Handle, params: In<HostParams>) -> Code {
    set(node, NodeKind::Host, |_, _| {
        params.get("nodeParams")?.operation()
    })
}

/// Replaces a call of an instantiated graph, for later launches of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecHostNodeSetParams(
    executable: Handle,
    node: Handle,
    params: In<HostParams>,
) -> Code {
    let (kind, argument) = (NodeKind::Host, "nodeParams");
    set_in_executable(executable, node, kind, argument, |_, _| {
        params.get(argument)?.operation()
    })
}

/// Adds a node that does nothing, to join dependencies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddEmptyNode(
    node: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
) -> Code {
    add(node, graph, (after, count), NodeKind::Empty, |_| {
        Ok(Operation::nothing())
    })
}

/// Adds a copy of another graph, as it is now. Memory that was allocated in its capture is an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddChildGraphNode(
    node: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    child: Handle,
) -> Code {
    add(node, graph, (after, count), NodeKind::Graph, |driver| {
        let child = driver.graphs.get(child)?;
        child.check_without_memory("be a child")?;
        let child = child.nested()?;
        if child.depth >= MAX_DEPTH {
            return Err(Error::unsupported("deeper nesting of graphs than 64"));
        }
        Ok(Operation::Graph(child.into()))
    })
}

/// Replaces the operations of a child graph of an instantiated graph, for later launches of it.
/// `child` must have the same nodes and edges as the graph that was added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecChildGraphNodeSetParams(
    executable: Handle,
    node: Handle,
    child: Handle,
) -> Code {
    let (kind, argument) = (NodeKind::Graph, "childGraph");
    set_in_executable(executable, node, kind, argument, |driver, _| {
        let child = driver.graphs.get(child)?.nested()?;
        Ok(Operation::Graph(child.into()))
    })
}

/// Makes later launches of an instantiated graph run a kernel, copy or memset, or skip it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeSetEnabled(
    executable: Handle,
    node: Handle,
    enabled: u32,
) -> Code {
    guard(|| {
        let executable = executable_of(driver()?, executable, node)?;
        executable.set_enabled(node, enabled != 0)
    })
}

/// Queries whether launches of an instantiated graph run a kernel, copy or memset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeGetEnabled(
    executable: Handle,
    node: Handle,
    enabled: Out<u32>,
) -> Code {
    guard(|| {
        let executable = executable_of(driver()?, executable, node)?;
        enabled.set("isEnabled", executable.is_enabled(node)?.into())
    })
}

/// Removes a node, with its edges. Instantiated graphs keep it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroyNode(node: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let node = driver.nodes.get(node)?;
        let graph = driver.graphs.get(node.graph)?;
        graph.check_without_memory("lose a node")?;
        driver.nodes.remove(node.handle)?;
        let mut nodes = lock(&graph.nodes);
        nodes.retain(|other| other.handle != node.handle);
        for other in nodes.iter() {
            other.run_without(node.handle);
        }
        Ok(())
    })
}

/// Copies a graph. One that has allocated memory in its capture is an error, as in CUDA.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphClone(clone: Out<Handle>, graph: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        clone.check("phGraphClone")?;
        let graph = driver.graphs.get(graph)?;
        graph.check_without_memory("be cloned")?;
        let references = graph.references.clone();
        let new = driver.graphs.insert(|handle| Graph {
            references,
            ..Graph::new(handle, graph.context, Allocations::new(&driver.arena))
        });
        // In the order of addition, in which an update pairs nodes.
        let nodes = lock(&graph.nodes).clone();
        let copies = nodes.iter().map(|node| {
            let operation = lock(&node.operation).clone();
            driver.add_node(&new, node.kind, operation, Vec::new())
        });
        let handles = nodes.iter().map(|node| node.handle);
        let renamed: HashMap<Handle, Handle> = handles.zip(copies).collect();
        for (node, copy) in nodes.iter().zip(lock(&new.nodes).iter()) {
            let after = lock(&node.after);
            let after = after.iter().filter_map(|first| renamed.get(first));
            *lock(&copy.after) = after.copied().collect();
        }
        clone.set("phGraphClone", new.handle)
    })
}

/// The nodes of a graph, in the order in which they were added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetNodes(
    graph: Handle,
    nodes: Out<Handle>,
    count: InOut<usize>,
) -> Code {
    guard(|| {
        let graph = driver()?.graphs.get(graph)?;
        let found = lock(&graph.nodes).iter().map(|node| node.handle).collect();
        write_lists([("nodes", nodes)], ("numNodes", count), [found]).map(drop)
    })
}

/// The nodes of a graph that depend on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetRootNodes(
    graph: Handle,
    nodes: Out<Handle>,
    count: InOut<usize>,
) -> Code {
    guard(|| {
        let graph = driver()?.graphs.get(graph)?;
        let nodes_of = lock(&graph.nodes);
        let roots = nodes_of.iter().filter(|node| lock(&node.after).is_empty());
        let found = roots.map(|node| node.handle).collect();
        write_lists([("rootNodes", nodes)], ("numRootNodes", count), [found]).map(drop)
    })
}

/// `CUgraphNodeType` of a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeGetType(node: Handle, kind: Out<u32>) -> Code {
    guard(|| kind.set("type", driver()?.nodes.get(node)?.kind as u32))
}
