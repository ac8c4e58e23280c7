//! Updates of an instantiated graph from another graph.

use std::{ffi::c_void, mem, ptr};

use cudarc::driver::{
    CudaSlice, result,
    sys::{
        self, CUgraph, CUgraphExec, CUgraphExecUpdateResult, CUgraphExecUpdateResult::*,
        CUgraphNode, CUresult,
    },
};

use super::rig::{Result, Rig};
use crate::common::{Outcome, expect_error};

const REFUSED: CUresult = CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
const NULL: CUgraphNode = ptr::null_mut();

/// The code of an update, its result, the node that it blames and that node's dependency.
type Update = (
    Result<()>,
    CUgraphExecUpdateResult,
    CUgraphNode,
    CUgraphNode,
);

fn update(executable: CUgraphExec, graph: CUgraph) -> Update {
    // Neither success nor null, so that what is not written is seen.
    let mut info = sys::CUgraphExecUpdateResultInfo {
        result: CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED,
        errorNode: ptr::dangling_mut(),
        errorFromNode: ptr::dangling_mut(),
    };
    // SAFETY: a place for the result; the driver checks handles.
    let code = unsafe { sys::cuGraphExecUpdate_v2(executable, graph, &mut info) };
    (
        code.result(),
        info.result,
        info.errorNode,
        info.errorFromNode,
    )
}

/// Asserts that an update is refused for this reason, and blames this node and its dependency.
#[track_caller]
fn expect_refused(
    update: Update,
    result: CUgraphExecUpdateResult,
    blamed: CUgraphNode,
    dependency: CUgraphNode,
) -> String {
    let (code, found, node, from) = update;
    assert_eq!((found, node, from), (result, blamed, dependency));
    expect_error(code, REFUSED)
}

/// A memset of rows of `width` zeros, `pitch` bytes apart, on `y`.
fn zeros(rig: &Rig, y: &CudaSlice<f32>, width: usize, rows: (usize, usize)) -> Memset {
    let (height, pitch) = rows;
    Memset {
        dst: rig.addr(y),
        pitch,
        value: 0,
        elementSize: 4,
        width,
        height,
    }
}

type Memset = sys::CUDA_MEMSET_NODE_PARAMS;

#[test]
fn an_updated_graph_does_what_the_new_graph_does() -> Outcome {
    let old = Rig::new()?;
    let (x, y) = (old.slice(&[1.0, 2.0])?, old.slice(&[7.0, 7.0])?);
    // y = 0; y += x
    let fill = old.add_memset(&[], &zeros(&old, &y, 2, (1, 0)))?;
    let kernel = old.add_axpy(&[fill], &y, &x, 1.0)?;
    let executable = old.instantiate()?;
    // The first element of y = 0; y += 10 x: with nodes that were added in another order.
    let new = old.with_new_graph()?;
    let new_kernel = new.add_axpy(&[], &y, &x, 10.0)?;
    let new_fill = new.add_memset(&[], &zeros(&new, &y, 1, (1, 0)))?;
    // SAFETY: lists of one handle.
    unsafe { sys::cuGraphAddDependencies(new.graph, &new_fill, &new_kernel, 1) }.result()?;
    old.launch(executable)?;
    assert_eq!(old.values(&y)?, [1.0, 2.0]);
    let (code, updated, node, from) = update(executable, new.graph);
    code?;
    assert_eq!(
        (updated, node, from),
        (CU_GRAPH_EXEC_UPDATE_SUCCESS, NULL, NULL)
    );
    // SAFETY: a live graph, which is needed no more.
    unsafe { sys::cuGraphDestroy(new.graph) }.result()?;
    old.launch(executable)?;
    assert_eq!(old.values(&y)?, [10.0, 22.0]);
    // Its nodes are still those of the graph that it was instantiated from.
    old.with_axpy(&y, &x, 0.5, |params| {
        // SAFETY: parameters of the same kernel.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(executable, kernel, params) }
    })?;
    old.launch(executable)?;
    assert_eq!(old.values(&y)?, [0.5, 23.0]);
    // That graph is as it was.
    old.launch(old.instantiate()?)?;
    assert_eq!(old.values(&y)?, [1.0, 2.0]);
    Ok(())
}

