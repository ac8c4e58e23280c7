//! Nodes of an instantiated graph that are replaced one by one.

use std::ptr;

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
fn a_kernel_of_an_instantiated_graph_stays_in_its_context() -> Outcome {
    let rig = Rig::new()?;
    let x = rig.slice(&[1.0])?;
    let kernel = rig.add_axpy(&[], &x, &x, 1.0)?;
    let executable = rig.instantiate()?;
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
fn a_node_of_a_destroyed_graph_is_no_node_of_an_executable() -> Outcome {
    let rig = Rig::new()?;
    let (x, y) = (rig.slice(&[1.0])?, rig.slice(&[0.0])?);
    let kernel = rig.add_axpy(&[], &y, &x, 1.0)?;
    let executable = rig.instantiate()?;
    let later = rig.add_axpy(&[], &y, &x, 1.0)?;
    let set = |node| {
        rig.with_axpy(&y, &x, 9.0, |params| {
            // SAFETY: parameters of the same kernel.
            unsafe { sys::cuGraphExecKernelNodeSetParams_v2(executable, node, params) }
        })
    };
    let text = expect_error(set(later), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("when it was instantiated"), "{text}");
    // SAFETY: a live handle.
    unsafe { sys::cuGraphDestroy(rig.graph) }.result()?;
    let text = expect_error(set(kernel), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert!(text.contains("destroyed before"), "{text}");
    rig.launch(executable)?;
    assert_eq!(rig.values(&y)?, [1.0]);
    Ok(())
}
