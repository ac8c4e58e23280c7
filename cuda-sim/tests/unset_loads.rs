//! Loads of memory of which some bytes were never written: what uses them, and what does not.

use cuda_sim::{Fault, FaultKind, MemoryKind};
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

/// `%r1` to `%r4` are a vector whose last element nobody wrote, `%r5` has two set bytes, `%r6` only
/// a set low byte, all from line 2; the rest is on line 3. `%q` is a predicate of an unset value.
const HEAD: &str = ".version 8.4\n.target sm_80\n.address_size 64\n.file 1 \"a.cu\"\n\
    .visible .entry t(.param .u64 out)\n{\n\
    .reg .pred %p, %q, %yes;\n.reg .b16 %h<9>;\n.reg .b32 %r<20>;\n.reg .b64 %d<9>;\n\
    .shared .align 16 .b8 tile[64];\n.local .align 16 .b8 own[16];\n.loc 1 1 0\n\
    ld.param.u64 %d0, [out];\nmov.u32 %r0, %tid.x;\nshl.b32 %r10, %r0, 2;\nmov.u32 %r11, 8;\nmov.u32 %r12, 0xff;\n\
    mul.wide.u32 %d1, %r0, 16;\nadd.u64 %d0, %d0, %d1;\nsetp.eq.u32 %yes, %r0, %r0;\n\
    st.shared.v2.u32 [tile], {%r0, %r0};\nst.shared.u32 [tile+8], %r0;\nst.shared.u16 [tile+16], %r0;\nst.shared.u8 [tile+20], %r0;\n\
    .loc 1 2 0\nld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [tile];\nld.shared.v2.u32 {%r5, %r6}, [tile+16];\n\
    setp.gt.u32 %q, %r4, 5;\n.loc 1 3 0\n";

fn run(body: &str) -> Result<(), Box<Fault>> {
    cuda_sim::install().unwrap();
    let stream = CudaContext::new(0).unwrap().default_stream();
    let module = stream
        .context()
        .load_module(Ptx::from_src(format!("{HEAD}{body}\nret;\n}}\n")));
    let module = module.unwrap_or_else(|error| panic!("{body}: {error}"));
    let kernel = module.load_function("t").unwrap();
    let mut out = stream.alloc_zeros::<u32>(256).unwrap();
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut out);
    let shape = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (1, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the argument is the kernel's; what it does wrong, the simulator catches.
    match unsafe { launch.launch(shape) } {
        Ok(_) => Ok(()),
        Err(_) => Err(Box::new(cuda_sim::take_fault().expect("a fault"))),
    }
}

#[test]
fn bytes_that_nothing_uses_are_not_reported() {
    for body in [
        // Never touched again, computed with, stored beside set ones.
        "st.global.u32 [%d0], %r3;",
        "mul.lo.u32 %r4, %r4, 3; st.global.v4.u32 [%d0], {%r1, %r2, %r3, %r4};",
        "st.global.u32 [%d0], %r5;",
        // A word that is only copied, also through other places and lanes.
        "st.global.u32 [%d0], %r6;",
        "mov.b64 %d2, {%r6, %r6}; st.global.u64 [%d0], %d2;",
        "selp.u32 %r4, %r6, %r4, %yes; shfl.sync.idx.b32 %r4, %r4, 0, 31, 1; st.global.u32 [%d0], %r4;",
        "st.shared.u32 [tile+32], %r6; ld.shared.u32 %r4, [tile+32]; st.global.u32 [%d0], %r4; ld.global.u8 %r1, [%d0]; st.global.u32 [%d0], %r1;",
        // Cleared or shifted out, by constants and by values.
        "and.b32 %r6, %r6, 255; st.global.u32 [%d0], %r6;",
        "and.b32 %r6, %r6, %r12; st.global.u32 [%d0], %r6;",
        "shl.b32 %r5, %r5, 16; shr.u32 %r5, %r5, %r11; st.global.u32 [%d0], %r5;",
        "bfe.u32 %r6, %r6, 0, %r11; st.global.u32 [%d0], %r6;",
        "cvt.u16.u32 %h1, %r5; st.global.u16 [%d0], %h1;",
        "mov.b32 {%h1, %h2}, %r5; add.u16 %h1, %h1, %h1; st.global.u16 [%d0], %h1;",
        // Copied to shared and local memory, and taken from there in part.
        "st.shared.u32 [tile+32], %r4; st.local.u32 [own], %r6; ld.local.u8 %r1, [own]; st.global.u32 [%d0], %r1;",
        // Decided by another condition, or not taken.
        "@%yes mov.u32 %r4, 1; st.global.u32 [%d0], %r4;",
        "selp.u32 %r1, %r1, %r4, %yes; st.global.u32 [%d0], %r1;",
        "or.pred %q, %q, %yes; @%q bra BEHIND; BEHIND:",
        "not.pred %p, %yes; and.pred %q, %q, %p; @%q st.global.u32 [%d0], %r1;",
        "setp.gt.or.u32 %q, %r4, 5, %yes; @%q st.global.u32 [%d0], %r1;",
        "@%q mov.u32 %r7, 1; selp.u32 %r7, 2, %r7, %yes; st.global.u32 [%d0], %r7;",
    ] {
        assert_eq!(run(body), Ok(()), "{body}");
    }
}

