//! What bulk copies do not allow: each mistake, and the operand that its fault names.

use cuda_sim::{FaultKind, MemoryKind};

use super::rig::*;

const INIT: &str = "mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\n";
const LOAD: &str =
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 64, [%r0];";
const STORE: &str = "cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r1], 64;";
const TILE_LOAD: &str = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3}], [%r0];";
const TILE_STORE: &str =
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d1, {%r2, %r3}], [%r1];";

/// Runs a body with a tensor of 8 rows of 64 bytes, and returns the fault.
fn fault(body: &str, change: impl Fn(&mut Run<'_>)) -> FaultKind {
    let stream = stream();
    let data = stream.clone_htod(&noise(1, 512)).unwrap();
    let tensor = Tensor::dense(ELEMENTS[2], &[16, 8], &[16, 8]);
    let body = format!("{INIT}{body}");
    let mut run = Run {
        map: tensor.encode(address(&data, &stream)),
        data: address(&data, &stream),
        ..Run::one(&body)
    };
    change(&mut run);
    *run.launch().expect_err("a fault")
}

#[test]
fn operands_that_do_not_fit() {
    let multicast = TILE_LOAD
        .replace("bytes [", "bytes.multicast::cluster [")
        .replace(", [%r0]", ", [%r0], %h1");
    let cases: &[(&str, &str, &str)] = &[
        (
            &format!("add.u32 %r1, %r1, 8;\n{LOAD}"),
            "dstMem",
            "no multiple of 16",
        ),
        (
            &format!("add.u64 %d2, %d2, 4;\n{LOAD}"),
            "srcMem",
            "no multiple of 16",
        ),
        (
            &LOAD.replace("64", "24"),
            "size",
            "is 24, no multiple of 16",
        ),
        (
            &format!("add.u32 %r1, %r1, 8;\n{STORE}"),
            "srcMem",
            "no multiple of 16",
        ),
        (
            &format!("add.u64 %d2, %d2, 8;\n{STORE}"),
            "dstMem",
            "no multiple of 16",
        ),
        (&STORE.replace("64", "1"), "size", "is 1, no multiple of 16"),
        (
            &format!("add.u32 %r1, %r1, 64;\n{TILE_LOAD}"),
            "dstMem",
            "no multiple of 128",
        ),
        (
            &format!("add.u32 %r1, %r1, 16;\n{TILE_STORE}"),
            "srcMem",
            "no multiple of 128",
        ),
        (
            &format!("add.u64 %d1, %d1, 32;\n{TILE_LOAD}"),
            "tensorMap",
            "no multiple of 64",
        ),
        (
            &TILE_LOAD.replace("%d1", "%d2"),
            "tensorMap",
            "points to no tensor map",
        ),
        (
            &format!(
                "cvt.u64.u32 %d6, %r1;\ncvta.shared.u64 %d6, %d6;\n{}",
                TILE_LOAD.replace("%d1", "%d6")
            ),
            "tensorMap",
            "lies in shared or local memory",
        ),
        (
            &TILE_LOAD.replace("2d", "3d").replace("%r3}", "%r3, %r4}"),
            "tensorMap",
            "has 2 dimensions, and the instruction copies 3",
        ),
        (
            &format!("mov.u16 %h1, 3;\n{multicast}"),
            "ctaMask",
            "is 0x3, in a cluster of 1",
        ),
        (
            &format!("mov.u16 %h1, 0;\n{multicast}"),
            "ctaMask",
            "is 0x0",
        ),
        (
            "prefetch.tensormap [%d2];",
            "tensorMap",
            "points to no tensor map",
        ),
        ("cp.async.bulk.prefetch.L2.global [%d2], 8;", "size", "is 8"),
        (
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%d1, {%r2, %r3}], [%r1];",
            "tensorMap",
            "has elements of U16, which .add does not take",
        ),
    ];
    for (body, wanted, words) in cases {
        let kind = fault(body, |run| {
            if words.contains("U16") {
                let tensor = Tensor::dense(ELEMENTS[1], &[16, 8], &[16, 8]);
                run.map = tensor.encode(run.data);
            }
        });
        match kind {
            FaultKind::BadBulkCopy { operand, what } => {
                assert_eq!(operand, *wanted, "{body}: {what}");
                assert!(what.contains(words), "{body}: {what}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn addresses_outside_of_memory() {
    for (body, space, write) in [
        (&LOAD.replace("64", "528"), MemoryKind::Global, false),
        (&STORE.replace("64", "528"), MemoryKind::Global, true),
        (
            &format!("mov.u64 %d2, 0;\n{LOAD}"),
            MemoryKind::Global,
            false,
        ),
        (
            &"cp.async.bulk.prefetch.L2.global [%d2], 528;".to_owned(),
            MemoryKind::Global,
            false,
        ),
        (
            &format!("add.u32 %r1, %r1, 48128;\n{LOAD}"),
            MemoryKind::Shared,
            true,
        ),
        (
            &format!("mov.u32 %r1, -64;\n{LOAD}"),
            MemoryKind::Shared,
            true,
        ),
        (
            &format!("add.u32 %r1, %r1, 48128;\n{STORE}"),
            MemoryKind::Shared,
            false,
        ),
        (
            &format!("add.u32 %r1, %r1, 47744;\n{TILE_LOAD}"),
            MemoryKind::Shared,
            true,
        ),
        (
            &format!("add.u32 %r0, %r0, 49152;\n{LOAD}"),
            MemoryKind::Shared,
            true,
        ),
        (
            &format!("add.u64 %d1, %d1, 64;\n{TILE_LOAD}"),
            MemoryKind::Parameter,
            false,
        ),
        (&TILE_LOAD.replace("%d1", "%d3"), MemoryKind::Global, false),
    ] {
        match fault(body, |_| {}) {
            FaultKind::OutOfBounds(access) => {
                assert_eq!((access.space, access.write), (space, write), "{body}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    let kind = fault(&format!("add.u32 %r0, %r0, 4;\n{LOAD}"), |_| {});
    assert!(matches!(kind, FaultKind::Misaligned(_)), "{kind:?}");
}

#[test]
fn a_tensor_map_that_says_more_than_the_buffer_holds() {
    for (sizes, strides, wanted) in [([16, 9], [64], 1), ([16, 8], [80], 1), ([200, 8], [64], 0)] {
        for body in [
            TILE_LOAD,
            TILE_STORE,
            "cp.async.bulk.prefetch.tensor.2d.L2.global [%d1, {%r2, %r3}];",
        ] {
            let kind = fault(body, |run| {
                let mut tensor = Tensor::dense(ELEMENTS[2], &sizes, &[16, 8]);
                tensor.strides = strides.to_vec();
                run.map = tensor.encode(run.data);
                run.first = if wanted == 0 { &[120, 0] } else { &[0, 2] };
            });
            match &kind {
                FaultKind::TensorOutOfBounds(bad) => {
                    assert_eq!(bad.dimension, wanted, "{bad}");
                    assert_eq!(bad.access.write, body == TILE_STORE);
                    assert!(
                        kind.to_string().contains(&format!("dimension {wanted}")),
                        "{kind}"
                    );
                }
                other => panic!("{body}: {other:?}"),
            }
        }
    }
    // What the box does not touch is not looked at.
    let stream = stream();
    let data = stream.clone_htod(&noise(1, 512)).unwrap();
    let tensor = Tensor::dense(ELEMENTS[2], &[16, 900], &[16, 8]);
    let body =
        format!("{INIT}{TILE_LOAD}\nmbarrier.arrive.expect_tx.shared.b64 _, [%r0], 512;\n{WAIT}");
    let run = Run {
        map: tensor.encode(address(&data, &stream)),
        first: &[0, 0],
        ..Run::one(&body)
    };
    assert_eq!(run.launch(), Ok(()));
}

#[test]
fn memory_that_was_freed() {
    let stream = stream();
    let freed = {
        let data = stream.clone_htod(&noise(1, 512)).unwrap();
        address(&data, &stream)
    };
    stream.synchronize().unwrap();
    for body in [LOAD, TILE_LOAD] {
        let kind = fault(body, |run| {
            run.map = Tensor::dense(ELEMENTS[2], &[16, 8], &[16, 8]).encode(freed);
            run.data = freed;
        });
        assert!(matches!(kind, FaultKind::UseAfterFree(_)), "{kind:?}");
    }
}

#[test]
fn barriers_that_do_not_fit() {
    for (body, words) in [
        (
            format!("mbarrier.inval.shared.b64 [%r0];\n{LOAD}"),
            "was invalidated",
        ),
        (format!("mov.u32 %r0, %r1;\n{LOAD}"), "not initialised"),
    ] {
        match fault(&body, |_| {}) {
            FaultKind::BadMbarrier { what } => assert!(what.contains(words), "{what}"),
            other => panic!("{body}: {other:?}"),
        }
    }
    // The copy itself overwrites the barrier: without the checks, which find a race before.
    cuda_sim::set_checks(Some(false));
    let kind = fault(&format!("mov.u32 %r1, %r0;\n{LOAD}"), |_| {});
    assert!(matches!(kind, FaultKind::BadMbarrier { .. }), "{kind:?}");
    // 32 times 32 KiB are more bytes than a barrier counts.
    let stream = stream();
    let data = stream.clone_htod(&vec![1u8; 32 << 10]).unwrap();
    let body = format!(
        "{INIT}mov.u32 %r20, 0;\nagain:\n{}\nadd.u32 %r20, %r20, 1;\nsetp.lt.u32 %p3, %r20, 40;\n@%p3 bra again;",
        LOAD.replace("64", "32768")
    );
    let run = Run {
        data: address(&data, &stream),
        ..Run::one(&body)
    };
    let result = run.launch();
    cuda_sim::set_checks(None);
    match *result.unwrap_err() {
        FaultKind::BadMbarrier { what } => assert!(what.contains("bytes are waited for"), "{what}"),
        other => panic!("{other:?}"),
    }
}
