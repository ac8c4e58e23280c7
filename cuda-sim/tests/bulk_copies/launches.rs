//! Bulk copies and the rest of a launch: bytes that nobody wrote, races between blocks, launches
//! that are undone, and counters.

use cuda_sim::{Counters, FaultKind, MemoryKind};

use super::rig::*;

const LOAD: &str = "mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r0], 64;\n\
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 64, [%r0];\n";
const STORE: &str = "cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r1], 64;\n\
    cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";

/// Fills the tile with a number for each block.
const FILL: &str = "mov.u32 %r20, %ctaid.x;\nst.shared.v4.u32 [%r1], {%r20, %r20, %r20, %r20};\n\
    st.shared.v4.u32 [%r1+16], {%r20, %r20, %r20, %r20};\nst.shared.v4.u32 [%r1+32], {%r20, %r20, %r20, %r20};\n\
    st.shared.v4.u32 [%r1+48], {%r20, %r20, %r20, %r20};\nfence.proxy.async;\n";

/// A copy of bytes that nobody wrote is no mistake; their use is.
#[test]
fn bytes_that_nobody_wrote() {
    let stream = stream();
    // SAFETY: not read before it is written, but by the kernels.
    let mut data = unsafe { stream.alloc::<u32>(16) }.unwrap();
    stream
        .memcpy_htod(&[5u32; 8], &mut data.slice_mut(..8))
        .unwrap();
    let used = |at: u32| {
        format!(
            "{LOAD}{WAIT}ld.shared.u32 %r20, [%r1+{at}];\nsetp.eq.u32 %p5, %r20, 1;\n@%p5 bra OVER;\nOVER:\n"
        )
    };
    let run = |body: &str| {
        Run {
            data: address(&data, &stream),
            blocks: 2,
            ..Run::one(body)
        }
        .launch()
    };
    assert_eq!(run(&used(28)), Ok(()));
    match *run(&used(32)).unwrap_err() {
        FaultKind::UninitialisedRead(read) => assert_eq!(read.access.space, MemoryKind::Global),
        other => panic!("{other:?}"),
    }
    // A copy of them to device memory uses them, because results go there.
    let out = stream.alloc_zeros::<u32>(16).unwrap();
    let stored = format!("{LOAD}{WAIT}mov.u64 %d2, %d3;\n{STORE}");
    let result = Run {
        data: address(&data, &stream),
        out: address(&out, &stream),
        ..Run::one(&stored)
    }
    .launch();
    let kind = result.unwrap_err();
    assert!(matches!(*kind, FaultKind::UninitialisedRead(_)), "{kind:?}");
    // Atomic updates of them are a mistake.
    let body = format!(
        "{FILL}cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d2], [%r1], 64;"
    );
    let kind = run(&body).unwrap_err();
    assert!(matches!(*kind, FaultKind::UninitialisedRead(_)), "{kind:?}");
}

#[test]
fn blocks_that_store_to_one_place_race() {
    let stream = stream();
    let data = stream.alloc_zeros::<u32>(16).unwrap();
    let body = format!("{FILL}{STORE}");
    let run = |body: &str| {
        Run {
            data: address(&data, &stream),
            blocks: 8,
            ..Run::one(body)
        }
        .launch()
    };
    match *run(&body).unwrap_err() {
        FaultKind::Race(race) => assert!(race.access.write && race.other.write),
        other => panic!("{other:?}"),
    }
    // The same value from all blocks is no race.
    assert_eq!(run(&body.replace("%ctaid.x", "7")), Ok(()));
    assert_eq!(stream.clone_dtoh(&data).unwrap(), [7; 16]);
}

#[test]
fn a_block_that_loads_what_another_one_stores_races() {
    let stream = stream();
    let data = stream.alloc_zeros::<u32>(64).unwrap();
    let apart = "mov.u32 %r21, %ctaid.x;\nmul.wide.u32 %d5, %r21, 64;\nadd.u64 %d2, %d2, %d5;\n";
    let run = |body: &str| {
        Run {
            data: address(&data, &stream),
            blocks: 4,
            ..Run::one(body)
        }
        .launch()
    };
    // Each block its own place, then that of the first block.
    assert_eq!(run(&format!("{apart}{FILL}{STORE}{LOAD}{WAIT}")), Ok(()));
    let wanted: Vec<u32> = (0..64).map(|i| i / 16).collect();
    assert_eq!(stream.clone_dtoh(&data).unwrap(), wanted);
    let shared = format!("mov.u64 %d6, %d2;\n{apart}{FILL}{STORE}mov.u64 %d2, %d6;\n{LOAD}{WAIT}");
    match *run(&shared).unwrap_err() {
        FaultKind::Race(race) => assert!(!race.access.write && race.other.write),
        other => panic!("{other:?}"),
    }
    // A thread's own store races with another block's load.
    let store = "setp.ne.u32 %p4, %r22, 0;\n@!%p4 st.global.u32 [%d2], %r22;\n";
    let body = format!("mov.u32 %r22, %ctaid.x;\n{LOAD}{WAIT}{store}");
    let kind = run(&body.replace("%r22, 0;", "%r22, 3;")).unwrap_err();
    assert!(matches!(*kind, FaultKind::Race(_)), "{kind:?}");
}