#[test]
fn uses_are_reported_with_the_load() {
    for body in [
        "st.global.u32 [%d0], %r4;",
        "st.global.v2.u32 [%d0], {%r4, %r4};",
        "add.u32 %r6, %r6, %r1; st.global.u32 [%d0], %r6;",
        "xor.b32 %r6, %r6, %r1; st.shared.u32 [tile+32], %r6; ld.shared.u32 %r1, [tile+32]; st.global.u32 [%d0], %r1;",
        "or.b32 %r1, %r6, 1; mov.b64 %d2, {%r6, %r1}; st.global.u64 [%d0], %d2;",
        "add.u32 %r4, %r4, %r1; st.global.u32 [%d0], %r4;",
        "shr.u32 %r5, %r5, %r11; st.global.u32 [%d0], %r5;",
        "mul.wide.u32 %d1, %r4, 4; add.u64 %d1, %d1, %d0; ld.global.u32 %r1, [%d1];",
        "@%q bra BEHIND; BEHIND:",
        "@%q st.global.u32 [%d0], %r1;",
        "@%q mov.u32 %r1, 1; st.global.u32 [%d0], %r1;",
        "selp.u32 %r1, %r1, %r2, %q; st.global.u32 [%d0], %r1;",
        "and.pred %q, %q, %yes; @%q bra BEHIND; BEHIND:",
        "setp.eq.u32 %p, %r5, 3; @%p bra BEHIND; BEHIND:",
        "add.cc.u32 %r1, %r4, 1; addc.u32 %r2, %r2, 0; st.global.u32 [%d0], %r2;",
        "atom.global.add.u32 %r1, [%d0], %r4;",
        "shfl.sync.bfly.b32 %r4, %r4, 0, 31, 1; st.global.u32 [%d0], %r4;",
        "vote.sync.any.pred %p, %q, 1;",
        "st.shared.u32 [tile+32], %r4; ld.shared.u32 %r1, [tile+32]; st.global.u32 [%d0], %r1;",
        "st.local.u32 [own], %r4; ld.local.u32 %r1, [own]; st.global.u32 [%d0], %r1;",
    ] {
        let fault = run(body).expect_err(body);
        let FaultKind::UninitialisedRead(read) = &fault.kind else {
            panic!("{body}: {fault}")
        };
        assert_eq!(read.access.space, MemoryKind::Shared, "{body}");
        let place = |line| Some(("a.cu".to_owned(), line));
        assert_eq!(
            (&fault.source, &read.loaded),
            (&place(3), &place(2)),
            "{body}"
        );
        let text = fault.to_string();
        assert!(
            text.contains("source  a.cu:3") && text.contains("loaded  at a.cu:2"),
            "{text}"
        );
    }
}

#[test]
fn the_report_names_the_element() {
    let fault = run("st.global.u32 [%d0], %r4;").unwrap_err().to_string();
    assert!(
        fault.contains("tile[3] in elements of 4 bytes, byte 12 of shared array tile (64 bytes)"),
        "{fault}"
    );
}
