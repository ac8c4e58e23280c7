//! Graphs built node by node, through CUDA's own calls.

mod edges;
mod nesting;
mod replaced;
mod rig;
mod updates;

use std::{
    ffi::{CString, c_void},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::common::{Outcome, expect_error, own_context};
use cudarc::driver::sys::{self, CUresult};
use rig::Rig;

#[test]
fn nodes_run_after_those_they_depend_on_whatever_the_order_in_which_they_were_added() -> Outcome {
    let rig = Rig::new()?;
    let (a, b, c) = (
        rig.slice(&[1.0])?,
        rig.slice(&[10.0])?,
        rig.slice(&[100.0])?,
    );
    let last = rig.add_axpy(&[], &c, &b, 1.0)?; // c += b
    let first = rig.add_axpy(&[], &b, &a, 2.0)?; // b += 2 a
    // SAFETY: lists of one handle.
    unsafe { sys::cuGraphAddDependencies(rig.graph, &first, &last, 1) }.result()?;
    let executable = rig.instantiate()?;
    rig.launch(executable)?;
    assert_eq!(
        (rig.values(&b)?, rig.values(&c)?),
        (vec![12.0], vec![112.0])
    );
    rig.launch(executable)?;
    assert_eq!(
        (rig.values(&b)?, rig.values(&c)?),
        (vec![14.0], vec![126.0])
    );
    // The other way round it is a cycle.
    // SAFETY: as above.
    unsafe { sys::cuGraphAddDependencies(rig.graph, &last, &first, 1) }.result()?;
    let text = expect_error(rig.instantiate(), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("cycle"), "{text}");
    // What was instantiated before still runs.
    rig.launch(executable)?;
    Ok(())
}

#[test]
fn memset_host_empty_and_child_nodes_run() -> Outcome {
    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: the counter below, which outlives the launches.
        unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
    }
    let rig = Rig::new()?;
    let (x, y) = (rig.slice(&[1.0; 6])?, rig.slice(&[7.0; 6])?);
    let kernel = rig.add_axpy(&[], &y, &x, 1.0)?;
    let mut parent = ptr::null_mut();
    let calls = AtomicU32::new(0);
    // Rows of one element, two elements apart.
    let fill = sys::CUDA_MEMSET_NODE_PARAMS {
        dst: rig.addr(&y),
        pitch: 8,
        value: 0,
        elementSize: 4,
        width: 1,
        height: 3,
    };
    let host = sys::CUDA_HOST_NODE_PARAMS {
        fn_: Some(count),
        userData: (&raw const calls).cast_mut().cast(),
    };
    let mut nodes = [ptr::null_mut(); 4];
    // SAFETY: places for the results, lists with their lengths, and parameters; `calls` outlives
    // the launches.
    unsafe {
        sys::cuGraphCreate(&mut parent, 0).result()?;
        sys::cuGraphAddMemsetNode(
            &mut nodes[0],
            parent,
            ptr::null(),
            0,
            &fill,
            rig.context.cu_ctx(),
        )
        .result()?;
        sys::cuGraphAddHostNode(&mut nodes[1], parent, ptr::null(), 0, &host).result()?;
        sys::cuGraphAddEmptyNode(&mut nodes[2], parent, nodes.as_ptr(), 2).result()?;
        sys::cuGraphAddChildGraphNode(&mut nodes[3], parent, &nodes[2], 1, rig.graph).result()?;
        let mut kinds = Vec::new();
        for node in nodes {
            let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
            sys::cuGraphNodeGetType(node, &mut kind).result()?;
            kinds.push(kind as u32);
        }
        assert_eq!(kinds, [2, 3, 5, 4]);
        // The child is a copy: what happens to the graph afterwards does not matter.
        sys::cuGraphDestroyNode(kernel).result()?;
    }
    let (mut count, mut roots) = (0, [ptr::dangling_mut(); 4]);
    // SAFETY: places for the results, as many as said.
    unsafe {
        sys::cuGraphGetNodes(parent, ptr::null_mut(), &mut count).result()?;
        assert_eq!(count, 4);
        sys::cuGraphGetRootNodes(parent, roots.as_mut_ptr(), &mut count).result()?;
        assert_eq!((count, &roots[..2]), (2, &nodes[..2]));
        assert_eq!(roots[2..], [ptr::null_mut(); 2]);
        let mut clone = ptr::null_mut();
        sys::cuGraphClone(&mut clone, parent).result()?;
        sys::cuGraphDestroy(parent).result()?;
        let mut executable = ptr::null_mut();
        sys::cuGraphInstantiateWithFlags(&mut executable, clone, 0).result()?;
        rig.launch(executable)?;
    }
    rig.stream.synchronize()?;
    assert_eq!(rig.values(&y)?, [1.0, 8.0, 1.0, 8.0, 1.0, 8.0]);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let empty = rig.instantiate()?;
    rig.launch(empty)?;
    assert_eq!(rig.values(&y)?, [1.0, 8.0, 1.0, 8.0, 1.0, 8.0]);
    Ok(())
}

