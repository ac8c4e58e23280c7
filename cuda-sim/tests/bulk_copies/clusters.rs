//! Bulk copies between the blocks of a cluster.

use cuda_sim::{Agent, FaultKind};

use super::rig::*;

const MEET: &str = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

/// A barrier for one arrival, which all blocks see. `%r41` is the block's rank.
const BEGIN: &str = "mov.u32 %r41, %cluster_ctarank;\nsetp.ne.u32 %p6, %r9, 0;\n\
    @!%p6 mbarrier.init.shared.b64 [%r0], 1;\n@!%p6 mbarrier.init.shared.b64 [%r0+8], 1;\n\
    fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

/// The block expects a tile of 64 bytes.
const EXPECT: &str = "mbarrier.arrive.expect_tx.shared.b64 _, [%r0], 64;\n";

/// Runs a kernel in clusters of two blocks, which return 64 bytes each.
fn run(threads: u32, data: &[u8], body: &str) -> Result<Vec<u8>, Box<FaultKind>> {
    let stream = stream();
    let data = stream.clone_htod(data).unwrap();
    let out = stream.alloc_zeros::<u8>(128).unwrap();
    let body = format!(
        "mov.u32 %r40, %ctaid.x;\nmul.wide.u32 %d5, %r40, 64;\nadd.u64 %d3, %d3, %d5;\n{body}"
    );
    Run {
        data: address(&data, &stream),
        out: address(&out, &stream),
        threads,
        blocks: 2,
        cluster: 2,
        ..Run::one(&body)
    }
    .launch()
    .map(|()| stream.clone_dtoh(&out).unwrap())
}

fn under_seeds(check: impl Fn(Option<u64>)) {
    for seed in [None, Some(1), Some(2), Some(3)] {
        cuda_sim::set_seed(seed);
        check(seed);
    }
    cuda_sim::set_seed(None);
}

/// By its own address, by that of its rank, to the other block, and to both.
#[test]
fn a_block_loads_for_each_block() {
    let host = noise(3, 64);
    let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    let to = |rank: &str| {
        format!(
            "mapa.shared::cluster.u32 %r43, %r1, {rank};\nmapa.shared::cluster.u32 %r44, %r0, {rank};\n{copy} [%r43], [%d2], 64, [%r44];\n"
        )
    };
    let multicast = |mask: &str| {
        format!(
            "{mask}cvt.u16.u32 %h1, %r42;\n{copy}.multicast::cluster [%r1], [%d2], 64, [%r0], %h1;\n"
        )
    };
    let other = "xor.b32 %r45, %r41, 1;\n";
    for load in [
        format!("{copy} [%r1], [%d2], 64, [%r0];\n"),
        to("%r41"),
        format!("{other}{}", to("%r45")),
        multicast("mov.u32 %r42, 1;\nshl.b32 %r42, %r42, %r41;\n"),
        multicast(&format!(
            "{other}mov.u32 %r42, 1;\nshl.b32 %r42, %r42, %r45;\n"
        )),
        format!(
            "setp.ne.u32 %p7, %r41, 1;\n@%p7 bra LOADED;\n{}LOADED:\n",
            multicast("mov.u32 %r42, 3;\n")
        ),
    ] {
        under_seeds(|seed| {
            let body = format!("{BEGIN}{EXPECT}{load}{WAIT}{}{MEET}", dump(64));
            assert!(
                run(1, &host, &body) == Ok(host.repeat(2)),
                "{load} {seed:?}"
            );
            // Who does not wait reads too early.
            let early = format!("{BEGIN}{EXPECT}{load}{}{WAIT}{MEET}", dump(64));
            match run(1, &host, &early).map_err(|kind| *kind) {
                Err(FaultKind::Race(race)) => {
                    let sides = [race.by, race.other.by];
                    assert!(
                        sides.contains(&Agent::BulkCopy),
                        "{load} {seed:?}: {race:?}"
                    );
                }
                // The other block has not begun it.
                Err(FaultKind::UninitialisedRead(_)) if !load.starts_with("cp") => {}
                other => panic!("{load} {seed:?}: {other:?}"),
            }
        });
    }
}

