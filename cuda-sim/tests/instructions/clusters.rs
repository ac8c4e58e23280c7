//! Clusters of blocks: who is who, each other's shared memory, the barrier, what is refused.

use cuda_sim::FaultKind;
use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::rig::stream;

/// Runs `body` in a grid of blocks of 32 threads, in clusters. A thread has its number in `%r1`,
/// the block's rank in `%r2` and the cluster's size in `%r3`; `%r0` is the address of a word of
/// shared memory, and `%d1` that of the thread's word of the output, which is returned.
fn run(grid: [u32; 3], cluster: [u32; 3], body: &str) -> Result<Vec<u32>, Box<FaultKind>> {
    let stream = stream();
    let [x, y, z] = cluster;
    let text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 out) .reqnctapercluster {x}, {y}, {z}\n{{\n\
         .shared .align 8 .b8 words[256];\n.reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .b64 %d<9>;\n\
         ld.param.u64 %d1, [out];\nmov.u32 %r0, words;\nmov.u32 %r1, %tid.x;\n\
         mov.u32 %r2, %cluster_ctarank;\nmov.u32 %r3, %cluster_nctarank;\n\
         mov.u32 %r4, %ctaid.x;\nmov.u32 %r5, %ctaid.y;\nmov.u32 %r6, %nctaid.x;\nmov.u32 %r7, %nctaid.y;\n\
         mov.u32 %r8, %ctaid.z;\nmad.lo.u32 %r8, %r8, %r7, %r5;\nmad.lo.u32 %r8, %r8, %r6, %r4;\n\
         mad.lo.u32 %r8, %r8, 32, %r1;\nmad.wide.u32 %d1, %r8, 4, %d1;\n{body}\nret;\n}}\n"
    );
    let kernel = stream.context().load_module(Ptx::from_src(text));
    let kernel = kernel.unwrap().load_function("t").unwrap();
    let words = grid.iter().product::<u32>() as usize * 32;
    let mut out = stream.alloc_zeros::<u32>(words).unwrap();
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut out);
    let shape = LaunchConfig {
        grid_dim: grid.into(),
        block_dim: (32, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the argument is the kernel's, which stores a word a thread.
    match unsafe { launch.launch(shape) } {
        Ok(_) => Ok(stream.clone_dtoh(&out).unwrap()),
        Err(error) => match cuda_sim::take_fault() {
            Some(fault) => Err(Box::new(fault.kind)),
            None => panic!("{error}"),
        },
    }
}

const MEET: &str = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

/// The address of the next block's word, in `%r9`.
const NEXT: &str =
    "add.u32 %r9, %r2, 1;\nrem.u32 %r9, %r9, %r3;\nmapa.shared::cluster.u32 %r9, %r0, %r9;\n";

/// What each block of a grid gives, from its index.
fn expected(grid: [u32; 3], value: impl Fn([u32; 3]) -> u32) -> Vec<u32> {
    let [x, y, z] = grid;
    let blocks = (0..z).flat_map(|k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])));
    blocks.flat_map(|block| [value(block); 32]).collect()
}

#[test]
fn a_block_knows_its_place() {
    let (grid, cluster) = ([6, 4, 2], [3, 2, 1]);
    for seed in [None, Some(1), Some(2)] {
        cuda_sim::set_seed(seed);
        for (name, value) in [
            (
                "%cluster_ctaid.x",
                (|[i, _, _]| i % 3) as fn([u32; 3]) -> u32,
            ),
            ("%cluster_ctaid.y", |[_, j, _]| j % 2),
            ("%cluster_nctaid.x", |_| 3),
            ("%cluster_nctaid.z", |_| 1),
            ("%cluster_ctarank", |[i, j, _]| j % 2 * 3 + i % 3),
            ("%cluster_nctarank", |_| 6),
            ("%clusterid.x", |[i, _, _]| i / 3),
            ("%clusterid.y", |[_, j, _]| j / 2),
            ("%clusterid.z", |[_, _, k]| k),
            ("%nclusterid.x", |_| 2),
            ("%nclusterid.z", |_| 2),
        ] {
            let body = format!("mov.u32 %r9, {name};\nst.global.u32 [%d1], %r9;");
            let result = run(grid, cluster, &body).unwrap();
            assert_eq!(result, expected(grid, value), "{name}");
        }
    }
    cuda_sim::set_seed(None);
}

