//! Barriers in shared memory, by one thread: every operation against a count of arrivals and bytes
//! that the test keeps.

use std::fmt::Write as _;

use cuda_sim::FaultKind;
use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::rig::stream;

/// Runs `body` in one thread, with the barrier's address in `%r0` and, as a generic one, in `%d0`.
/// Returns the words that it stored from `[%d1]` on, or its fault.
fn run(body: &str, words: usize) -> Result<Vec<u32>, Box<FaultKind>> {
    run_threads(1, body, words)
}

/// The same in a block of `threads`.
fn run_threads(threads: u32, body: &str, words: usize) -> Result<Vec<u32>, Box<FaultKind>> {
    let stream = stream();
    let text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 out)\n{{\n\
         .shared .align 8 .b8 barrier[16];\n.reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.reg .b64 %s<9>;\n\
         ld.param.u64 %d1, [out];\nmov.u32 %r0, barrier;\nmov.u64 %d2, barrier;\ncvta.shared.u64 %d0, %d2;\n{body}\nret;\n}}\n"
    );
    let kernel = stream.context().load_module(Ptx::from_src(text));
    let kernel = kernel.unwrap().load_function("t").unwrap();
    let mut out = stream.alloc_zeros::<u32>(words.max(1)).unwrap();
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut out);
    let shape = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the argument is the kernel's, which stores that many words.
    match unsafe { launch.launch(shape) } {
        Ok(_) => Ok(stream.clone_dtoh(&out).unwrap()),
        Err(_) => Err(Box::new(cuda_sim::take_fault().expect("a fault").kind)),
    }
}

/// The test's copy of a barrier.
struct Model {
    count: u32,
    pending: u32,
    bytes: i64,
    phase: u32,
}

impl Model {
    fn settle(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            (self.pending, self.phase) = (self.count, self.phase + 1);
        }
    }
}

/// Random operations, those that are allowed, and what each must give.
#[test]
fn arrivals_and_bytes_end_phases() {
    for seed in 1..9u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |n: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as u32 % n
        };
        let count = 1 + random(6);
        let mut model = Model {
            count,
            pending: count,
            bytes: 0,
            phase: 0,
        };
        let mut body = format!("mbarrier.init.shared.b64 [%r0], {count};\n");
        let mut wanted = Vec::new();
        // The phase of the state in %s1.
        let mut held = None;
        for _ in 0..200 {
            let parity = model.phase % 2;
            match random(10) {
                0..=2 if model.pending > 0 => {
                    let count = 1 + random(model.pending);
                    let ends = count == model.pending && model.bytes == 0;
                    let form = if ends { "" } else { ".noComplete" };
                    let _ = writeln!(
                        body,
                        "mbarrier.arrive{form}.shared.b64 %s1, [%r0], {count};"
                    );
                    held = Some(model.phase);
                    body += "mbarrier.pending_count.b64 %r1, %s1;\n";
                    wanted.push(model.pending);
                    model.pending -= count;
                    model.settle();
                }
                3 if model.pending > 0 && model.count > 1 => {
                    body += "mbarrier.arrive_drop.release.cta.b64 _, [%d0];\nmov.u32 %r1, 77;\n";
                    wanted.push(77);
                    model.count -= 1;
                    model.pending -= 1;
                    model.settle();
                }
                4 if model.pending > 0 => {
                    let bytes = 1 + random(900);
                    let _ = writeln!(
                        body,
                        "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r0], {bytes};\nmov.u32 %r1, 78;"
                    );
                    wanted.push(78);
                    model.bytes += i64::from(bytes);
                    model.pending -= 1;
                    model.settle();
                }
                5 => {
                    // Bytes may come before they are expected.
                    let bytes = match random(2) {
                        0 if model.bytes > 0 => model.bytes,
                        _ => 1 + i64::from(random(300)),
                    };
                    let _ = writeln!(
                        body,
                        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r0], {bytes};\nmov.u32 %r1, 79;"
                    );
                    wanted.push(79);
                    model.bytes -= bytes;
                    model.settle();
                }
                6 => {
                    let parity = random(2);
                    let _ = writeln!(
                        body,
                        "mbarrier.try_wait.parity.shared.b64 %p1, [%r0], {parity}, 1000;\nselp.u32 %r1, 1, 0, %p1;"
                    );
                    wanted.push(u32::from(parity != model.phase % 2));
                }
                7 if held.is_some_and(|phase| phase + 1 >= model.phase) => {
                    body += "mbarrier.test_wait.acquire.cta.shared.b64 %p1, [%r0], %s1;\nselp.u32 %r1, 1, 0, %p1;\n";
                    wanted.push(u32::from(held != Some(model.phase)));
                }
                8 if model.bytes < 0 => {
                    let bytes = match random(2) {
                        0 => -model.bytes,
                        _ => 1 + i64::from(random(300)),
                    };
                    let _ = writeln!(
                        body,
                        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], {bytes};\nmov.u32 %r1, 80;"
                    );
                    wanted.push(80);
                    model.bytes += bytes;
                    model.settle();
                }
                _ => {
                    let _ = writeln!(
                        body,
                        "mbarrier.test_wait.parity.b64 %p1, [%d0], {parity};\nselp.u32 %r1, 1, 0, %p1;"
                    );
                    wanted.push(0);
                }
            }
            let _ = writeln!(body, "st.global.u32 [%d1+{}], %r1;", 4 * (wanted.len() - 1));
        }
        assert!(model.phase > 10, "{}", model.phase);
        let got = run(&body, wanted.len());
        assert_eq!(got, Ok(wanted), "seed {seed}\n{body}");
    }
}