#[test]
fn blocks_that_are_not_there() {
    let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    for (load, operand) in [
        (
            format!("mapa.shared::cluster.u32 %r43, %r1, 2;\n{copy} [%r43], [%d2], 64, [%r0];\n"),
            "dstMem",
        ),
        (
            format!("mapa.shared::cluster.u32 %r43, %r0, 2;\n{copy} [%r1], [%d2], 64, [%r43];\n"),
            "mbar",
        ),
        (
            format!("mov.u16 %h1, 5;\n{copy}.multicast::cluster [%r1], [%d2], 64, [%r0], %h1;\n"),
            "ctaMask",
        ),
    ] {
        let body = format!("{BEGIN}{EXPECT}{load}{WAIT}{MEET}");
        match *run(1, &noise(3, 64), &body).unwrap_err() {
            FaultKind::BadBulkCopy { operand: found, .. } => assert_eq!(found, operand),
            other => panic!("{other:?}"),
        }
    }
    // A block that may not have begun.
    let load =
        format!("mov.u16 %h1, 3;\n{copy}.multicast::cluster [%r1], [%d2], 64, [%r0], %h1;\n");
    let body = format!(
        "mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\n{EXPECT}{load}{MEET}"
    );
    let kind = run(1, &noise(3, 64), &body).unwrap_err();
    assert!(matches!(*kind, FaultKind::BadCluster { .. }), "{kind:?}");
    let apart =
        format!("mapa.shared::cluster.u32 %r43, %r1, 1;\n{copy} [%r43], [%d2], 64, [%r0];\n");
    let body = format!("{BEGIN}{EXPECT}{apart}{MEET}");
    match *run(1, &noise(3, 64), &body).unwrap_err() {
        FaultKind::UnknownInstruction { text } => {
            assert!(text.contains("different blocks"), "{text}")
        }
        other => panic!("{other:?}"),
    }
}

/// A warp that has ended counts as arrived at the barrier of the cluster, with what it did.
#[test]
fn a_warp_that_has_ended_is_before_the_barrier() {
    let body = |stores: &str| {
        format!(
            "mov.u32 %r41, %cluster_ctarank;\nxor.b32 %r45, %r41, 1;\nmapa.shared::cluster.u32 %r43, %r1, %r45;\n{MEET}\
             setp.lt.u32 %p3, %r9, 32;\n@%p3 bra READ;\nsetp.ne.u32 %p4, %r9, 32;\n@%p4 bra OVER;\n{stores}OVER:\nret;\n\
             READ:\n{MEET}setp.ne.u32 %p4, %r9, 0;\n@%p4 bra END;\nld.shared::cluster.u32 %r46, [%r43];\n\
             ld.shared.u32 %r47, [%r1+4];\nadd.u32 %r46, %r46, %r47;\nst.global.u32 [%d3], %r46;\nEND:\n{MEET}"
        )
    };
    let stores = "st.shared.u32 [%r1], %r9;\nst.shared::cluster.u32 [%r43+4], %r9;\n";
    under_seeds(|seed| {
        let out = run(64, &[0; 64], &body(stores));
        let words = out.map(|out| [out[0], out[64]]);
        assert_eq!(words, Ok([64, 64]), "{seed:?}");
    });
}

/// Whose copy completes bytes on a barrier must come behind its initialisation.
#[test]
fn a_copy_comes_behind_the_initialisation() {
    let load = "mov.u16 %h1, 3;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%d2], 64, [%r0], %h1;\n";
    let body = |fence: &str| {
        format!(
            "mov.u32 %r41, %cluster_ctarank;\nmbarrier.init.shared.b64 [%r0], 1;\n{fence}barrier.cluster.arrive.relaxed.aligned;\n\
             barrier.cluster.wait.aligned;\n{EXPECT}setp.ne.u32 %p7, %r41, 0;\n@%p7 bra LOADED;\n{load}LOADED:\n{WAIT}{MEET}"
        )
    };
    let host = noise(3, 64);
    under_seeds(|seed| {
        let fenced = run(1, &host, &body("fence.mbarrier_init.release.cluster;\n"));
        assert!(fenced.is_ok(), "{seed:?}: {fenced:?}");
        let kind = run(1, &host, &body("")).unwrap_err();
        assert!(
            matches!(*kind, FaultKind::BadMbarrier { .. }),
            "{seed:?}: {kind:?}"
        );
    });
}