/// Warps of one block: who waits for a load may overwrite its source, and who comes behind a
/// barrier may read the target of a store.
#[test]
fn warps_of_a_block_are_ordered_by_what_they_wait_for() {
    let stream = stream();
    let data = stream.clone_htod(&[7u32; 16]).unwrap();
    let run = |body: &str| {
        Run {
            data: address(&data, &stream),
            threads: 64,
            ..Run::one(body)
        }
        .launch()
    };
    let overwrite = |wait: &str| {
        format!(
            "setp.ne.u32 %p3, %r9, 0;\n@%p3 bra READY;\nmbarrier.init.shared.b64 [%r0], 1;\n\
             fence.mbarrier_init.release.cluster;\nREADY:\nbar.sync 0;\nsetp.ge.u32 %p4, %r9, 32;\n@%p4 bra CONSUME;\n\
             @%p3 bra DONE;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r0], 64;\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 64, [%r0];\nbra DONE;\n\
             CONSUME:\n{wait}setp.ne.u32 %p5, %r9, 32;\n@%p5 bra DONE;\nst.global.u32 [%d2], %r9;\nDONE:\n"
        )
    };
    assert_eq!(run(&overwrite(WAIT)), Ok(()));
    let kind = run(&overwrite("")).unwrap_err();
    assert!(matches!(*kind, FaultKind::Race(_)), "{kind:?}");
    let read = |barrier: &str| {
        format!(
            "setp.ne.u32 %p3, %r9, 0;\n@%p3 bra STORED;\n{FILL}{STORE}STORED:\n{barrier}\n\
             setp.ne.u32 %p5, %r9, 32;\n@%p5 bra DONE;\nld.global.u32 %r20, [%d2+4];\nst.shared.u32 [%r1+512], %r20;\nDONE:\n"
        )
    };
    assert_eq!(run(&read("bar.sync 0;")), Ok(()));
    let kind = run(&read("")).unwrap_err();
    assert!(matches!(*kind, FaultKind::Race(_)), "{kind:?}");
}

/// A block of 32 warps leaves the vector clocks no place for its copies: they are not checked, but
/// they end phases and order those who wait.
#[test]
fn a_block_of_all_warps_waits_for_a_copy() {
    let stream = stream();
    let host = noise(4, 64);
    let data = stream.clone_htod(&host).unwrap();
    let out = stream.alloc_zeros::<u8>(64).unwrap();
    let body = format!(
        "setp.ne.u32 %p3, %r9, 0;\n@%p3 bra READY;\nmbarrier.init.shared.b64 [%r0], 1;\n\
         fence.mbarrier_init.release.cluster;\nREADY:\nbar.sync 0;\n@%p3 bra CONSUME;\n\
         mbarrier.arrive.expect_tx.shared.b64 _, [%r0], 64;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 64, [%r0];\n\
         CONSUME:\n{WAIT}and.b32 %r20, %r9, 15;\nshl.b32 %r20, %r20, 2;\nadd.u32 %r21, %r1, %r20;\n\
         ld.shared.u32 %r22, [%r21];\ncvt.u64.u32 %d5, %r20;\nadd.u64 %d5, %d3, %d5;\nst.global.u32 [%d5], %r22;\n\
         bar.sync 0;\n@%p3 bra DONE;\nst.shared.u32 [%r1], %r9;\nDONE:\n"
    );
    for seed in [None, Some(1), Some(2), Some(3), Some(4)] {
        cuda_sim::set_seed(seed);
        let result = Run {
            data: address(&data, &stream),
            out: address(&out, &stream),
            threads: 1024,
            ..Run::one(&body)
        }
        .launch();
        assert_eq!(result, Ok(()), "{seed:?}");
        assert!(stream.clone_dtoh(&out).unwrap() == host);
    }
    cuda_sim::set_seed(None);
}

