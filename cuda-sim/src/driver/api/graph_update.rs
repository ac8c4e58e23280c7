//! Update of an instantiated graph from another graph.

use crate::driver::{
    ffi::{Code, Handle, Out, Result, Status, guard},
    state::driver,
};

/// `CU_GRAPH_EXEC_UPDATE_SUCCESS`.
const SUCCESS: u32 = 0;

/// `CU_GRAPH_EXEC_UPDATE_ERROR`: an argument is invalid.
const ERROR: u32 = 1;

/// `CUgraphExecUpdateResultInfo`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UpdateInfo {
    /// `CUgraphExecUpdateResult`.
    result: u32,
    /// The node of the new graph that differs; null if it is no single one.
    node: Handle,
    /// The dependency of that node that differs; null if none does.
    dependency: Handle,
}

fn update(executable: Handle, graph: Handle, info: &mut UpdateInfo) -> Result {
    let driver = driver()?;
    let executable = driver.executables.get(executable)?;
    let mismatch = executable.update(&*driver.graphs.get(graph)?)?;
    let Some(mismatch) = mismatch else {
        info.result = SUCCESS;
        return Ok(());
    };
    *info = UpdateInfo {
        result: mismatch.refusal as u32,
        node: mismatch.node,
        dependency: mismatch.dependency,
    };
    let text = format!("the update is refused: {}", mismatch.text);
    Err(Status::GraphExecUpdateFailure.error(text))
}

/// [`update`], and `tell` of its outcome, success or not.
fn update_and_tell(
    executable: Handle,
    graph: Handle,
    tell: impl FnOnce(UpdateInfo) -> Result,
) -> Result {
    let mut info = UpdateInfo {
        result: ERROR,
        node: 0,
        dependency: 0,
    };
    let updated = update(executable, graph, &mut info);
    tell(info)?;
    updated
}

/// Replaces the operations of an instantiated graph by those of a graph with the same nodes and
/// edges, for later launches, or says what differs. Memory of copies and memsets may be of another
/// context, which CUDA refuses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecUpdate_v2(
    executable: Handle,
    graph: Handle,
    info: Out<UpdateInfo>,
) -> Code {
    guard(|| {
        info.check("resultInfo")?;
        update_and_tell(executable, graph, |found| info.set("resultInfo", found))
    })
}

/// Replaces the operations of an instantiated graph, as [`cuGraphExecUpdate_v2`] does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecUpdate(
    executable: Handle,
    graph: Handle,
    node: Out<Handle>,
    result: Out<u32>,
) -> Code {
    guard(|| {
        node.check("hErrorNode_out")?;
        result.check("updateResult_out")?;
        update_and_tell(executable, graph, |found| {
            node.set("hErrorNode_out", found.node)?;
            result.set("updateResult_out", found.result)
        })
    })
}