#[test]
fn a_captured_graph_updates_the_graph_of_an_earlier_capture() -> Outcome {
    let rig = Rig::new()?;
    let stream = rig.context.new_stream()?;
    let mut y = rig.slice(&[0.0; 3])?;
    let mut capture = |values: &[f32]| {
        stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
        stream.memset_zeros(&mut y)?;
        stream.memcpy_htod(values, &mut y)?;
        stream.end_capture(sys::CUgraphInstantiate_flags(0))
    };
    let (first_values, values) = (vec![1.0], vec![2.0, 3.0]);
    let first = capture(&first_values)?.ok_or("no graph")?;
    let second = capture(&values)?.ok_or("no graph")?;
    update(first.cu_graph_exec(), second.cu_graph()).0?;
    first.launch()?;
    assert_eq!(stream.clone_dtoh(&y)?, [2.0, 3.0, 0.0]);
    Ok(())
}

/// A graph of nodes that do nothing; `after` are the nodes before each, by number.
fn empties(rig: &Rig, after: &[&[usize]]) -> Result<(Rig, Vec<CUgraphNode>)> {
    let rig = rig.with_new_graph()?;
    let mut nodes = Vec::new();
    for after in after {
        let after: Vec<_> = after.iter().map(|&first| nodes[first]).collect();
        nodes.push(rig.add_empty(&after)?);
    }
    Ok((rig, nodes))
}

#[test]
fn another_topology_is_refused_with_the_node_that_differs() -> Outcome {
    type Edges = &'static [&'static [usize]];
    let rig = Rig::new()?;
    let square: Edges = &[&[], &[], &[0, 1], &[0, 1], &[2, 3]];
    // The node that is blamed, and its dependency.
    let cases: &[(Edges, Edges, Option<usize>, Option<usize>)] = &[
        (&[&[], &[0]], &[&[]], None, None),
        (&[&[]], &[&[], &[0]], None, None),
        // The exit, a node on which no other depends, that has no pair.
        (&[&[], &[0], &[1]], &[&[], &[0], &[0]], Some(2), None),
        (&[&[], &[0], &[0]], &[&[], &[0], &[1]], Some(1), None),
        // A node with more dependencies than its pair, also where that comes first.
        (&[&[], &[], &[1]], &[&[], &[], &[0, 1]], Some(2), None),
        // Dependencies in another order.
        (
            square,
            &[&[], &[], &[0, 1], &[1, 0], &[2, 3]],
            Some(2),
            Some(0),
        ),
    ];
    for (number, &(old, new, blamed, dependency)) in cases.iter().enumerate() {
        let (old, _) = empties(&rig, old)?;
        let executable = old.instantiate()?;
        let (new, nodes) = empties(&rig, new)?;
        let node = |number: Option<usize>| number.map_or(NULL, |number| nodes[number]);
        let (code, result, found, from) = update(executable, new.graph);
        assert_eq!(
            (result, found, from),
            (
                CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
                node(blamed),
                node(dependency)
            ),
            "case {number}"
        );
        expect_error(code, REFUSED);
        // It is as it was.
        update(executable, old.graph).0?;
    }
    Ok(())
}

#[test]
fn a_clone_of_a_graph_has_its_topology() -> Outcome {
    let rig = Rig::new()?;
    let y = rig.slice(&[0.0; 4])?;
    // The first node runs last, and on two nodes of different kinds no other depends.
    let last = rig.add_memset(&[], &zeros(&rig, &y, 1, (1, 0)))?;
    rig.add_empty(&[])?;
    let first = rig.add_empty(&[])?;
    let mut clone = ptr::null_mut();
    // SAFETY: lists of one handle, and a place for the result.
    unsafe {
        sys::cuGraphAddDependencies(rig.graph, &first, &last, 1).result()?;
        sys::cuGraphClone(&mut clone, rig.graph).result()?;
    }
    update(rig.instantiate()?, clone).0?;
    Ok(())
}

