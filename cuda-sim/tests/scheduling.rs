//! Threads, warps, blocks and launches that wait for each other, or for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sim::FaultKind;
use cudarc::driver::sys::CUresult;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use rayon::prelude::*;

fn stream() -> Arc<CudaStream> {
    cuda_sim::install().unwrap();
    CudaContext::new(0).unwrap().default_stream()
}

/// The function behind `assert`, and its texts: "x > 0" and "/k/a/b.cu".
const ASSERT: &str = ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n\
                      .global .b8 words[6] = {120, 32, 62, 32, 48, 0};\n\
                      .global .b8 file[10] = {47, 107, 47, 97, 47, 98, 46, 99, 117, 0};";

/// A kernel `t` with one parameter, the address of a buffer, in `%d1`.
fn kernel(stream: &CudaStream, body: &str) -> Result<CudaFunction, DriverError> {
    let text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n{ASSERT}\n.visible .entry t(.param .u64 p)\n{{\n.reg .pred %p<9>;\n\
         .reg .b32 %r<9>;\n.reg .b64 %d<9>;\nld.param.u64 %d1, [p];\n{body}\nret;\n}}\n"
    );
    stream
        .context()
        .load_module(Ptx::from_src(text))?
        .load_function("t")
}

fn shape(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// Runs `body` on a zeroed buffer of 64 words.
fn run(body: &str, shape: LaunchConfig) -> Result<Vec<u32>, DriverError> {
    let stream = stream();
    let kernel = kernel(&stream, body)?;
    let mut buffer = stream.alloc_zeros::<u32>(64)?;
    // SAFETY: the bodies below stay within 64 words.
    unsafe {
        stream
            .launch_builder(&kernel)
            .arg(&mut buffer)
            .launch(shape)
    }?;
    stream.clone_dtoh(&buffer)
}

#[test]
fn an_endless_loop_in_a_large_grid_ends_within_the_budget_of_one_warp() {
    cuda_sim::set_budget(Some(1 << 24));
    let error = run("LOOP:\nbra LOOP;", shape(4096, 256)).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
    assert_eq!(
        cuda_sim::take_fault().unwrap().kind,
        FaultKind::Runaway { budget: 1 << 24 }
    );
}

#[test]
fn a_large_grid_that_waits_for_a_word_that_nobody_writes_ends_within_one_budget() {
    cuda_sim::set_budget(Some(1 << 20));
    let body =
        "WAIT:\nld.volatile.global.u32 %r1, [%d1];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;";
    let error = run(body, shape(300, 256)).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
    let fault = cuda_sim::take_fault().unwrap();
    assert_eq!(fault.kind, FaultKind::Runaway { budget: 1 << 20 });
}

#[test]
fn grids_of_any_size_that_wait_for_ever_end_within_a_small_budget() {
    let budget = 1 << 18;
    cuda_sim::set_budget(Some(budget));
    // One thread of each block waits; then all of them do, with a barrier in each round.
    let one = "mov.u32 %r2, %tid.x;\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra DONE;\n\
               WAIT:\natom.global.add.u32 %r1, [%d1], 0;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;\nDONE:";
    let all = "WAIT:\nld.volatile.global.u32 %r1, [%d1];\nbar.sync 0;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;";
    for blocks in [1025, 5000, 100_000] {
        for body in [one, all] {
            let error = run(body, shape(blocks, 64)).unwrap_err();
            assert_eq!(error.0, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
            let kind = cuda_sim::take_fault().unwrap().kind;
            let resident = 132 * 32;
            let left = u64::from(blocks).saturating_sub(resident);
            if left == 0 {
                assert_eq!(kind, FaultKind::Runaway { budget });
            } else {
                assert_eq!(kind, FaultKind::GridDeadlock { resident, left });
            }
        }
    }
    cuda_sim::set_budget(None);
}

/// The fault of `body`, after a check of the error that stands for it.
fn fault(body: &str, shape: LaunchConfig, code: CUresult) -> FaultKind {
    let error = run(body, shape).unwrap_err();
    assert_eq!(error.0, code, "{error}");
    cuda_sim::take_fault().unwrap().kind
}

#[test]
fn warps_at_different_barriers_are_a_deadlock() {
    let body = "mov.u32 %r1, %tid.x;\nshr.u32 %r1, %r1, 5;\nbar.sync %r1;";
    let kind = fault(body, shape(1, 64), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    // The whole block must come to a barrier without a count; one warp is at 0, the other at 1.
    assert!(matches!(kind, FaultKind::Deadlock { .. }), "{kind:?}");
}

#[test]
fn a_barrier_with_a_wrong_number_or_count_is_a_fault() {
    let code = CUresult::CUDA_ERROR_LAUNCH_FAILED;
    let kind = fault("bar.sync 0, 33;", shape(1, 64), code);
    assert_eq!(kind, FaultKind::BadBarrier { id: 0, count: 33 });
    let kind = fault("mov.u32 %r1, 16;\nbar.sync %r1;", shape(1, 64), code);
    assert!(
        matches!(kind, FaultKind::BadBarrier { id: 16, .. }),
        "{kind}"
    );
}

#[test]
fn a_trap_and_a_failed_assertion_say_what_they_are() {
    let kind = fault("trap;", shape(1, 32), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    assert_eq!(kind, FaultKind::Trap);
    let body = "mov.u32 %r1, 9;\nmov.u64 %d2, words;\ncvta.global.u64 %d2, %d2;\nmov.u64 %d3, file;\n\
                cvta.global.u64 %d3, %d3;\n{\n.param .b64 q0;\nst.param.b64 [q0], %d2;\n.param .b64 q1;\n\
                st.param.b64 [q1], %d3;\n.param .b32 q2;\nst.param.b32 [q2], %r1;\n.param .b64 q3;\n\
                st.param.b64 [q3], %d3;\n.param .b64 q4;\nst.param.b64 [q4], %d3;\n\
                call.uni __assertfail, (q0, q1, q2, q3, q4);\n}";
    let kind = fault(body, shape(1, 32), CUresult::CUDA_ERROR_ASSERT);
    let (message, place) = ("x > 0".to_string(), "a/b.cu:9".to_string());
    assert_eq!(kind, FaultKind::Assertion { message, place });
}

#[test]
fn blocks_may_wait_for_later_blocks() {
    // All but the last block wait until the last has stored 7.
    let body = "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 299;\n@%p1 bra STORE;\n\
                WAIT:\nld.volatile.global.u32 %r2, [%d1];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra WAIT;\n\
                red.global.add.u32 [%d1+4], 1;\nbra DONE;\nSTORE:\nst.volatile.global.u32 [%d1], 7;\nDONE:";
    let words = run(body, shape(300, 32)).unwrap();
    assert_eq!(words[..2], [7, 299 * 32]);
}

#[test]
fn threads_meet_at_warp_barriers_in_different_branches() {
    let body = "mov.u32 %r1, %laneid;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra LOW;\n\
                bar.warp.sync -1;\nred.global.add.u32 [%d1], 1;\nbra DONE;\n\
                LOW:\nbar.warp.sync 0xffffffff;\nred.global.add.u32 [%d1+4], 1;\nDONE:\nbar.warp.sync -1;";
    assert_eq!(run(body, shape(1, 32)).unwrap()[..2], [16, 16]);
}

#[test]
fn modifiers_with_two_colons_are_part_of_their_instruction() {
    let body = ".shared .align 4 .b32 word;\nst.shared::cta.u32 [word], 5;\nld.shared::cta.u32 %r1, [word];\n\
                ld.global.L1::no_allocate.L2::128B.u32 %r2, [%d1];\nadd.u32 %r1, %r1, %r2;\nst.global.u32 [%d1], %r1;";
    assert_eq!(run(body, shape(1, 1)).unwrap()[0], 5);
}

#[test]
fn more_static_shared_memory_than_a_block_has_is_refused() {
    let error = run(".shared .b8 large[49153];", shape(1, 1)).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_INVALID_PTX);
    assert!(
        error
            .to_string()
            .contains("49153 bytes of static shared memory"),
        "{error}"
    );
    run(".shared .b8 fits[49152];", shape(1, 1)).unwrap();
}

/// A launch holds its stream while it runs; loading and unloading want all streams. With blocks on
/// the host program's own thread pool this stood still for ever.
#[test]
fn launches_go_well_with_a_host_program_that_uses_a_thread_pool() {
    let add = "red.global.add.u32 [%d1], 1;";
    let stream = stream();
    let add_here = kernel(&stream, add).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = stream.alloc_zeros::<u32>(64).unwrap();
            while !done.load(Ordering::Relaxed) {
                // SAFETY: one word is written.
                unsafe {
                    stream
                        .launch_builder(&add_here)
                        .arg(&mut buffer)
                        .launch(shape(64, 64))
                }
                .unwrap();
            }
        });
        (0..60).into_par_iter().for_each(|_| {
            let own = stream.context().new_stream().unwrap();
            let kernel = kernel(&own, add).unwrap();
            let mut buffer = own.alloc_zeros::<u32>(64).unwrap();
            // SAFETY: one word is written.
            unsafe {
                own.launch_builder(&kernel)
                    .arg(&mut buffer)
                    .launch(shape(16, 64))
            }
            .unwrap();
            assert_eq!(own.clone_dtoh(&buffer).unwrap()[0], 16 * 64);
        });
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_clock_counts_what_lies_between_two_looks_at_it() {
    let body = "mov.u32 %r1, %clock;\nadd.u32 %r3, %r1, 1;\nadd.u32 %r3, %r3, %r1;\nadd.u32 %r3, %r3, 2;\n\
                mov.u32 %r2, %clock;\nsub.u32 %r4, %r2, %r1;\nst.global.u32 [%d1], %r4;";
    assert_eq!(run(body, shape(1, 1)).unwrap()[0], 4);
}

#[test]
fn a_race_of_blocks_names_the_thread_of_the_other_one() {
    // Thread t of block b has word (t + shift + step * b) % 32.
    for (shift, step) in [(8, 8), (5, 3), (31, 0)] {
        let place = format!(
            "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r3, %r2, {step}, %r1;\nadd.u32 %r3, %r3, {shift};\n\
             and.b32 %r3, %r3, 31;\nmul.wide.u32 %d2, %r3, 4;\nadd.u64 %d2, %d1, %d2;\nadd.u32 %r4, %r1, %r3;\n\
             mad.lo.u32 %r4, %r2, 100, %r4;\nsetp.eq.u32 %p1, %r2, 0;\n"
        );
        for access in [
            "st.global.u32 [%d2], %r4;",
            "@%p1 ld.global.u32 %r5, [%d2];\n@!%p1 st.global.u32 [%d2], %r4;",
        ] {
            run(&format!("{place}{access}"), shape(2, 32)).unwrap_err();
            let fault = cuda_sim::take_fault().expect("a fault was reported");
            let FaultKind::Race(race) = &fault.kind else {
                panic!("{fault}")
            };
            let other = 1 - fault.block[0];
            let word = (race.access.address / 4 % 32) as u32;
            let thread = |block: u32| [(64 + word - shift - step * block) % 32, 0, 0];
            assert_eq!(fault.thread, thread(fault.block[0]), "{fault}");
            assert_eq!(race.other.block, Some([other, 0, 0]), "{fault}");
            assert_eq!(race.other.thread, Some(thread(other)), "{fault}");
        }
    }
}