#[test]
fn blocks_read_and_write_each_others_shared_memory() {
    let own = "setp.eq.u32 %p1, %r1, 0;\nmad.lo.u32 %r10, %r4, 100, 7;\n";
    let store = format!("{own}@%p1 st.shared.u32 [%r0], %r10;\n{MEET}{NEXT}");
    let generic = "cvt.u64.u32 %d2, %r9;\ncvta.shared.u64 %d2, %d2;\n";
    let next = |[i, _, _]: [u32; 3]| (i / 2 * 2 + (i + 1) % 2) * 100 + 7;
    for (what, body, value) in [
        (
            "load",
            format!("{store}ld.shared::cluster.u32 %r11, [%r9];\n{MEET}"),
            next as fn([u32; 3]) -> u32,
        ),
        (
            "generic load",
            format!("{store}{generic}ld.u32 %r11, [%d2];\n{MEET}"),
            next,
        ),
        (
            "store",
            format!(
                "{own}{MEET}{NEXT}@%p1 st.shared::cluster.u32 [%r9], %r10;\n{MEET}ld.shared.u32 %r11, [%r0];"
            ),
            next,
        ),
        (
            "atomic",
            format!(
                "{store}@%p1 atom.shared::cluster.add.u32 %r12, [%r9], 1000;\n{MEET}ld.shared.u32 %r11, [%r0];"
            ),
            |[i, _, _]| i * 100 + 1007,
        ),
        (
            "own block by its rank",
            format!(
                "{store}mapa.shared::cluster.u32 %r9, %r0, %r2;\nld.shared::cluster.u32 %r11, [%r9];\n{MEET}"
            ),
            |[i, _, _]| i * 100 + 7,
        ),
        (
            "lanes of both blocks",
            format!(
                "{store}and.b32 %r12, %r1, 1;\nmapa.shared::cluster.u32 %r9, %r0, %r12;\nld.shared::cluster.u32 %r13, [%r9];\n\
                 shfl.sync.idx.b32 %r11, %r13, 1, 31, 0xffffffff;\n{MEET}"
            ),
            |[i, _, _]| (i / 2 * 2 + 1) * 100 + 7,
        ),
    ] {
        let body = format!("{body}\nst.global.u32 [%d1], %r11;");
        let result =
            run([6, 1, 1], [2, 1, 1], &body).unwrap_or_else(|kind| panic!("{what}: {kind}"));
        assert_eq!(result, expected([6, 1, 1], value), "{what}");
    }
}

/// Block 1 stores to block 0 and arrives at its barrier; block 0 waits for that.
#[test]
fn a_block_waits_at_a_barrier_for_another_one() {
    let body = |arrive: &str| {
        format!(
            "setp.eq.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %r2, 0;\nand.pred %p3, %p1, %p2;\n\
             @%p3 mbarrier.init.shared.b64 [%r0], 1;\n{MEET}mapa.shared::cluster.u32 %r9, %r0, 0;\n@%p2 bra WAIT;\n\
             mov.u32 %r10, 77;\n@%p1 st.shared::cluster.u32 [%r9+8], %r10;\n@%p1 {arrive}\nbra END;\n\
             WAIT:\nmbarrier.try_wait.parity.shared.b64 %p4, [%r0], 0;\n@!%p4 bra WAIT;\nld.shared.u32 %r10, [%r0+8];\n\
             END:\nst.global.u32 [%d1], %r10;\n{MEET}"
        )
    };
    let arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];";
    assert_eq!(run([2, 1, 1], [2, 1, 1], &body(arrive)).unwrap(), [77; 64]);
    let FaultKind::Deadlock { barriers } =
        *run([2, 1, 1], [2, 1, 1], &body("bra END;")).unwrap_err()
    else {
        panic!("a deadlock")
    };
    assert_eq!(
        (barriers[0].arrived, barriers[0].of),
        (0, 1),
        "{barriers:?}"
    );
}

/// `fence.mbarrier_init` and a relaxed arrival pass on that barriers are initialised; a relaxed
/// arrival alone does not.
#[test]
fn a_fence_and_a_relaxed_barrier_order_initialisations() {
    let body = |fence: &str| {
        format!(
            "setp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [%r0], 1;\n{fence}\
             barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n{NEXT}\
             @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];\n\
             WAIT:\nmbarrier.try_wait.parity.shared.b64 %p4, [%r0], 0;\n@!%p4 bra WAIT;\n\
             {MEET}mov.u32 %r10, 5;\nst.global.u32 [%d1], %r10;"
        )
    };
    let fence = "@%p1 fence.mbarrier_init.release.cluster;\n";
    for seed in [None, Some(1), Some(2)] {
        cuda_sim::set_seed(seed);
        let result = run([2, 1, 1], [2, 1, 1], &body(fence));
        assert_eq!(result, Ok(vec![5; 64]), "{seed:?}");
        let kind = run([2, 1, 1], [2, 1, 1], &body("")).unwrap_err();
        assert!(matches!(*kind, FaultKind::BadMbarrier { .. }), "{kind:?}");
    }
    cuda_sim::set_seed(None);
}