/// Block 0 loads two tiles for both blocks to one place. Before the second, each block must have
/// said that it has read the first: by an arrival at block 0's second barrier.
#[test]
fn a_tile_is_loaded_again_once_all_have_read_it() {
    let host = noise(5, 128);
    let copy =
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster";
    let load = format!("mov.u16 %h1, 3;\n{copy} [%r1], [%d2], 64, [%r0], %h1;\n");
    let second =
        "second:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0], 1;\n@!%p1 bra second;\n";
    let again = dump(64).replace("dump", "again");
    let body = |count: u32, arrive: &str, wait: &str| {
        format!(
            "mov.u32 %r41, %cluster_ctarank;\nmbarrier.init.shared.b64 [%r0], 1;\nmbarrier.init.shared.b64 [%r0+8], {count};\n\
             fence.mbarrier_init.release.cluster;\n{MEET}setp.ne.u32 %p7, %r41, 0;\n{EXPECT}@%p7 bra FIRST;\n{load}\
             FIRST:\n{WAIT}{}{EXPECT}mapa.shared::cluster.u32 %r44, %r0, 0;\nadd.u32 %r44, %r44, 8;\n{arrive}\
             @%p7 bra SECOND;\nadd.u64 %d2, %d2, 64;\n{wait}{load}SECOND:\n{second}{again}{MEET}",
            dump(64)
        )
    };
    let arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r44];\n";
    let wait =
        "ready:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0+8], 0;\n@!%p1 bra ready;\n";
    under_seeds(|seed| {
        let result = run(1, &host, &body(2, arrive, wait));
        assert!(result == Ok(host[64..].repeat(2)), "{seed:?}: {result:?}");
        for (what, body) in [
            ("nobody waits", body(2, arrive, "")),
            (
                "only block 0 arrives",
                body(1, &format!("@!%p7 {arrive}"), wait),
            ),
            (
                "only block 1 arrives",
                body(1, &format!("@%p7 {arrive}"), wait),
            ),
        ] {
            match run(1, &host, &body).map_err(|kind| *kind) {
                Err(FaultKind::Race(race)) => {
                    let sides = [race.by, race.other.by];
                    assert!(
                        sides.contains(&Agent::BulkCopy),
                        "{what} {seed:?}: {race:?}"
                    );
                }
                // Block 0 itself comes behind its own reads.
                Ok(_) if what == "only block 1 arrives" => {}
                other => panic!("{what} {seed:?}: {other:?}"),
            }
        }
    });
}

/// A block sends its tile to the other one, whose answer says that the tile has arrived: then any
/// warp of the sender may change it.
#[test]
fn a_block_sends_its_tile() {
    let host = noise(7, 64);
    let send = |operation: &str| {
        format!(
            "mapa.shared::cluster.u32 %r43, %r1, 1;\nadd.u32 %r43, %r43, 1024;\nmapa.shared::cluster.u32 %r44, %r0, 1;\n\
             {operation} [%r43], [%r1], 64, [%r44];\n"
        )
    };
    let copy = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes";
    let fill = "@%p6 bra FILLED;\nmov.u32 %r50, 0;\nfill:\nadd.u32 %r51, %r1, %r50;\ncvt.u64.u32 %d6, %r50;\nadd.u64 %d7, %d2, %d6;\n\
        ld.global.u32 %r52, [%d7];\nst.shared.u32 [%r51], %r52;\nst.shared.u32 [%r51+1024], %r41;\nadd.u32 %r50, %r50, 4;\n\
        setp.lt.u32 %p2, %r50, 64;\n@%p2 bra fill;\nfence.proxy.async;\nFILLED:\n";
    let answered =
        "ready:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0+8], 0;\n@!%p1 bra ready;\n";
    // Thread 32 of block 0 changes the tile.
    let body = |operation: &str, answered: &str| {
        format!(
            "mov.u32 %r41, %cluster_ctarank;\nsetp.ne.u32 %p6, %r9, 0;\n{fill}{BEGIN}setp.ne.u32 %p7, %r41, 0;\n@%p7 bra RECEIVE;\n\
             @%p6 bra CHANGE;\n{}bra END;\nCHANGE:\nsetp.ne.u32 %p5, %r9, 32;\n@%p5 bra END;\n{answered}st.shared.u32 [%r1], %r9;\nbra END;\n\
             RECEIVE:\n@%p6 bra END;\n{EXPECT}{WAIT}add.u32 %r1, %r1, 1024;\n{}mapa.shared::cluster.u32 %r44, %r0, 0;\n\
             add.u32 %r44, %r44, 8;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r44];\nEND:\n{MEET}",
            send(operation),
            dump(64)
        )
    };
    under_seeds(|seed| {
        let result = run(64, &host, &body(copy, answered)).unwrap();
        assert!(result[64..] == host, "{seed:?}");
        let add =
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32";
        let result = run(64, &host, &body(add, answered)).unwrap();
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let sums = result[64..].chunks(4).zip(host.chunks(4));
        for (sum, given) in sums {
            assert_eq!(word(sum), word(given).wrapping_add(1), "{seed:?}");
        }
        // Without the answer, the sender may end too early.
        let ends = body(copy, answered)
            .replace(answered, "bra END;\n")
            .replace(&format!("END:\n{MEET}"), "END:\n");
        let kind = run(64, &host, &ends).unwrap_err();
        let is_told = matches!(
            *kind,
            FaultKind::UnfinishedBulkCopy | FaultKind::BadCluster { .. }
        );
        assert!(is_told, "{seed:?}: {kind:?}");
        match *run(64, &host, &body(copy, "")).unwrap_err() {
            FaultKind::Race(race) => {
                assert!(
                    [race.by, race.other.by].contains(&Agent::BulkCopy),
                    "{seed:?}: {race:?}"
                );
            }
            other => panic!("{seed:?}: {other:?}"),
        }
    });
}

