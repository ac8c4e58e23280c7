//! Edges of graphs.

use std::ptr;

use cudarc::driver::sys::{self, CUgraphEdgeData, CUgraphNode, CUresult};

use super::rig::{Result, Rig};
use crate::common::{Outcome, expect_error};

const NULL: CUgraphNode = ptr::null_mut();

/// Data that is no edge's.
const OTHER: CUgraphEdgeData = CUgraphEdgeData {
    from_port: 1,
    to_port: 0,
    type_: 1,
    reserved: [3; 5],
};

/// The nodes on which a node depends, and those that depend on it.
fn neighbours(node: CUgraphNode) -> Result<[Vec<CUgraphNode>; 2]> {
    let mut lists = [[ptr::dangling_mut(); 4]; 2];
    let mut counts = [4; 2];
    // SAFETY: lists with room for four nodes.
    unsafe {
        let [before, after] = &mut lists;
        sys::cuGraphNodeGetDependencies(node, before.as_mut_ptr(), &mut counts[0]).result()?;
        sys::cuGraphNodeGetDependentNodes(node, after.as_mut_ptr(), &mut counts[1]).result()?;
    }
    let lists = [0, 1].map(|list| {
        let (found, left_over) = lists[list].split_at(counts[list]);
        assert!(left_over.iter().all(|node| node.is_null()));
        found.to_vec()
    });
    Ok(lists)
}

