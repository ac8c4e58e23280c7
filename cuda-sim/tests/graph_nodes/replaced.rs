//! Nodes that are replaced one by one, in a graph and in an instantiated graph.

use std::{
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use cudarc::driver::sys::{self, CUresult};

use super::rig::Rig;
use crate::common::{Outcome, expect_error};

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