/// What a block stores to device memory before the barrier, another one may load behind it.
#[test]
fn the_barrier_orders_device_memory() {
    let body = |meet: &str| {
        format!(
            "st.global.u32 [%d1], %r4;\n{meet}xor.b32 %r9, %r2, 1;\nsub.u32 %r9, %r9, %r2;\n\
             mul.wide.s32 %d2, %r9, 128;\nadd.u64 %d2, %d1, %d2;\nld.global.u32 %r10, [%d2];\n{meet}\
             st.global.u32 [%d1], %r10;"
        )
    };
    let result = run([4, 1, 1], [2, 1, 1], &body(MEET)).unwrap();
    assert_eq!(result, expected([4, 1, 1], |[i, _, _]| i ^ 1));
    for missing in [
        "",
        "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n",
    ] {
        let kind = run([4, 1, 1], [2, 1, 1], &body(missing)).unwrap_err();
        assert!(matches!(*kind, FaultKind::Race(_)), "{missing}: {kind:?}");
    }
}

/// Lane 0 names its own word plainly, the others that of the next block: two places in one access.
#[test]
fn plain_and_mapped_addresses_in_one_access() {
    let own = "setp.eq.u32 %p1, %r1, 0;\nmad.lo.u32 %r10, %r4, 100, 7;\n@%p1 st.shared.u32 [%r0], %r10;\n";
    let sum = "shfl.sync.idx.b32 %r14, %r13, 0, 31, 0xffffffff;\nshfl.sync.idx.b32 %r15, %r13, 1, 31, 0xffffffff;\n\
        add.u32 %r14, %r14, %r15;\nst.global.u32 [%d1], %r14;";
    for mixed in ["%p1", "!%p1"] {
        let body = format!(
            "{own}{MEET}{NEXT}mov.u32 %r12, %r9;\n@{mixed} mov.u32 %r12, %r0;\nld.shared::cluster.u32 %r13, [%r12];\n{MEET}{sum}"
        );
        let result = run([6, 1, 1], [2, 1, 1], &body).unwrap();
        let both = |[i, _, _]: [u32; 3]| (i / 2 * 4 + 1) * 100 + 14;
        assert_eq!(result, expected([6, 1, 1], both), "{mixed}");
    }
}

/// Without a cluster no bits of an address name a block: it is far out of bounds.
#[test]
fn alone_a_block_has_no_peers() {
    for offset in [1u32 << 24, 2 << 24, 9 << 24] {
        let body = format!("ld.shared.u32 %r10, [%r0+{offset}];\nst.global.u32 [%d1], %r10;");
        let kind = run([1, 1, 1], [1, 1, 1], &body).unwrap_err();
        assert!(matches!(*kind, FaultKind::OutOfBounds(_)), "{kind:?}");
    }
}

/// Each cluster waits for a flag that the next one sets. All have room on the device at once.
#[test]
fn clusters_that_wait_for_each_other() {
    let body = format!(
        "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra HERE;\nsub.u32 %r9, %r6, %r3;\nsetp.lt.u32 %p2, %r4, %r9;\nmov.u32 %r10, %r3;\n\
         @!%p2 neg.s32 %r10, %r9;\nmul.wide.s32 %d2, %r10, 128;\nadd.u64 %d2, %d1, %d2;\nmov.u32 %r11, 1;\n\
         atom.release.gpu.exch.b32 %r12, [%d1], %r11;\n\
         WAIT:\nld.acquire.gpu.u32 %r12, [%d2];\nsetp.eq.u32 %p3, %r12, 0;\n@%p3 bra WAIT;\nHERE:\n{MEET}"
    );
    for seed in [None].into_iter().chain((1..=20).map(Some)) {
        cuda_sim::set_seed(seed);
        let result = run([8, 1, 1], [2, 1, 1], &body);
        let flags = (0..8 * 32).map(|i| u32::from(i % 32 == 0)).collect();
        assert_eq!(result, Ok(flags), "{seed:?}");
    }
    cuda_sim::set_seed(None);
}