#[test]
fn edges_are_listed_and_removed() -> Outcome {
    let rig = Rig::new()?;
    let c = rig.add_empty(&[])?;
    let a = rig.add_empty(&[])?;
    let b = rig.add_empty(&[a])?;
    // SAFETY: lists of two handles.
    unsafe { sys::cuGraphAddDependencies(rig.graph, [b, a].as_ptr(), [c, c].as_ptr(), 2) }
        .result()?;
    assert_eq!(neighbours(c)?, [vec![b, a], vec![]]);
    assert_eq!(neighbours(a)?, [vec![], vec![c, b]]);

    let edges = |room: usize| {
        let (mut from, mut to) = ([ptr::dangling_mut(); 4], [ptr::dangling_mut(); 4]);
        let mut count = room;
        // SAFETY: lists with that room.
        unsafe {
            sys::cuGraphGetEdges(rig.graph, from.as_mut_ptr(), to.as_mut_ptr(), &mut count)
                .result()?;
        }
        let edges: Vec<_> = from.into_iter().zip(to).collect();
        // What is left over of the room becomes null; what is behind it stays.
        assert!(edges[count..room].iter().all(|edge| *edge == (NULL, NULL)));
        let unset = (ptr::dangling_mut(), ptr::dangling_mut());
        assert!(edges[room..].iter().all(|edge| *edge == unset));
        Ok((count, edges[..count].to_vec()))
    };
    let edges: &dyn Fn(usize) -> Result<(usize, Vec<_>)> = &edges;
    let all = [(b, c), (a, c), (a, b)];
    assert_eq!(edges(4)?, (3, all.to_vec()));
    assert_eq!(edges(2)?, (2, all[..2].to_vec()));
    let mut count = 0;
    let null = ptr::null_mut();
    // SAFETY: a place for the number; what is wrong is refused.
    unsafe {
        sys::cuGraphGetEdges(rig.graph, null, null, &mut count).result()?;
        assert_eq!(count, 3);
        let mut one = ptr::null_mut();
        let refused = sys::cuGraphGetEdges(rig.graph, &mut one, null, &mut count);
        expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let remove = |from: [CUgraphNode; 2], to: [CUgraphNode; 2]| {
        // SAFETY: lists of two handles.
        unsafe { sys::cuGraphRemoveDependencies(rig.graph, from.as_ptr(), to.as_ptr(), 2) }.result()
    };
    // None is removed if one does not exist.
    let text = expect_error(remove([a, c], [b, a]), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("does not exist"), "{text}");
    let text = expect_error(remove([a, a], [c, c]), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("twice"), "{text}");
    // The error names the element that is no node.
    let text = expect_error(
        remove([a, a], [c, NULL]),
        CUresult::CUDA_ERROR_INVALID_HANDLE,
    );
    assert!(text.contains("to[1]"), "{text}");
    let text = expect_error(
        remove([NULL, a], [c, c]),
        CUresult::CUDA_ERROR_INVALID_HANDLE,
    );
    assert!(text.contains("from[0]"), "{text}");
    assert_eq!(edges(4)?, (3, all.to_vec()));
    remove([a, b], [b, c])?;
    assert_eq!(edges(4)?, (1, vec![(a, c)]));
    Ok(())
}

#[test]
fn data_of_edges_are_zeros() -> Outcome {
    let rig = Rig::new()?;
    let (a, b) = (rig.add_empty(&[])?, rig.add_empty(&[])?);
    let plain = CUgraphEdgeData {
        from_port: 0,
        to_port: 0,
        type_: 0,
        reserved: [0; 5],
    };
    let graph = rig.graph;
    let (mut from, mut to) = (ptr::null_mut(), ptr::null_mut());
    let is_plain = |data: CUgraphEdgeData| {
        (data.from_port, data.to_port, data.type_, data.reserved) == (0, 0, 0, [0; 5])
    };
    // SAFETY: lists of one element, and places for results; what is wrong is refused.
    unsafe {
        for data in [ptr::null(), &raw const plain] {
            sys::cuGraphAddDependencies_v2(graph, &a, &b, data, 1).result()?;
            let (mut data_out, mut one) = (OTHER, 1);
            sys::cuGraphGetEdges_v2(graph, &mut from, &mut to, &mut data_out, &mut one).result()?;
            assert!((from, to) == (a, b) && is_plain(data_out));
            data_out = OTHER;
            sys::cuGraphNodeGetDependencies_v2(b, &mut from, &mut data_out, &mut one).result()?;
            assert!(from == a && is_plain(data_out));
            data_out = OTHER;
            sys::cuGraphNodeGetDependentNodes_v2(a, &mut to, &mut data_out, &mut one).result()?;
            assert!(to == b && is_plain(data_out));
            let refused = sys::cuGraphRemoveDependencies_v2(graph, &a, &b, &OTHER, 1);
            expect_error(refused.result(), CUresult::CUDA_ERROR_NOT_SUPPORTED);
            sys::cuGraphRemoveDependencies_v2(graph, &a, &b, data, 1).result()?;
        }
        let refused = sys::cuGraphAddDependencies_v2(graph, &a, &b, &OTHER, 1);
        expect_error(refused.result(), CUresult::CUDA_ERROR_NOT_SUPPORTED);
        let mut count = 9;
        sys::cuGraphGetEdges_v2(
            graph,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            &mut count,
        )
        .result()?;
        assert_eq!(count, 0);
    }
    Ok(())
}

#[test]
fn a_list_without_its_number_is_an_error_that_names_it() -> Outcome {
    let rig = Rig::new()?;
    let node = rig.add_empty(&[])?;
    let (graph, none) = (rig.graph, ptr::null_mut());
    let expect_named = |code: CUresult, argument: &str| {
        let text = expect_error(code.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(text.contains(&format!("{argument} is null")), "{text}");
    };
    // SAFETY: refused.
    unsafe {
        expect_named(
            sys::cuGraphGetNodes(graph, ptr::null_mut(), none),
            "numNodes",
        );
        expect_named(
            sys::cuGraphGetRootNodes(graph, ptr::null_mut(), none),
            "numRootNodes",
        );
        let edges = sys::cuGraphGetEdges(graph, ptr::null_mut(), ptr::null_mut(), none);
        expect_named(edges, "numEdges");
        let before = sys::cuGraphNodeGetDependencies(node, ptr::null_mut(), none);
        expect_named(before, "numDependencies");
        let after = sys::cuGraphNodeGetDependentNodes(node, ptr::null_mut(), none);
        expect_named(after, "numDependentNodes");
    }
    Ok(())
}
