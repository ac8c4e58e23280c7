//! `setmaxnreg` of modules, most of which the simulator has no compiler's report of.

use cuda_sim::FaultKind;
use cudarc::driver::LaunchConfig;
use cudarc::nvrtc::Ptx;

use super::rig::stream;

fn run(threads: u32, body: &str) -> Result<(), Box<FaultKind>> {
    run_with("", threads, body)
}

/// The same, behind the comments of a compiler's report.
fn run_with(report: &str, threads: u32, body: &str) -> Result<(), Box<FaultKind>> {
    let stream = stream();
    let text = format!(
        "{report}.version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry t()\n.maxntid {threads}\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<9>;\n\
         mov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    );
    let kernel = stream.context().load_module(Ptx::from_src(text));
    let kernel = kernel.unwrap().load_function("t").unwrap();
    let shape = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel has no arguments.
    match unsafe { stream.launch_builder(&kernel).launch(shape) } {
        Ok(_) => Ok(()),
        Err(error) => match cuda_sim::take_fault() {
            Some(fault) => Err(Box::new(fault.kind)),
            None => panic!("{error}"),
        },
    }
}

/// Warps 0 to 3 give registers back, the others take them.
fn split(less: u32, more: u32) -> String {
    format!(
        "setp.ge.u32 %p1, %r1, 128;\n@%p1 bra MORE;\nsetmaxnreg.dec.sync.aligned.u32 {less};\nbra END;\n\
         MORE: setmaxnreg.inc.sync.aligned.u32 {more};\nEND:"
    )
}

#[test]
fn registers_move_between_warps() {
    // 65,536 registers are 256 each at 256 threads, 168 at 384 and 128 at 512.
    for (threads, less, more) in [
        (256, 40, 232),
        (256, 24, 240),
        (384, 24, 240),
        (512, 32, 160),
    ] {
        assert_eq!(run(threads, &split(less, more)), Ok(()), "{threads}");
    }
    let kind = run(384, &split(40, 248)).unwrap_err();
    assert!(
        matches!(*kind, FaultKind::RegistersExhausted { .. }),
        "{kind:?}"
    );
}

/// The assembler's report says that it has left the instruction out.
#[test]
fn an_instruction_that_the_assembler_ignores_has_no_effect() {
    let report = "// sm_90a t: registers 168, spill stores 0, spill loads 0, shared 0";
    let body = split(40, 248);
    let kind = run_with(&format!("{report}\n"), 384, &body).unwrap_err();
    assert!(
        matches!(*kind, FaultKind::RegistersExhausted { .. }),
        "{kind:?}"
    );
    let ignored = format!("{report}, setmaxnreg ignored\n");
    assert_eq!(run_with(&ignored, 384, &body), Ok(()));
}

/// Where nobody knows how many there are at launch, `inc` may go down.
#[test]
fn unknown_counts_have_no_direction() {
    assert_eq!(run(256, "setmaxnreg.inc.sync.aligned.u32 240;"), Ok(()));
}

#[test]
fn counts_are_multiples_of_eight_from_24_to_256() {
    for count in [16, 28, 264] {
        let body = format!("setmaxnreg.dec.sync.aligned.u32 {count};");
        let kind = run(128, &body).unwrap_err();
        assert!(
            matches!(*kind, FaultKind::BadRegisterCount { .. }),
            "{kind:?}"
        );
    }
}

/// A guard that is false for the whole warp leaves it out.
#[test]
fn a_guard_leaves_it_out() {
    let body = "setp.gt.u32 %p1, %r1, 4096;\n@%p1 setmaxnreg.dec.sync.aligned.u32 16;";
    assert_eq!(run(128, body), Ok(()));
}