/// A guard that is false for the whole warp leaves out the barrier.
#[test]
fn a_barrier_that_no_lane_takes() {
    let never = "setp.gt.u32 %p1, %r1, 31;\n@%p1 barrier.cluster.arrive.aligned;\n@%p1 barrier.cluster.wait.aligned;\n";
    let body = format!("{never}{MEET}mov.u32 %r9, 3;\nst.global.u32 [%d1], %r9;");
    assert_eq!(run([4, 1, 1], [2, 1, 1], &body).unwrap(), [3; 128]);
}

/// Lane 0 of block 0 is late at the barrier: it waits for an arrival of the other block. The rest
/// of its warp waits there for it.
#[test]
fn lanes_come_to_the_barrier_one_after_the_other() {
    let body = format!(
        "setp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [%r0], 1;\n{MEET}mapa.shared::cluster.u32 %r9, %r0, 0;\n\
         setp.ne.u32 %p2, %r2, 0;\n@%p2 bra ARRIVE;\n@!%p1 bra HERE;\n\
         WAIT:\nmbarrier.try_wait.parity.shared.b64 %p4, [%r0], 0;\n@!%p4 bra WAIT;\nbra HERE;\n\
         ARRIVE:\n@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];\n\
         HERE:\n{MEET}mov.u32 %r10, 4;\nst.global.u32 [%d1], %r10;"
    );
    for seed in [None, Some(1), Some(2), Some(3)] {
        cuda_sim::set_seed(seed);
        assert_eq!(
            run([2, 1, 1], [2, 1, 1], &body),
            Ok(vec![4; 64]),
            "{seed:?}"
        );
    }
    cuda_sim::set_seed(None);
}

/// Shared memory of another block, with what orders the two sides and without.
#[test]
fn accesses_of_two_blocks_are_ordered_or_race() {
    let store = "@%p1 st.shared.u32 [%r0], %r4;\n";
    let load = "ld.shared::cluster.u32 %r10, [%r9];\n";
    let put = "@%p1 st.shared::cluster.u32 [%r9], %r4;\n";
    let add = "@%p1 red.shared::cluster.add.u32 [%r9], 1;\n";
    let get = "ld.shared.u32 %r10, [%r0];\n";
    let relaxed = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n";
    let warp = "bar.warp.sync 0xffffffff;\n";
    // Before and behind the first access, which the first barrier allows, and the last.
    for (first, between, second, races) in [
        (store, MEET, load, None),
        (store, warp, load, Some((false, true))),
        (load, MEET, store, None),
        (load, warp, store, Some((true, false))),
        (put, MEET, get, None),
        (put, warp, get, Some((false, true))),
        (get, MEET, put, None),
        (get, warp, put, Some((true, false))),
        (put, warp, store, Some((true, true))),
        (add, warp, add, None),
        (add, MEET, get, None),
        (add, warp, get, Some((false, true))),
        (put, "", put, None),
        (store, relaxed, load, Some((false, true))),
    ] {
        let body = format!(
            "setp.eq.u32 %p1, %r1, 0;\nmov.u32 %r10, 0;\n@%p1 st.shared.u32 [%r0], %r10;\n{MEET}{NEXT}\
             {first}{between}{second}{MEET}"
        );
        for seed in [None, Some(1), Some(2)] {
            cuda_sim::set_seed(seed);
            let what = format!("{first}{between}{second}{seed:?}");
            match (run([2, 1, 1], [2, 1, 1], &body), races) {
                (Ok(_), None) => {}
                (Err(kind), Some(sides)) => match *kind {
                    FaultKind::Race(race) => {
                        // Which side comes first depends on the order of the blocks.
                        let found = (race.access.write, race.other.write);
                        assert!(
                            found == sides || found == (sides.1, sides.0),
                            "{what}: {race:?}"
                        );
                        assert!(!race.within_block, "{what}: {race:?}");
                        assert!(
                            race.other.block.is_some()
                                && (race.other.thread.is_some() || !race.other.write),
                            "{what}: {race:?}"
                        );
                    }
                    other => panic!("{what}: {other:?}"),
                },
                (result, _) => panic!("{what}: {result:?}"),
            }
        }
    }
    cuda_sim::set_seed(None);
}