#[test]
fn a_disabled_node_is_skipped_until_it_is_enabled() -> Outcome {
    let rig = Rig::new()?;
    let (x, y) = (rig.slice(&[1.0])?, rig.slice(&[0.0])?);
    let first = rig.add_axpy(&[], &y, &x, 1.0)?;
    let second = rig.add_axpy(&[first], &y, &x, 10.0)?;
    let empty = rig.add_empty(&[second])?;
    let executable = rig.instantiate()?;
    let set = |node, enabled| {
        // SAFETY: the driver checks handles.
        unsafe { sys::cuGraphNodeSetEnabled(executable, node, enabled) }.result()
    };
    let get = |node| {
        let mut enabled = 7;
        // SAFETY: a place for the result.
        unsafe { sys::cuGraphNodeGetEnabled(executable, node, &mut enabled) }
            .result()
            .map(|()| enabled)
    };
    set(first, 0)?;
    assert_eq!((get(first)?, get(second)?), (0, 1));
    rig.launch(executable)?;
    assert_eq!(rig.values(&y)?, [10.0]);
    // New parameters and an update leave it disabled.
    rig.with_axpy(&y, &x, 100.0, |params| {
        // SAFETY: parameters of the same kernel.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(executable, first, params) }
    })?;
    rig.launch(executable)?;
    assert_eq!(rig.values(&y)?, [20.0]);
    set(first, 2)?;
    rig.launch(executable)?;
    assert_eq!(rig.values(&y)?, [130.0]);
    set(first, 0)?;
    // SAFETY: zeros are a valid value.
    let mut info = unsafe { std::mem::zeroed() };
    // SAFETY: a place for the result.
    unsafe { sys::cuGraphExecUpdate_v2(executable, rig.graph, &mut info) }.result()?;
    rig.launch(executable)?;
    assert_eq!(rig.values(&y)?, [140.0]);
    // Another instance of the graph runs all nodes.
    rig.launch(rig.instantiate()?)?;
    assert_eq!(rig.values(&y)?, [151.0]);
    for refused in [set(empty, 0), get(empty).map(drop)] {
        expect_error(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    expect_error(set(ptr::null_mut(), 1), CUresult::CUDA_ERROR_INVALID_HANDLE);
    Ok(())
}

#[test]
fn an_instantiated_graph_returns_its_flags() -> Outcome {
    let rig = Rig::new()?;
    // That of an upload (2) is about the instantiation.
    for (flags, told) in [(0, 0), (1 | 8, 1 | 8), (2, 0), (1 | 2 | 8, 1 | 8)] {
        let (mut executable, mut found) = (ptr::null_mut(), 77);
        // SAFETY: places for results.
        unsafe {
            sys::cuGraphInstantiateWithFlags(&mut executable, rig.graph, flags).result()?;
            sys::cuGraphExecGetFlags(executable, &mut found).result()?;
        }
        assert_eq!(found, told);
    }
    Ok(())
}

#[test]
fn a_graph_is_written_for_graphviz() -> Outcome {
    let rig = Rig::new()?;
    let y = rig.slice(&[0.0])?;
    let first = rig.add_axpy(&[], &y, &y, 1.0)?;
    let second = rig.add_empty(&[first])?;
    let file = std::env::temp_dir().join(format!("cuda-sim-{}.dot", std::process::id()));
    let print = |path: &str| {
        let path = CString::new(path).expect("no zero byte");
        // SAFETY: a zero-terminated text.
        unsafe { sys::cuGraphDebugDotPrint(rig.graph, path.as_ptr(), 0) }.result()
    };
    print(file.to_str().ok_or("not UTF-8")?)?;
    let text = std::fs::read_to_string(&file)?;
    std::fs::remove_file(&file)?;
    let (first, second) = (first as u64, second as u64);
    let expected = format!(
        "digraph {{\n  \"{first:#x}\" [label=\"0: Kernel\\naxpy\\ngrid [1, 1, 1], block [32, 1, 1]\"];\n  \
         \"{second:#x}\" [label=\"1: Empty\"];\n  \"{first:#x}\" -> \"{second:#x}\";\n}}\n"
    );
    assert_eq!(text, expected);
    let text = expect_error(
        print("/no/such/file"),
        CUresult::CUDA_ERROR_OPERATING_SYSTEM,
    );
    assert!(text.contains("/no/such/file"), "{text}");
    Ok(())
}

#[test]
fn a_captured_graph_has_nodes_too() -> Outcome {
    let rig = Rig::new()?;
    let stream = rig.context.new_stream()?;
    let mut data = stream.alloc_zeros::<u32>(4)?;
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let (mut status, mut id) = (sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
    // SAFETY: places for results.
    unsafe {
        sys::cuStreamGetCaptureInfo_v2(
            stream.cu_stream(),
            &mut status,
            &mut id,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        )
    }
    .result()?;
    assert_eq!(
        status,
        sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
    );
    assert_ne!(id, 0);
    stream.memset_zeros(&mut data)?;
    stream.memset_zeros(&mut data)?;
    let graph = stream
        .end_capture(sys::CUgraphInstantiate_flags(0))?
        .ok_or("no graph")?;
    let (mut count, mut nodes) = (5, [ptr::dangling_mut(); 5]);
    let (mut before, mut number) = ([ptr::null_mut(); 1], 1);
    // SAFETY: places for results, as many as said.
    unsafe {
        sys::cuGraphGetNodes(graph.cu_graph(), nodes.as_mut_ptr(), &mut count).result()?;
        assert_eq!((count, &nodes[2..]), (2, &[ptr::null_mut(); 3][..]));
        sys::cuGraphNodeGetDependencies(nodes[1], before.as_mut_ptr(), &mut number).result()?;
    }
    assert_eq!((number, before[0]), (1, nodes[0]));
    Ok(())
}

#[test]
fn an_edge_is_added_once() -> Outcome {
    let rig = Rig::new()?;
    let x = rig.slice(&[1.0])?;
    let [a, b, c] = [(); 3].map(|()| rig.add_axpy(&[], &x, &x, 1.0));
    let (a, b, c) = (a?, b?, c?);
    let twice = rig.add_axpy(&[a, b, a], &x, &x, 1.0);
    let text = expect_error(twice.map(drop), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("twice"), "{text}");
    let add = |from: &[sys::CUgraphNode], to: &[sys::CUgraphNode]| {
        // SAFETY: lists of the same length.
        unsafe {
            let (graph, count) = (rig.graph, from.len());
            sys::cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), count)
        }
        .result()
    };
    let edges = |node| {
        let mut count = 0;
        // SAFETY: a live node, and a place for the result.
        unsafe { sys::cuGraphNodeGetDependencies(node, ptr::null_mut(), &mut count) }
            .result()
            .map(|()| count)
    };
    // An error leaves the graph as it was.
    for (from, to) in [([a, a, a], [b, c, b]), ([a, b, c], [b, b, c])] {
        expect_error(add(&from, &to), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!([edges(a)?, edges(b)?, edges(c)?], [0; 3]);
    }
    add(&[a, a, b], &[b, c, c])?;
    expect_error(add(&[a], &[c]), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!([edges(a)?, edges(b)?, edges(c)?], [0, 1, 2]);
    // A cycle is told apart from other errors.
    add(&[c], &[a])?;
    let mut executable = ptr::null_mut();
    let mut instantiate = |graph, flags| {
        // SAFETY: zeros are a valid value.
        let mut params: sys::CUDA_GRAPH_INSTANTIATE_PARAMS = unsafe { std::mem::zeroed() };
        params.flags = flags;
        // SAFETY: a place for the result, and parameters.
        let code =
            unsafe { sys::cuGraphInstantiateWithParams(&mut executable, graph, &mut params) };
        (code as u32, params.result_out as u32)
    };
    assert_eq!(instantiate(rig.graph, 0), (1, 2));
    assert_eq!(instantiate(ptr::null_mut(), 0), (400, 1));
    // SAFETY: a live node.
    unsafe { sys::cuGraphDestroyNode(c) }.result()?;
    assert_eq!(instantiate(rig.graph, 1 << 20), (1, 1));
    assert_eq!(instantiate(rig.graph, 0), (0, 0));
    rig.launch(executable)?;
    Ok(())
}

#[test]
fn the_kernel_of_a_library_is_a_node_of_the_current_context() -> Outcome {
    let rig = Rig::new()?;
    let (x, y) = (rig.slice(&[1.0])?, rig.slice(&[5.0])?);
    let ptx = CString::new(include_str!("../../ptx/driver.ptx"))?;
    let (mut library, mut kernel) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: a zero-terminated text, places for results, no options.
    unsafe {
        let (code, none) = (ptx.as_ptr().cast(), ptr::null_mut());
        let values = ptr::null_mut();
        sys::cuLibraryLoadData(
            &mut library,
            code,
            none,
            values,
            0,
            ptr::null_mut(),
            values,
            0,
        )
        .result()?;
        sys::cuLibraryGetKernel(&mut kernel, library, c"axpy".as_ptr()).result()?;
    }
    let own = rig.context.cu_ctx();
    let other = own_context()?;
    rig.context.bind_to_thread()?;
    let mut node = ptr::null_mut();
    let mut add = |context| {
        rig.with_axpy(&y, &x, 1.0, |params| {
            // SAFETY: parameters, and a place for the result.
            unsafe {
                let mut params = *params;
                (params.func, params.kern, params.ctx) = (ptr::null_mut(), kernel, context);
                sys::cuGraphAddKernelNode_v2(&mut node, rig.graph, ptr::null(), 0, &params)
            }
        })
    };
    add(ptr::null_mut())?;
    add(own)?;
    let text = expect_error(add(other.cu_ctx()), CUresult::CUDA_ERROR_NOT_SUPPORTED);
    assert!(text.contains("context"), "{text}");
    rig.launch(rig.instantiate()?)?;
    assert_eq!(rig.values(&y)?, [7.0]);
    Ok(())
}

#[test]
fn bad_nodes_are_refused_when_they_are_added() -> Outcome {
    let rig = Rig::new()?;
    let x = rig.slice(&[1.0, 2.0])?;
    let context = rig.context.cu_ctx();
    let mut node = ptr::null_mut();
    let mut other = ptr::null_mut();
    // SAFETY: places for results; what is wrong is refused.
    unsafe {
        sys::cuGraphCreate(&mut other, 0).result()?;
        sys::cuGraphAddEmptyNode(&mut node, other, ptr::null(), 0).result()?;
        // A node of another graph.
        let refused = rig.add_axpy(&[node], &x, &x, 1.0);
        let text = expect_error(refused.map(drop), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.contains("dependencies[0]"), "{text}");
        // A copy past the end.
        let copy = rig.copy(rig.addr(&x), rig.addr(&x), 9);
        let refused =
            sys::cuGraphAddMemcpyNode(&mut node, rig.graph, ptr::null(), 0, &copy, context);
        let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.contains("1 bytes past the end"), "{text}");
        // A kernel that is none.
        let mut params: sys::CUDA_KERNEL_NODE_PARAMS_v2 = std::mem::zeroed();
        let refused = sys::cuGraphAddKernelNode_v2(&mut node, rig.graph, ptr::null(), 0, &params);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_HANDLE);
        // A grid of no blocks.
        params.func = rig.axpy;
        let refused = sys::cuGraphAddKernelNode_v2(&mut node, rig.graph, ptr::null(), 0, &params);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        // No parameters at all.
        let refused =
            sys::cuGraphAddKernelNode_v2(&mut node, rig.graph, ptr::null(), 0, ptr::null());
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut count = 0;
    // SAFETY: a place for the result.
    unsafe { sys::cuGraphGetNodes(rig.graph, ptr::null_mut(), &mut count) }.result()?;
    assert_eq!(count, 0);
    Ok(())
}
