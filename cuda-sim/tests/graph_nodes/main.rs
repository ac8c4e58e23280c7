//! Graphs built node by node, through CUDA's own calls.

#[path = "../common/mod.rs"]
mod common;
mod edges;
mod nesting;
mod rig;
mod updates;

use std::{
    ffi::{CString, c_void},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use common::{Outcome, expect_error, own_context};
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
fn nodes_of_an_instantiated_graph_can_be_replaced() -> Outcome {
    let rig = Rig::new()?;
    let (x, y, z) = (
        rig.slice(&[1.0, 2.0])?,
        rig.slice(&[0.0, 0.0])?,
        rig.slice(&[5.0, 6.0])?,
    );
    let kernel = rig.add_axpy(&[], &y, &x, 1.0)?;
    let mut copy = ptr::null_mut();
    let context = rig.context.cu_ctx();
    let params = rig.copy(rig.addr(&z), rig.addr(&y), 8);
    // SAFETY: a place for the result, a list of one handle, and parameters.
    unsafe { sys::cuGraphAddMemcpyNode(&mut copy, rig.graph, &kernel, 1, &params, context) }
        .result()?;
    let executable = rig.instantiate()?;
    rig.launch(executable)?;
    assert_eq!(rig.values(&z)?, [1.0, 2.0]);
    rig.with_axpy(&y, &x, 10.0, |params| {
        // SAFETY: parameters of the same kernel.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(executable, kernel, params) }
    })?;
    let shorter = rig.copy(rig.addr(&z), rig.addr(&y), 4);
    // SAFETY: parameters of a copy.
    unsafe { sys::cuGraphExecMemcpyNodeSetParams(executable, copy, &shorter, context) }.result()?;
    rig.launch(executable)?;
    assert_eq!(
        (rig.values(&y)?, rig.values(&z)?),
        (vec![11.0, 22.0], vec![11.0, 2.0])
    );
    // The graph itself is as it was.
    rig.launch(rig.instantiate()?)?;
    assert_eq!(rig.values(&z)?, [12.0, 24.0]);
    // SAFETY: refused: nodes of other kinds, and of no graph.
    unsafe {
        let refused = sys::cuGraphExecMemcpyNodeSetParams(executable, kernel, &shorter, context);
        let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.contains("Kernel"), "{text}");
        let refused =
            sys::cuGraphExecMemcpyNodeSetParams(executable, ptr::null_mut(), &shorter, context);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    Ok(())
}

#[test]
fn a_copy_of_an_instantiated_graph_stays_one_row_between_the_same_memories() -> Outcome {
    let rig = Rig::new()?;
    let (x, y) = (rig.slice(&[1.0; 8])?, rig.slice(&[2.0; 8])?);
    let host = [3.0_f32; 8];
    let context = rig.context.cu_ctx();
    let one_row = rig.copy(rig.addr(&y), rig.addr(&x), 4);
    let mut without_pitch = one_row;
    (without_pitch.srcPitch, without_pitch.dstPitch) = (0, 0);
    let mut rows = one_row;
    (rows.srcPitch, rows.dstPitch, rows.Height) = (8, 8, 2);
    let mut slices = one_row;
    (slices.srcHeight, slices.dstHeight, slices.Depth) = (2, 2, 2);
    let mut upload = one_row;
    upload.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
    upload.srcHost = host.as_ptr().cast();
    let nothing = rig.copy(rig.addr(&y), rig.addr(&x), 0);
    let nodes = [rig.add_copy(&one_row)?, rig.add_copy(&rows)?];
    let executable = rig.instantiate()?;
    let set = |node, copy: &sys::CUDA_MEMCPY3D| {
        // SAFETY: parameters of a copy.
        unsafe { sys::cuGraphExecMemcpyNodeSetParams(executable, node, copy, context) }.result()
    };
    set(nodes[0], &without_pitch)?;
    for (node, copy, reason) in [
        (0, &rows, "one row"),
        (0, &slices, "one row"),
        (0, &nothing, "at least one byte"),
        (1, &one_row, "one row"),
        (0, &upload, "other types of memory"),
    ] {
        let refused = set(nodes[node], copy);
        let text = expect_error(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(
            text.contains("copyParams") && text.contains(reason),
            "{text}"
        );
    }
    rig.launch(executable)?;
    assert_eq!(rig.values(&y)?, [1.0, 2.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
    Ok(())
}

#[test]
fn rows_of_a_memset_and_the_context_of_a_kernel_stay_in_an_instantiated_graph() -> Outcome {
    let rig = Rig::new()?;
    let (x, y) = (rig.slice(&[1.0])?, rig.slice(&[7.0; 8])?);
    let fill = |width, height| sys::CUDA_MEMSET_NODE_PARAMS {
        dst: rig.addr(&y),
        pitch: 16,
        value: 0,
        elementSize: 4,
        width,
        height,
    };
    let context = rig.context.cu_ctx();
    let memset = rig.add_memset(&[], &fill(1, 2))?;
    let kernel = rig.add_axpy(&[memset], &x, &x, 1.0)?;
    let executable = rig.instantiate()?;
    for changed in [fill(2, 2), fill(1, 1)] {
        // SAFETY: parameters of a memset.
        let refused =
            unsafe { sys::cuGraphExecMemsetNodeSetParams(executable, memset, &changed, context) };
        let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.contains("memsetParams"), "{text}");
    }
    // SAFETY: parameters of a memset.
    unsafe { sys::cuGraphExecMemsetNodeSetParams(executable, memset, &fill(1, 2), context) }
        .result()?;
    let other = Rig::new()?;
    let refused = other.with_axpy(
        &other.slice(&[1.0])?,
        &other.slice(&[1.0])?,
        1.0,
        |params| {
            // SAFETY: parameters of the same kernel, of another context.
            unsafe { sys::cuGraphExecKernelNodeSetParams_v2(executable, kernel, params) }
        },
    );
    let text = expect_error(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(
        text.contains("nodeParams") && text.contains("another context"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_destroyed_node_is_no_node_of_an_executable() -> Outcome {
    let rig = Rig::new()?;
    let (x, y) = (rig.slice(&[1.0])?, rig.slice(&[0.0])?);
    let child = rig.with_new_graph()?;
    let destroyed = rig.add_axpy(&[], &y, &x, 1.0)?;
    let kernel = rig.add_axpy(&[], &y, &x, 1.0)?;
    let nested = rig.add_child(child.graph)?;
    let executable = rig.instantiate()?;
    let expect_unknown = |node, nested| {
        let mut enabled = 0;
        let set = rig.with_axpy(&y, &x, 9.0, |params| {
            // SAFETY: parameters of the same kernel.
            unsafe { sys::cuGraphExecKernelNodeSetParams_v2(executable, node, params) }
        });
        // SAFETY: a place for the result; the driver checks handles.
        let codes = unsafe {
            [
                sys::cuGraphNodeSetEnabled(executable, node, 0),
                sys::cuGraphNodeGetEnabled(executable, node, &mut enabled),
                sys::cuGraphExecChildGraphNodeSetParams(executable, nested, child.graph),
            ]
        };
        for refused in [set].into_iter().chain(codes.map(|code| code.result())) {
            let text = expect_error(refused, CUresult::CUDA_ERROR_INVALID_HANDLE);
            assert!(text.contains("destroyed before"), "{text}");
        }
    };
    // SAFETY: live handles.
    unsafe { sys::cuGraphDestroyNode(destroyed) }.result()?;
    expect_unknown(destroyed, destroyed);
    // SAFETY: as above.
    unsafe { sys::cuGraphDestroy(rig.graph) }.result()?;
    expect_unknown(kernel, nested);
    rig.launch(executable)?;
    assert_eq!(rig.values(&y)?, [2.0]);
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
    // SAFETY: places for the results, lists with their lengths, and parameters; `calls` outlives the launches.
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
fn an_instantiated_graph_tells_its_flags() -> Outcome {
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
fn memsets_and_calls_can_be_replaced() -> Outcome {
    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: a counter below, which outlives the launches.
        unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
    }
    let rig = Rig::new()?;
    let y = rig.slice(&[0.0; 4])?;
    let calls = [(); 3].map(|()| AtomicU32::new(0));
    let host = |which: usize| sys::CUDA_HOST_NODE_PARAMS {
        fn_: Some(count),
        userData: (&raw const calls[which]).cast_mut().cast(),
    };
    let fill = |value: f32, width| sys::CUDA_MEMSET_NODE_PARAMS {
        dst: rig.addr(&y),
        pitch: 0,
        value: value.to_bits(),
        elementSize: 4,
        width,
        height: 1,
    };
    let context = rig.context.cu_ctx();
    let [mut memset, mut call] = [ptr::null_mut(); 2];
    let mut seen = Vec::new();
    // SAFETY: places for results, and parameters; `calls` outlives the launches.
    unsafe {
        let (graph, none) = (rig.graph, ptr::null());
        sys::cuGraphAddMemsetNode(&mut memset, graph, none, 0, &fill(1.0, 4), context).result()?;
        sys::cuGraphAddHostNode(&mut call, graph, none, 0, &host(0)).result()?;
        let first = rig.instantiate()?;
        sys::cuGraphMemsetNodeSetParams(memset, &fill(2.0, 3)).result()?;
        sys::cuGraphHostNodeSetParams(call, &host(1)).result()?;
        let second = rig.instantiate()?;
        sys::cuGraphExecMemsetNodeSetParams(second, memset, &fill(3.0, 2), context).result()?;
        sys::cuGraphExecHostNodeSetParams(second, call, &host(2)).result()?;
        let third = rig.instantiate()?;
        for executable in [first, third, second] {
            rig.launch(executable)?;
            seen.push(rig.values(&y)?);
        }
        let refused = sys::cuGraphHostNodeSetParams(memset, &host(0));
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        let refused = sys::cuGraphExecMemsetNodeSetParams(first, call, &fill(0.0, 1), context);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        let refused = sys::cuGraphMemsetNodeSetParams(memset, &fill(0.0, 5));
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    rig.stream.synchronize()?;
    assert_eq!(seen, [[1.0; 4], [2.0, 2.0, 2.0, 1.0], [3.0, 3.0, 2.0, 1.0]]);
    assert_eq!(calls.map(AtomicU32::into_inner), [1; 3]);
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