#[test]
fn exits_pair_in_the_order_in_which_they_were_added() -> Outcome {
    let old = Rig::new()?;
    let y = old.slice(&[0.0; 4])?;
    let first = old.add_empty(&[])?;
    old.add_memset(&[first], &zeros(&old, &y, 1, (1, 0)))?;
    old.add_empty(&[])?;
    // Here the second exit runs before the first.
    let new = old.with_new_graph()?;
    let memset = new.add_memset(&[], &zeros(&new, &y, 1, (1, 0)))?;
    new.add_empty(&[])?;
    let first = new.add_empty(&[])?;
    // SAFETY: lists of one handle.
    unsafe { sys::cuGraphAddDependencies(new.graph, &first, &memset, 1) }.result()?;
    update(old.instantiate()?, new.graph).0?;
    Ok(())
}

#[test]
fn another_kind_of_node_is_refused() -> Outcome {
    let old = Rig::new()?;
    let y = old.slice(&[0.0; 4])?;
    old.add_memset(&[], &zeros(&old, &y, 4, (1, 0)))?;
    let new = old.with_new_graph()?;
    let node = new.add_axpy(&[], &y, &y, 1.0)?;
    let text = expect_refused(
        update(old.instantiate()?, new.graph),
        CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED,
        node,
        NULL,
    );
    assert!(text.contains("Kernel, not Memset"), "{text}");
    Ok(())
}

#[test]
fn rows_of_a_memset_keep_their_sizes() -> Outcome {
    let rig = Rig::new()?;
    let (y, z) = (rig.slice(&[7.0; 8])?, rig.slice(&[7.0; 8])?);
    // Two elements in each of two rows, at the beginning of `y`.
    rig.add_memset(&[], &zeros(&rig, &y, 2, (2, 12)))?;
    let executable = rig.instantiate()?;
    let changes: [fn(&mut Memset); 4] = [
        |fill| fill.width = 1,
        |fill| fill.height = 3,
        |fill| fill.pitch = 16,
        |fill| fill.elementSize = 2,
    ];
    for change in changes {
        let new = rig.with_new_graph()?;
        let mut fill = zeros(&rig, &y, 2, (2, 8 + 4));
        change(&mut fill);
        let node = new.add_memset(&[], &fill)?;
        let refused = update(executable, new.graph);
        let changed = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        expect_refused(refused, changed, node, NULL);
    }
    let new = rig.with_new_graph()?;
    let mut fill = zeros(&rig, &z, 2, (2, 12));
    fill.value = 1.0_f32.to_bits();
    new.add_memset(&[], &fill)?;
    update(executable, new.graph).0?;
    rig.launch(executable)?;
    assert_eq!(rig.values(&y)?, [7.0; 8]);
    assert_eq!(rig.values(&z)?, [1.0, 1.0, 7.0, 1.0, 1.0, 7.0, 7.0, 7.0]);
    Ok(())
}

#[test]
fn a_copy_keeps_its_types_of_memory() -> Outcome {
    let old = Rig::new()?;
    let (x, y) = (old.slice(&[1.0])?, old.slice(&[2.0])?);
    old.add_copy(&old.copy(old.addr(&y), old.addr(&x), 4))?;
    let executable = old.instantiate()?;
    let host = [3.0_f32];
    let new = old.with_new_graph()?;
    let mut copy = new.copy(new.addr(&y), 0, 4);
    copy.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.srcHost = host.as_ptr().cast();
    let node = new.add_copy(&copy)?;
    expect_refused(
        update(executable, new.graph),
        CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
        node,
        NULL,
    );
    let back = old.with_new_graph()?;
    back.add_copy(&old.copy(old.addr(&x), old.addr(&y), 4))?;
    update(executable, back.graph).0?;
    old.launch(executable)?;
    assert_eq!((old.values(&x)?, old.values(&y)?), (vec![2.0], vec![2.0]));
    Ok(())
}