/// What one block stores in another one's shared memory, that one may copy from there behind the
/// barrier.
#[test]
fn a_block_copies_what_another_one_stored() {
    let stream = stream();
    let data = stream.alloc_zeros::<u32>(32).unwrap();
    let body = format!(
        "mov.u32 %r40, %cluster_ctarank;\nxor.b32 %r41, %r40, 1;\nmapa.shared::cluster.u32 %r42, %r1, %r41;\n{MEET}\
         mov.u32 %r43, 0;\nstore:\nadd.u32 %r44, %r42, %r43;\nst.shared::cluster.u32 [%r44], %r40;\n\
         add.u32 %r43, %r43, 4;\nsetp.lt.u32 %p4, %r43, 64;\n@%p4 bra store;\nfence.proxy.async;\n{MEET}\
         mul.wide.u32 %d5, %r40, 64;\nadd.u64 %d2, %d2, %d5;\ncp.async.bulk.global.shared::cta.bulk_group [%d2], [%r1], 64;\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n{MEET}"
    );
    let result = Run {
        data: address(&data, &stream),
        blocks: 2,
        cluster: 2,
        ..Run::one(&body)
    }
    .launch();
    assert_eq!(result, Ok(()));
    let wanted: Vec<u32> = (0..32).map(|i| 1 - i / 16).collect();
    assert_eq!(stream.clone_dtoh(&data).unwrap(), wanted);
}

/// A deadlock names the barriers of all blocks of the cluster, and bytes that were not announced.
#[test]
fn a_deadlock_names_what_all_blocks_wait_for() {
    let text = |body: &str| {
        let body = format!("{BEGIN}{body}{WAIT}{MEET}");
        run(1, &noise(3, 64), &body).unwrap_err().to_string()
    };
    let waits = text(EXPECT);
    for part in [
        "has 1 of 1 arrivals and 0 of 64 bytes",
        "of block (1, 0, 0)",
    ] {
        assert!(waits.contains(part), "{waits}");
    }
    let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 64, [%r0];\n";
    let waits = text(&format!("{copy}mbarrier.arrive.shared.b64 _, [%r0];\n"));
    assert!(
        waits.contains("has 1 of 1 arrivals and 64 of 0 bytes"),
        "{waits}"
    );
}

/// A copy of no bytes to another block does nothing there.
#[test]
fn no_bytes_for_another_block() {
    let body = format!(
        "{BEGIN}xor.b32 %r45, %r41, 1;\nmapa.shared::cluster.u32 %r43, %r1, %r45;\n\
         mapa.shared::cluster.u32 %r44, %r0, %r45;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r43], [%d2], 0, [%r44];\n{MEET}"
    );
    run(1, &noise(3, 64), &body).unwrap();
}
