//! Graphs within graphs.

use cudarc::driver::sys::{self, CUresult};

use super::rig::Rig;
use crate::common::{Outcome, expect_error};

#[test]
fn a_graph_of_too_many_nodes_is_refused() -> Outcome {
    let mut rig = Rig::new()?;
    rig.add_empty(&[])?;
    // Each graph has the one before twice: 3 · 2ⁿ − 2 nodes.
    for _ in 0..20 {
        let twice = rig.with_new_graph()?;
        for _ in 0..2 {
            twice.add_child(rig.graph)?;
        }
        rig = twice;
    }
    // The largest one can be updated too.
    let executable = rig.instantiate()?;
    // SAFETY: zeros are a valid value.
    let mut info: sys::CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
    // SAFETY: a place for the result.
    unsafe { sys::cuGraphExecUpdate_v2(executable, rig.graph, &mut info) }.result()?;
    let too_many = rig.with_new_graph()?;
    for _ in 0..2 {
        too_many.add_child(rig.graph)?;
    }
    let outer = rig.with_new_graph()?;
    let mut executable = std::ptr::null_mut();
    // SAFETY: a place for the result.
    let instantiated =
        unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, too_many.graph, 0) };
    for refused in [
        instantiated.result(),
        outer.add_child(too_many.graph).map(drop),
    ] {
        let text = expect_error(refused, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        assert!(text.contains("6291454 nodes"), "{text}");
    }
    Ok(())
}