/// A block sets a flag in another one's shared memory, or in its own: both are seen.
#[test]
fn flags_in_shared_memory_order_blocks() {
    let at = |rank: u32| format!("mapa.shared::cluster.u32 %r9, %r0, {rank};\n");
    for home in [0, 1] {
        for (release, acquire, is_ordered) in [
            (".release.cluster", ".acquire.cluster", true),
            (".relaxed.cluster", ".acquire.cluster", false),
        ] {
            // Block 0 stores a word in its own memory and sets the flag; block 1 reads the word.
            let body = format!(
                "setp.ne.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %r2, 0;\nmov.u32 %r10, 0;\n@!%p1 st.shared.u32 [%r0], %r10;\n\
                 @!%p1 st.shared.u32 [%r0+8], %r10;\n{MEET}{}@%p1 bra END;\nmov.u32 %r11, 77;\n@!%p2 bra READ;\n\
                 st.shared.u32 [%r0+8], %r11;\nst{release}.shared::cluster.u32 [%r9], %r11;\nbra END;\n\
                 READ:\nld{acquire}.shared::cluster.u32 %r12, [%r9];\nsetp.eq.u32 %p3, %r12, 0;\n@%p3 bra READ;\n\
                 mapa.shared::cluster.u32 %r13, %r0, 0;\nld.shared::cluster.u32 %r14, [%r13+8];\nst.global.u32 [%d1], %r14;\n\
                 END:\n{MEET}",
                at(home)
            );
            for seed in [None, Some(1), Some(2)] {
                cuda_sim::set_seed(seed);
                match run([2, 1, 1], [2, 1, 1], &body) {
                    Ok(out) => assert!(is_ordered && out[32] == 77, "{home} {release} {seed:?}"),
                    Err(kind) => assert!(
                        !is_ordered && matches!(*kind, FaultKind::Race(_)),
                        "{home} {release} {seed:?}: {kind:?}"
                    ),
                }
            }
        }
    }
    cuda_sim::set_seed(None);
}

/// An access must be ordered before the end of the block whose memory it is, whichever block the
/// simulator runs first.
#[test]
fn blocks_end_behind_the_last_access() {
    let own = "setp.eq.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %r2, 0;\n@%p1 st.shared.u32 [%r0], %r4;\n@%p1 mbarrier.init.shared.b64 [%r0+8], 1;\n";
    for access in [
        "ld.shared::cluster.u32 %r10, [%r9];\n",
        "@%p1 st.shared::cluster.u32 [%r9], %r4;\n",
        "add.u32 %r9, %r9, 8;\n@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];\n",
    ] {
        for early in ["%p2", "!%p2"] {
            let run_with = |end: &str| {
                let body = format!("{own}{MEET}{NEXT}@{early} bra END;\n{access}END:\n{end}");
                run([2, 1, 1], [2, 1, 1], &body)
            };
            assert!(run_with(MEET).is_ok(), "{early} {access}");
            let kind = run_with("").unwrap_err();
            assert!(
                matches!(*kind, FaultKind::BadCluster { .. }),
                "{early} {access} {kind:?}"
            );
        }
    }
}

/// Who observes a relaxed flag of another block knows that it was set, and may end.
#[test]
fn a_relaxed_flag_that_was_seen_is_no_late_access() {
    let body = |set: &str| {
        format!(
            "setp.ne.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %r2, 0;\nmov.u32 %r10, 0;\n@!%p1 st.shared.u32 [%r0], %r10;\n\
             {MEET}{NEXT}@%p1 bra END;\n@!%p2 bra WAIT;\nmov.u32 %r11, 1;\nfence.acq_rel.cluster;\n{set}\nbra END;\n\
             WAIT:\nld.relaxed.cluster.shared::cluster.u32 %r12, [%r0];\nsetp.eq.u32 %p3, %r12, 0;\n@%p3 bra WAIT;\n\
             fence.acq_rel.cluster;\nEND:\n"
        )
    };
    for set in [
        "st.relaxed.cluster.shared::cluster.u32 [%r9], %r11;",
        "atom.relaxed.cluster.shared::cluster.add.u32 %r12, [%r9], %r11;",
    ] {
        for seed in [None, Some(1), Some(2)] {
            cuda_sim::set_seed(seed);
            let result = run([2, 1, 1], [2, 1, 1], &body(set));
            assert!(result.is_ok(), "{set} {seed:?}: {result:?}");
        }
    }
    cuda_sim::set_seed(None);
}