#[test]
fn what_a_barrier_does_not_allow() {
    let init = "mbarrier.init.shared.b64 [%r0], 3;";
    for (body, what) in [
        ("mbarrier.init.shared.b64 [%r0], 0;", "a count of 0"),
        (
            "mbarrier.init.shared.b64 [%r0], 1048576;",
            "a count of 1048576",
        ),
        ("mbarrier.arrive.shared.b64 %s1, [%r0];", "not initialised"),
        (
            "st.shared.u64 [%r0], 5;\nmbarrier.arrive.shared.b64 %s1, [%r0];",
            "something else was stored",
        ),
        (
            "{init}\nmbarrier.inval.shared.b64 [%r0];\nmbarrier.test_wait.parity.shared.b64 %p1, [%r0], 0;",
            "was invalidated",
        ),
        (
            "{init}\nmbarrier.arrive.shared.b64 %s1, [%r0], 4;",
            "4 arrivals, but the phase waits for 3 more",
        ),
        (
            "{init}\nmbarrier.arrive.noComplete.shared.b64 %s1, [%r0], 3;",
            ".noComplete",
        ),
        (
            "{init}\nmbarrier.arrive_drop.shared.b64 %s1, [%r0], 3;\nmbarrier.arrive.shared.b64 %s1, [%r0];",
            "1 arrivals, but the phase waits for 0 more",
        ),
        (
            "{init}\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 1048576;",
            "1048576 bytes",
        ),
        ("mbarrier.arrive.b64 %s1, [%d1];", "not in shared memory"),
        (
            "{init}\nmov.u64 %s1, 0;\nmbarrier.test_wait.shared.b64 %p1, [%r0], %s1;",
            "no state",
        ),
    ] {
        let body = body.replace("{init}", init);
        match *run(&body, 2).unwrap_err() {
            FaultKind::BadMbarrier { what: found } => {
                assert!(found.contains(what), "{body}: {found}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    let after = format!(
        "{init}\nmbarrier.inval.shared.b64 [%r0];\nld.shared.u32 %r1, [%r0];\nst.global.u32 [%d1], %r1;"
    );
    let kind = run(&after, 1).unwrap_err();
    assert!(matches!(*kind, FaultKind::UninitialisedRead(_)), "{kind:?}");
    let misaligned = "add.u32 %r0, %r0, 4;\nmbarrier.init.shared.b64 [%r0], 1;";
    let kind = run(misaligned, 1).unwrap_err();
    assert!(matches!(*kind, FaultKind::Misaligned(_)), "{kind:?}");
}

/// Where nothing but the barrier can end the loop. A counter, the clock or other memory may.
#[test]
fn a_phase_that_nobody_ends_is_a_deadlock() {
    let kind = |more: &str| {
        let body = format!(
            "mbarrier.init.shared.b64 [%r0], 2;\nmbarrier.arrive.shared.b64 %s1, [%r0];\nmov.u32 %r2, 0;\n\
             again:\nmbarrier.test_wait.parity.shared.b64 %p1, [%r0], 0;\n{more}\n@!%p1 bra again;"
        );
        cuda_sim::set_budget(Some(1 << 16));
        let kind = run(&body, 1).unwrap_err();
        cuda_sim::set_budget(None);
        kind
    };
    for more in ["", "nanosleep.u32 20;", "mov.u32 %r2, 1;"] {
        let FaultKind::Deadlock { barriers } = *kind(more) else {
            panic!("{more}: {:?}", kind(more));
        };
        let [waited] = &barriers[..] else {
            panic!("{more}: {barriers:?}");
        };
        assert!(
            waited.arrived < waited.of && waited.missing_bytes == 0,
            "{waited:?}"
        );
    }
    for more in [
        "st.shared.u32 [%r0+8], %r2;",
        "add.u32 %r2, %r2, 1;",
        "mov.u32 %r2, %clock;",
        "ld.volatile.global.u32 %r2, [%d1];",
    ] {
        let kind = kind(more);
        assert!(
            matches!(*kind, FaultKind::Runaway { .. }),
            "{more}: {kind:?}"
        );
    }
}

/// The clock's register holds something else at the end of each round.
#[test]
fn a_loop_that_ends_by_the_clock_is_no_deadlock() {
    let body = "mbarrier.init.shared.b64 [%r0], 2;\nmov.u32 %r1, 9;\n\
        again:\nmov.u32 %r2, %clock;\nsetp.gt.u32 %p2, %r2, 1000000;\n@%p2 bra over;\nshl.b32 %r2, %r1, 0;\n\
        mbarrier.test_wait.parity.shared.b64 %p1, [%r0], 0;\nadd.u32 %r3, %r2, 1;\n@!%p1 bra again;\n\
        over:\nst.global.u32 [%d1], %r1;";
    assert_eq!(run(body, 1), Ok(vec![9]));
}

/// A test of a phase that is not over orders nothing, also behind a fence: the store is not ordered
/// before the read.
#[test]
fn a_wait_in_vain_releases_nothing() {
    let body = "mov.u32 %r2, %tid.x;\nshr.u32 %r3, %r2, 5;\nmov.u32 %r6, 0;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\n\
        mbarrier.init.shared.b64 [%r0], 32;\nREADY:\nbar.sync 0;\n\
        setp.eq.u32 %p2, %r3, 0;\n@%p2 bra STORE;\nsetp.eq.u32 %p2, %r3, 1;\n@%p2 bra ARRIVE;\n\
        WAIT:\nmbarrier.test_wait.parity.shared.b64 %p3, [%r0], 0;\n@!%p3 bra WAIT;\nld.shared.u32 %r6, [%r0+8];\nbra DONE;\n\
        STORE:\n@%p1 bra DONE;\nst.shared.u32 [%r0+8], %r2;\nfence.acq_rel.cta;\n\
        mbarrier.test_wait.parity.shared.b64 %p3, [%r0], 0;\nbra DONE;\n\
        ARRIVE:\nmov.u32 %r4, 0;\nDELAY:\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p4, %r4, 200000;\n@%p4 bra DELAY;\n\
        mbarrier.arrive.shared.b64 _, [%r0];\nDONE:";
    let kind = run_threads(96, body, 1).unwrap_err();
    assert!(matches!(*kind, FaultKind::Race(_)), "{kind:?}");
}

#[test]
fn forms_that_ptx_does_not_have_are_unknown() {
    for body in [
        "mbarrier.init.shared.b32 [%r0], 3;",
        "mbarrier.init.global.b64 [%d1], 3;",
        "mbarrier.arrive.parity.shared.b64 %s1, [%r0];",
        "mbarrier.arrive.noComplete.shared.b64 %s1, [%r0];",
        "mbarrier.test_wait.shared.b64 %p1, [%r0], %r1;",
        "mbarrier.wait.shared.b64 %p1, [%r0], %s1;",
        "mbarrier.inval.noComplete.shared.b64 [%r0];",
        "mbarrier.init.acquire.cta.shared.b64 [%r0], 3;",
        "mbarrier.arrive.acquire.cta.shared.b64 %s1, [%r0];",
        "mbarrier.test_wait.release.cta.shared.b64 %p1, [%r0], %s1;",
    ] {
        let kind = run(body, 1).unwrap_err();
        let is_unknown = matches!(*kind, FaultKind::UnknownInstruction { .. });
        assert!(is_unknown, "{body}: {kind:?}");
    }
}

/// One warp stores for another one: a relaxed arrival releases what came before the fence before
/// it.
#[test]
fn a_relaxed_arrival_needs_a_fence() {
    let body = |fence: &str, order: &str| {
        format!(
            ".shared .align 128 .b8 tile[128];\nmov.u32 %r2, %tid.x;\nand.b32 %r3, %r2, 31;\nmul.lo.u32 %r4, %r3, 4;\n\
             mov.u32 %r5, tile;\nadd.u32 %r5, %r5, %r4;\ncvt.u64.u32 %d3, %r4;\nadd.u64 %d1, %d1, %d3;\n\
             setp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\nmbarrier.init.shared.b64 [%r0], 32;\nREADY:\nbar.sync 0;\n\
             setp.lt.u32 %p2, %r2, 32;\n@!%p2 bra WAIT;\nst.shared.u32 [%r5], %r2;\n{fence}\n\
             mbarrier.arrive{order}.shared.b64 _, [%r0];\nbra DONE;\n\
             WAIT:\nmbarrier.test_wait.parity.shared.b64 %p3, [%r0], 0;\n@!%p3 bra WAIT;\n\
             xor.b32 %r5, %r5, 4;\nld.shared.u32 %r6, [%r5];\nst.global.u32 [%d1], %r6;\nDONE:"
        )
    };
    let swapped: Vec<u32> = (0..32).map(|lane| lane ^ 1).collect();
    for (fence, order) in [
        ("", ""),
        ("", ".release.cta"),
        ("fence.acq_rel.cta;", ".relaxed.cta"),
    ] {
        let got = run_threads(64, &body(fence, order), 32);
        assert_eq!(got, Ok(swapped.clone()), "{fence} {order}");
    }
    let kind = run_threads(64, &body("", ".relaxed.cta"), 32).unwrap_err();
    assert!(matches!(*kind, FaultKind::Race(_)), "{kind:?}");
}

/// A warp that waits is counted once, however long it waits.
#[test]
fn counters_do_not_depend_on_how_long_a_warp_waits() {
    let body = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\nsetp.eq.u32 %p2, %r1, 0;\n\
                @%p2 mbarrier.init.shared.b64 [%r0], 1;\nbar.sync 0;\n@%p1 bra WAIT;\n\
                mov.u32 %r2, 3000;\nWORK: sub.u32 %r2, %r2, 1;\nsetp.ne.u32 %p3, %r2, 0;\n@%p3 bra WORK;\n\
                setp.eq.u32 %p2, %r1, 32;\n@%p2 mbarrier.arrive.shared.b64 _, [%r0];\nbra END;\n\
                WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r0], 0;\n@!%p4 bra WAIT;\nEND:";
    let counts: Vec<_> = (0..8)
        .map(|seed| {
            cuda_sim::set_seed(Some(seed));
            let (result, launches) = cuda_sim::profile(|| run_threads(64, body, 1));
            result.unwrap();
            let total = &launches[0].total;
            let slowest = launches[0].slowest_warps;
            (total.warp_instructions, total.shared().requests, slowest)
        })
        .collect();
    cuda_sim::set_seed(None);
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    // The warp that works has a chain of 3000 rounds of 4 clocks or more; the other has none.
    let slowest = counts[0].2;
    assert!((12_000..20_000).contains(&slowest), "{slowest}");
}

/// Two halves of a warp rest at two barriers. Warp 1 ends the phase of the second alone; those who
/// wait for it end that of the first.
#[test]
fn parts_of_a_warp_rest_apart() {
    let body = "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [%r0], 1;\n\
        @%p1 mbarrier.init.shared.b64 [%r0+8], 1;\nbar.sync 0;\nsetp.ge.u32 %p1, %r1, 32;\n@%p1 bra OTHER;\n\
        setp.ge.u32 %p2, %r1, 16;\n@%p2 bra SECOND;\n\
        WAIT1: mbarrier.try_wait.parity.shared.b64 %p4, [%r0], 0;\n@!%p4 bra WAIT1;\nbra END;\n\
        SECOND: mbarrier.try_wait.parity.shared.b64 %p4, [%r0+8], 0;\n@!%p4 bra SECOND;\n\
        setp.eq.u32 %p3, %r1, 16;\n@%p3 mbarrier.arrive.shared.b64 _, [%r0];\nbra END;\n\
        OTHER: setp.eq.u32 %p3, %r1, 32;\n@%p3 mbarrier.arrive.shared.b64 _, [%r0+8];\n\
        END: st.global.u32 [%d1], 7;";
    for seed in 0..20 {
        cuda_sim::set_seed(Some(seed));
        assert_eq!(run_threads(64, body, 1), Ok(vec![7]), "{seed}");
    }
    cuda_sim::set_seed(None);
}

/// A `try_wait` may be false. Who asks once and then sets the flag that the other warp waits for
/// before it arrives, ends.
#[test]
fn a_try_in_vain_has_an_answer() {
    let body = "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [%r0], 1;\n\
        mov.u32 %r2, 0;\n@%p1 st.shared.u32 [%r0+8], %r2;\nbar.sync 0;\nsetp.ge.u32 %p1, %r1, 32;\n\
        and.b32 %r3, %r1, 31;\nsetp.ne.u32 %p2, %r3, 0;\n@%p2 bra END;\n@%p1 bra OTHER;\n\
        mbarrier.try_wait.parity.shared.b64 %p4, [%r0], 0;\nmov.u32 %r2, 5;\nst.volatile.shared.u32 [%r0+8], %r2;\n\
        WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r0], 0;\n@!%p4 bra WAIT;\nst.global.u32 [%d1], %r2;\nbra END;\n\
        OTHER: ld.volatile.shared.u32 %r4, [%r0+8];\nsetp.eq.u32 %p3, %r4, 0;\n@%p3 bra OTHER;\n\
        mbarrier.arrive.shared.b64 _, [%r0];\nEND:";
    for seed in 0..20 {
        cuda_sim::set_seed(Some(seed));
        assert_eq!(run_threads(64, body, 1), Ok(vec![5]), "{seed}");
    }
    cuda_sim::set_seed(None);
}