#[test]
fn a_kernel_keeps_its_context_and_whether_it_is_cooperative() -> Outcome {
    let old = Rig::new()?;
    let x = old.slice(&[1.0])?;
    old.add_axpy(&[], &x, &x, 1.0)?;
    let executable = old.instantiate()?;

    let stream = old.context.new_stream()?;
    let launch = |cooperative: bool| -> std::result::Result<_, Box<dyn std::error::Error>> {
        let (mut to, mut a, mut n) = (old.addr(&x), 1.0_f32, 1);
        let mut params: [*mut c_void; 4] = [
            (&raw mut to).cast(),
            (&raw mut to).cast(),
            (&raw mut a).cast(),
            (&raw mut n).cast(),
        ];
        let (params, one) = (&mut params, (1, 1, 1));
        stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
        // SAFETY: a live kernel, with its parameters.
        unsafe {
            let stream = stream.cu_stream();
            match cooperative {
                true => result::launch_cooperative_kernel(old.axpy, one, one, 0, stream, params),
                false => result::launch_kernel(old.axpy, one, one, 0, stream, params),
            }
        }?;
        Ok(stream
            .end_capture(sys::CUgraphInstantiate_flags(0))?
            .ok_or("no graph")?)
    };
    update(executable, launch(false)?.cu_graph()).0?;
    let cooperative = launch(true)?;
    let (mut node, mut one) = (NULL, 1);
    // SAFETY: a place for one node, and its number.
    unsafe { sys::cuGraphGetNodes(cooperative.cu_graph(), &mut node, &mut one) }.result()?;
    expect_refused(
        update(executable, cooperative.cu_graph()),
        CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED,
        node,
        NULL,
    );

    let other = Rig::new()?;
    let x = other.slice(&[1.0])?;
    let node = other.add_axpy(&[], &x, &x, 1.0)?;
    expect_refused(
        update(executable, other.graph),
        CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE,
        node,
        NULL,
    );
    Ok(())
}

#[test]
fn a_graph_with_memory_of_its_own_is_not_supported() -> Outcome {
    let rig = Rig::new()?;
    let stream = rig.context.new_stream()?;
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    drop(stream.alloc_zeros::<u8>(8)?);
    let own = stream
        .end_capture(sys::CUgraphInstantiate_flags(0))?
        .ok_or("no graph")?;
    for (executable, graph) in [
        (own.cu_graph_exec(), own.cu_graph()),
        (own.cu_graph_exec(), rig.graph),
        (rig.instantiate()?, own.cu_graph()),
    ] {
        expect_refused(
            update(executable, graph),
            CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED,
            NULL,
            NULL,
        );
    }
    Ok(())
}