/// A block may copy its tile to where it came from: nothing is in doubt. Other threads of the block
/// must be ordered, whether or not blocks run at the same time.
#[test]
fn a_tile_in_its_own_place() {
    let stream = stream();
    let data = stream.clone_htod(&[5u32; 16 * 16]).unwrap();
    let apart = "mov.u32 %r21, %ctaid.x;\nmul.wide.u32 %d5, %r21, 64;\nadd.u64 %d2, %d2, %d5;\n";
    let run = |body: &str| {
        Run {
            data: address(&data, &stream),
            blocks: 16,
            threads: 64,
            ..Run::one(body)
        }
        .launch()
    };
    let update = "ld.shared.u32 %r23, [%r1];\nadd.u32 %r23, %r23, 1;\nst.shared.u32 [%r1], %r23;\nfence.proxy.async;\n";
    let body = |then: &str| {
        format!(
            "{apart}setp.ne.u32 %p3, %r9, 0;\n@%p3 bra OTHERS;\n{LOAD}{WAIT}{update}{STORE}OTHERS:\n{then}"
        )
    };
    assert_eq!(run(&body("")), Ok(()));
    let got = stream.clone_dtoh(&data).unwrap();
    assert!(
        got.chunks(16)
            .all(|tile| tile[0] == 6 && tile[1..] == [5; 15])
    );
    let read = "setp.ne.u32 %p4, %r9, 37;\n@%p4 bra DONE;\nld.global.u32 %r24, [%d2+20];\nst.shared.u32 [%r1+512], %r24;\nDONE:\n";
    let kind = run(&body(read)).unwrap_err();
    assert!(matches!(*kind, FaultKind::Race(_)), "{kind:?}");
    assert_eq!(run(&body(&format!("bar.sync 0;\n{read}"))), Ok(()));
}

/// A launch in doubt is undone: what a copy stored at the first try is not seen at the second.
#[test]
fn a_launch_that_is_undone_leaves_nothing() {
    let stream = stream();
    let data = stream.clone_htod(&[0u32; 16 * 33]).unwrap();
    // Each block adds one to its place. All of them store to the first one, which is in doubt.
    let fill = FILL.replace("%ctaid.x", "%r23");
    let body = format!(
        "mov.u32 %r21, %ctaid.x;\nadd.u32 %r21, %r21, 1;\nmul.wide.u32 %d5, %r21, 64;\nmov.u64 %d6, %d2;\n\
         add.u64 %d2, %d2, %d5;\nld.global.u32 %r23, [%d2];\nadd.u32 %r23, %r23, 1;\n{fill}{STORE}\
         mov.u32 %r24, 9;\nst.global.u32 [%d6], %r24;\n"
    );
    let run = Run {
        data: address(&data, &stream),
        blocks: 32,
        ..Run::one(&body)
    };
    assert_eq!(run.launch(), Ok(()));
    let got = stream.clone_dtoh(&data).unwrap();
    for (i, value) in got.into_iter().enumerate() {
        let wanted = match i {
            0 => 9,
            1..16 => 0,
            _ => 1,
        };
        assert_eq!(value, wanted, "word {i}");
    }
}

#[test]
fn traffic_is_counted() {
    let stream = stream();
    let tensor = Tensor::dense(ELEMENTS[6], &[128, 64], &[64, 32]);
    let data = stream.clone_htod(&noise(1, tensor.device_bytes())).unwrap();
    let map = tensor.encode(address(&data, &stream));
    let count = |body: &str, first: &[i32]| -> (Counters, u64, u64) {
        let run = Run {
            map,
            data: address(&data, &stream),
            first,
            ..Run::one(body)
        };
        assert_eq!(run.launch(), Ok(()));
        let profile = cuda_sim::last_launch().unwrap();
        (
            profile.total,
            profile.compulsory_read_bytes,
            profile.compulsory_write_bytes,
        )
    };
    let load = &format!(
        "mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\n\
         cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1, {{%r2, %r3}}], [%r0];\n\
         mbarrier.arrive.expect_tx.shared.b64 _, [%r0], 4096;\n{WAIT}"
    );
    let (total, read, written) = count(load, &[0, 0]);
    let loads = total.global_loads;
    assert_eq!((loads.requests, loads.sectors, loads.bytes), (1, 128, 4096));
    let stores = total.shared_stores;
    assert_eq!(
        (stores.wavefronts, stores.ideal, stores.bytes),
        (32, 32, 4096)
    );
    assert_eq!((read, written, total.cache_lines), (4096, 0, 0));
    // A quarter of the box is inside; 32 elements further, all sectors begin in the middle.
    let (total, read, _) = count(load, &[96, 48]);
    assert_eq!(
        (total.global_loads.sectors, total.global_loads.bytes),
        (32, 1024)
    );
    assert_eq!((total.shared_stores.bytes, read), (4096, 1024));
    let (total, read, _) = count(load, &[8, 0]);
    assert_eq!(
        (total.global_loads.sectors, total.global_loads.bytes),
        (160, 4096)
    );
    assert_eq!(read, 160 * 32);
    let (total, read, written) = count(&format!("{FILL}{STORE}"), &[]);
    let stores = total.global_stores;
    assert_eq!((stores.requests, stores.sectors, stores.bytes), (1, 2, 64));
    assert_eq!((total.shared_loads.bytes, read, written), (64, 0, 64));
    let reduce = STORE
        .replace("cp.async.bulk.global", "cp.reduce.async.bulk.global")
        .replace("bulk_group [", "bulk_group.add.u32 [");
    let (total, read, written) = count(&format!("{FILL}{reduce}"), &[]);
    assert_eq!(
        (total.global_atomics.sectors, total.global_atomics.bytes),
        (2, 64)
    );
    assert_eq!((read, written), (64, 64));
}