/// A barrier of the block between them hides no read from another block's store.
#[test]
fn a_read_before_the_own_barrier_may_race_with_another_block() {
    let body = |order: &str| {
        format!(
            "setp.eq.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %r2, 0;\n@%p1 st.shared.u32 [%r0], %r4;\n{MEET}{NEXT}\
             @%p2 bra STORE;\nld.shared.u32 %r10, [%r0];\nbar.sync 0;\n{order}bra END;\n\
             STORE:\n{order}@%p1 st.shared::cluster.u32 [%r9], %r4;\nEND:\n{MEET}"
        )
    };
    for seed in [None, Some(1), Some(2), Some(3)] {
        cuda_sim::set_seed(seed);
        assert!(run([2, 1, 1], [2, 1, 1], &body(MEET)).is_ok(), "{seed:?}");
        let kind = run([2, 1, 1], [2, 1, 1], &body("")).unwrap_err();
        assert!(matches!(*kind, FaultKind::Race(_)), "{seed:?}: {kind:?}");
    }
    cuda_sim::set_seed(None);
}

/// Bytes without a value that go to another block count as written there.
#[test]
fn unset_bytes_go_to_another_block() {
    for stored in [
        "ld.shared.u32 %r10, [%r0+16];\nst.shared::cluster.u32 [%r9], %r10;\n",
        "mapa.shared::cluster.u32 %r9, %r0, %r2;\nld.shared.u32 %r10, [%r0+16];\nst.shared::cluster.u32 [%r9], %r10;\n",
        "st.shared::cluster.v2.u32 [%r9], {%r1, %r19};\n",
    ] {
        let body =
            format!("{MEET}{NEXT}setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\n{stored}END:\n{MEET}");
        let result = run([2, 1, 1], [2, 1, 1], &body);
        assert!(result.is_ok(), "{stored}: {result:?}");
    }
}

#[test]
fn mistakes_are_told() {
    let read = "ld.shared::cluster.u32 %r10, [%r9];\n";
    let far = "mapa.shared::cluster.u32 %r9, %r0, 2;\n";
    let split = "setp.eq.u32 %p1, %r2, 0;\n";
    for (body, words) in [
        (format!("{NEXT}{read}"), "before a barrier"),
        (format!("{MEET}{far}{read}"), "no block 2 in a cluster of 2"),
        (
            format!(
                "{split}{MEET}{NEXT}@%p1 bra END;\nmov.u32 %r11, 50000;\nAGAIN: nanosleep.u32 20;\n\
                 sub.u32 %r11, %r11, 1;\nsetp.ne.u32 %p2, %r11, 0;\n@%p2 bra AGAIN;\n{read}END:"
            ),
            "block 0 is accessed, which has ended",
        ),
        (
            "barrier.cluster.arrive;\nbarrier.cluster.arrive;".to_owned(),
            "arrives at the barrier of the cluster twice",
        ),
        ("barrier.cluster.wait;".to_owned(), "has not arrived"),
    ] {
        let kind = run([2, 1, 1], [2, 1, 1], &body).unwrap_err();
        assert!(
            matches!(&*kind, FaultKind::BadCluster { what } if what.contains(words)),
            "{words}: {kind:?}"
        );
    }
    // Alone, a block is its own cluster.
    let alone = format!("{MEET}mov.u32 %r9, 5;\nst.global.u32 [%d1], %r9;");
    assert_eq!(run([2, 1, 1], [1, 1, 1], &alone).unwrap(), [5; 64]);
    let waits = format!("{split}@%p1 bra END;\n{MEET}END:");
    assert!(
        run([2, 1, 1], [2, 1, 1], &waits).is_ok(),
        "who has ended is not waited for"
    );
    let waits = format!("{split}@%p1 bra OTHER;\n{MEET}bra END;\nOTHER: bar.sync 1, 64;\nEND:");
    let kind = run([2, 1, 1], [2, 1, 1], &waits).unwrap_err();
    assert!(matches!(*kind, FaultKind::Deadlock { .. }), "{kind:?}");
}

#[test]
#[should_panic(expected = "CUDA_ERROR_INVALID_CLUSTER_SIZE")]
fn a_cluster_divides_the_grid() {
    let _ = run([3, 1, 1], [2, 1, 1], "");
}

#[test]
#[should_panic(expected = "CUDA_ERROR_INVALID_CLUSTER_SIZE")]
fn a_cluster_has_at_most_eight_blocks() {
    let _ = run([9, 1, 1], [9, 1, 1], "");
}
