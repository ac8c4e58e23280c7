//! Speed of products on one core of the host.

use cuda_sim::MmaMode;

use super::rig::Case;
use crate::instructions::matrix::random;

/// Products of a turn of the loop, and turns.
const PRODUCTS: usize = 4;
const TURNS: usize = 500;

/// Processor time of this process, in seconds.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[test]
#[ignore = "measures; meant for a build at full optimisation"]
fn multiply_adds_per_second() {
    let types = [
        ("f16", "f16", "f32"),
        ("f16", "f16", "f16"),
        ("bf16", "bf16", "f32"),
        ("tf32", "tf32", "f32"),
        ("e4m3", "e4m3", "f32"),
        ("s8", "s8", "s32"),
    ];
    for (a, b, sums) in types {
        for fragments in [false, true] {
            let case = Case {
                fragments,
                ..Case::new(a, b, sums, 256)
            };
            let mut bits = random(1);
            let mut small = || bits() & 0x8383_8383 | 0x3030_3030;
            let matrices = case.matrices(&mut small, || 0);
            let (image, descriptors) = case.shared(&matrices);
            let body = |turns: usize| {
                format!(
                    "mov.u32 %r1020, 0;\nagain:\nwgmma.fence.sync.aligned;\n{}wgmma.commit_group.sync.aligned;\n\
                     wgmma.wait_group.sync.aligned 0;\nadd.u32 %r1020, %r1020, 1;\n\
                     setp.lt.u32 %p5, %r1020, {turns};\n@%p5 bra again;\n",
                    case.instruction().repeat(PRODUCTS)
                )
            };
            for (mode, checks) in [
                (MmaMode::Fast, false),
                (MmaMode::Fast, true),
                (MmaMode::Exact, true),
            ] {
                cuda_sim::set_mma(Some(mode));
                cuda_sim::set_checks(Some(checks));
                let turns = if mode == MmaMode::Exact {
                    TURNS / 10
                } else {
                    TURNS
                };
                let seconds = |turns: usize| {
                    let before = processor_seconds();
                    case.run_body(&body(turns), 128, &image, descriptors, &matrices)
                        .unwrap();
                    processor_seconds() - before
                };
                // The best of a few, without what does not repeat.
                let best = |turns| (0..5).map(|_| seconds(turns)).fold(f64::MAX, f64::min);
                let taken = best(turns + 1) - best(1);
                let work = (turns * PRODUCTS * 64 * 256 * case.depth()) as f64;
                println!(
                    "{a} {sums}, A in {}, {mode:?}, checks {checks}: {:.1} G multiply-adds/s",
                    if fragments {
                        "registers"
                    } else {
                        "shared memory"
                    },
                    work / taken / 1e9
                );
            }
        }
    }
    cuda_sim::set_mma(None);
    cuda_sim::set_checks(None);
}
