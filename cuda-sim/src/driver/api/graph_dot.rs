//! Graphs as text for Graphviz.

use std::fs;

use crate::{
    driver::{
        ffi::{Code, Handle, Status, Text, guard},
        state::driver,
        streams::{Graph, Operation},
    },
    sync::lock,
};

/// Writes a graph to a file in the language of Graphviz: its nodes, with the names of kernels and
/// the sizes of their grids and blocks, and its edges. Flags, which ask CUDA for more, have no
/// effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDebugDotPrint(graph: Handle, path: Text, _flags: u32) -> Code {
    guard(|| {
        let graph = driver()?.graphs.get(graph)?;
        let path = path.get("path")?;
        fs::write(&path, dot(&graph)).map_err(|error| {
            Status::OperatingSystem.error(format!("{path} cannot be written: {error}"))
        })
    })
}

fn dot(graph: &Graph) -> String {
    let mut text = "digraph {\n".to_owned();
    for (number, node) in lock(&graph.nodes).iter().enumerate() {
        let mut label = format!("{number}: {:?}", node.kind);
        if let Operation::Launch(launch) = &*lock(&node.operation) {
            label += &format!(
                "\\n{}\\ngrid {:?}, block {:?}",
                launch.kernel.name, launch.grid, launch.block
            );
        }
        text += &format!("  \"{:#x}\" [label=\"{label}\"];\n", node.handle);
        for first in lock(&node.after).iter() {
            text += &format!("  \"{first:#x}\" -> \"{:#x}\";\n", node.handle);
        }
    }
    text + "}\n"
}
