//! Graphs built node by node, through CUDA's own calls.

mod replaced;
mod rig;

use std::{ffi::CString, ptr};

use crate::common::{Outcome, expect_error, own_context};
use cudarc::driver::sys::{self, CUresult};
use rig::Rig;

#[test]
fn nodes_run_after_those_they_depend_on() -> Outcome {
    let rig = Rig::new()?;
    let (a, b, c) = (
        rig.slice(&[1.0])?,
        rig.slice(&[10.0])?,
        rig.slice(&[100.0])?,
    );
    let first = rig.add_axpy(&[], &b, &a, 2.0)?; // b += 2 a
    rig.add_axpy(&[first], &c, &b, 1.0)?; // c += b
    let executable = rig.instantiate()?;
    // What is added later is no part of it.
    rig.add_axpy(&[first], &c, &b, 1.0)?;
    for (b_then, c_then) in [(12.0, 112.0), (14.0, 126.0)] {
        rig.launch(executable)?;
        assert_eq!(
            (rig.values(&b)?, rig.values(&c)?),
            (vec![b_then], vec![c_then])
        );
    }
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
    let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
    // SAFETY: places for results, as many as said; without a number, it is refused.
    unsafe {
        sys::cuGraphGetNodes(graph.cu_graph(), nodes.as_mut_ptr(), &mut count).result()?;
        assert_eq!((count, &nodes[2..]), (2, &[ptr::null_mut(); 3][..]));
        sys::cuGraphNodeGetType(nodes[1], &mut kind).result()?;
        let (graph, none) = (graph.cu_graph(), ptr::null_mut());
        let refused = sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), none);
        let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.contains("numNodes is null"), "{text}");
    }
    assert_eq!(kind, sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET);
    Ok(())
}

#[test]
fn an_instantiation_says_whether_it_succeeded() -> Outcome {
    let rig = Rig::new()?;
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
    assert_eq!(instantiate(ptr::null_mut(), 0), (400, 1));
    assert_eq!(instantiate(rig.graph, 1 << 20), (1, 1));
    assert_eq!(instantiate(rig.graph, 1 | 2 | 8), (0, 0));
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
    let known = rig.add_axpy(&[], &x, &x, 1.0)?;
    let other = rig.with_new_graph()?.add_axpy(&[], &x, &x, 1.0)?;
    for (after, code, said) in [
        // A node of another graph, none, and one that is given twice.
        (
            vec![other],
            CUresult::CUDA_ERROR_INVALID_VALUE,
            "dependencies[0]",
        ),
        (
            vec![known, ptr::null_mut()],
            CUresult::CUDA_ERROR_INVALID_HANDLE,
            "dependencies[1]",
        ),
        (
            vec![known, known],
            CUresult::CUDA_ERROR_INVALID_VALUE,
            "twice",
        ),
    ] {
        let text = expect_error(rig.add_axpy(&after, &x, &x, 1.0), code);
        assert!(text.contains(said), "{text}");
    }
    let mut node = ptr::null_mut();
    // SAFETY: places for results; what is wrong is refused.
    unsafe {
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
    assert_eq!(count, 1);
    Ok(())
}