#[test]
fn child_graphs_are_updated_with_their_parents_and_alone() -> Outcome {
    let parent = Rig::new()?;
    let (x, y) = (parent.slice(&[1.0])?, parent.slice(&[0.0])?);
    let child = |a| {
        let child = parent.with_new_graph()?;
        child.add_axpy(&[], &y, &x, a)?;
        Ok(child.graph)
    };
    let child: &dyn Fn(f32) -> Result<CUgraph> = &child;
    let node = parent.add_child(child(1.0)?)?;
    let executable = parent.instantiate()?;
    parent.launch(executable)?;
    let new = parent.with_new_graph()?;
    new.add_child(child(10.0)?)?;
    update(executable, new.graph).0?;
    parent.launch(executable)?;
    assert_eq!(parent.values(&y)?, [11.0]);
    let set = |node, child| {
        // SAFETY: the driver checks handles.
        unsafe { sys::cuGraphExecChildGraphNodeSetParams(executable, node, child) }.result()
    };
    set(node, child(100.0)?)?;
    parent.launch(executable)?;
    assert_eq!(parent.values(&y)?, [111.0]);

    // A child of another topology is blamed on the node that has it.
    let two = parent.with_new_graph()?;
    two.add_axpy(&[], &y, &x, 1.0)?;
    two.add_axpy(&[], &y, &x, 1.0)?;
    let new = parent.with_new_graph()?;
    let blamed = new.add_child(two.graph)?;
    let text = expect_refused(
        update(executable, new.graph),
        CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
        blamed,
        NULL,
    );
    let refused = "the update is refused: a child graph with 2 nodes, not 1";
    assert!(text.contains(refused), "{text}");
    let refused = set(node, two.graph);
    let text = expect_error(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(
        text.contains("childGraph") && text.contains("2 nodes, not 1"),
        "{text}"
    );
    // A node of another kind, and of another graph.
    let kernel = new.add_axpy(&[], &y, &x, 1.0)?;
    for (executable, node) in [(new.instantiate()?, kernel), (executable, blamed)] {
        // SAFETY: refused.
        let code =
            unsafe { sys::cuGraphExecChildGraphNodeSetParams(executable, node, child(1.0)?) };
        expect_error(code.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    parent.launch(executable)?;
    assert_eq!(parent.values(&y)?, [211.0]);
    Ok(())
}

#[test]
fn bad_arguments_of_an_update_are_errors_of_their_own() -> Outcome {
    let rig = Rig::new()?;
    let executable = rig.instantiate()?;
    for (executable, graph) in [(ptr::null_mut(), rig.graph), (executable, ptr::null_mut())] {
        let (code, result, node, from) = update(executable, graph);
        expect_error(code, CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(
            (result, node, from),
            (CU_GRAPH_EXEC_UPDATE_ERROR, NULL, NULL)
        );
    }
    // SAFETY: refused.
    let code = unsafe { sys::cuGraphExecUpdate_v2(executable, rig.graph, ptr::null_mut()) };
    let text = expect_error(code.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("resultInfo"), "{text}");
    let (a, b) = (rig.add_empty(&[])?, rig.add_empty(&[])?);
    // SAFETY: lists of two handles.
    unsafe { sys::cuGraphAddDependencies(rig.graph, [a, b].as_ptr(), [b, a].as_ptr(), 2) }
        .result()?;
    let (code, result, ..) = update(executable, rig.graph);
    let text = expect_error(code, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("cycle"), "{text}");
    assert_eq!(result, CU_GRAPH_EXEC_UPDATE_ERROR);
    Ok(())
}

#[test]
fn the_version_chooses_the_form_of_the_update() -> Outcome {
    /// `cuGraphExecUpdate` until CUDA 11.
    type First = unsafe extern "C" fn(
        CUgraphExec,
        CUgraph,
        *mut CUgraphNode,
        *mut CUgraphExecUpdateResult,
    ) -> CUresult;
    type Second = unsafe extern "C" fn(
        CUgraphExec,
        CUgraph,
        *mut sys::CUgraphExecUpdateResultInfo,
    ) -> CUresult;
    let old = Rig::new()?;
    let y = old.slice(&[0.0])?;
    old.add_empty(&[])?;
    let executable = old.instantiate()?;
    let new = old.with_new_graph()?;
    let changed = new.add_axpy(&[], &y, &y, 1.0)?;
    let address = |version| {
        let mut address = ptr::null_mut();
        let (name, none) = (c"cuGraphExecUpdate".as_ptr(), ptr::null_mut());
        // SAFETY: a name, and a place for the result.
        unsafe { sys::cuGetProcAddress_v2(name, &mut address, version, 0, none) }
            .result()
            .map(|()| address)
    };
    let (mut node, mut result) = (NULL, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    // SAFETY: the forms of these versions, with places for their results.
    unsafe {
        let first: First = mem::transmute(address(11_080)?);
        let code = first(executable, new.graph, &mut node, &mut result);
        expect_error(code.result(), REFUSED);
        assert_eq!(
            (node, result),
            (changed, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED)
        );
        first(executable, old.graph, &mut node, &mut result).result()?;
        assert_eq!((node, result), (NULL, CU_GRAPH_EXEC_UPDATE_SUCCESS));
        for (node, result) in [
            (ptr::null_mut(), &raw mut result),
            (&raw mut node, ptr::null_mut()),
        ] {
            let code = first(executable, old.graph, node, result);
            expect_error(code.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let second: Second = mem::transmute(address(12_000)?);
        let mut info = mem::zeroed();
        expect_error(second(executable, new.graph, &mut info).result(), REFUSED);
        assert_eq!(info.errorNode, changed);
    }
    Ok(())
}
