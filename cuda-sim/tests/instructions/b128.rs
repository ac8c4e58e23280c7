//! Registers of 128 bits: calls, guards, parameters, alignment and unset bytes. What each
//! instruction gives is in `gpu/tool/cases/b128.ptx`.

use cuda_sim::{Fault, FaultKind};
use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::rig::*;

const LOW: u64 = 0x0123_4567_89ab_cdef;
const HIGH: u64 = 0xfedc_ba98_7654_3210;

/// Runs `body` with one thread; what it leaves in the first two words at `%d0`.
fn run_one(body: &str) -> Result<[u64; 2], Box<Fault>> {
    let stream = stream();
    let text = format!(
        ".version 8.3\n.target sm_75\n.address_size 64\n.file 1 \"a.cu\"\n\
         .func (.reg .b128 %to) turned(.reg .b128 %from)\n{{\n.reg .b64 %x, %y;\n\
         mov.b128 {{%x, %y}}, %from;\nmov.b128 %from, {{%y, %y}};\nmov.b128 %to, {{%y, %x}};\nret;\n}}\n\
         .visible .entry t(.param .u64 out, .param .b128 pair)\n{{\n\
         .reg .pred %p;\n.reg .b64 %d<9>;\n.reg .b128 %q<9>;\n.shared .align 16 .b8 tile[64];\n\
         .loc 1 1 0\nld.param.u64 %d0, [out];\nmov.b64 %d1, 1;\nsetp.eq.u64 %p, %d0, 0;\nld.param.b128 %q0, [pair];\n\
         .loc 1 2 0\n{body}\nret;\n}}\n"
    );
    let module = stream.context().load_module(Ptx::from_src(text));
    let module = module.unwrap_or_else(|error| panic!("{body}: {error}"));
    let kernel = module.load_function("t").unwrap();
    let mut out = stream.alloc_zeros::<u64>(4).unwrap();
    let mut launch = stream.launch_builder(&kernel);
    let pair = u128::from(HIGH) << 64 | u128::from(LOW);
    launch.arg(&mut out).arg(&pair);
    let shape = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (1, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the arguments are the kernel's; what it does wrong, the simulator catches.
    match unsafe { launch.launch(shape) } {
        Ok(_) => Ok(stream.clone_dtoh(&out).unwrap()[..2].try_into().unwrap()),
        Err(_) => Err(Box::new(cuda_sim::take_fault().expect("a fault"))),
    }
}

#[test]
fn values_pass_through_parameters_calls_and_guards() {
    for (body, expected) in [
        ("st.global.b128 [%d0], %q0;", [LOW, HIGH]),
        (
            "mov.b128 %q1, %q0; @%p mov.b128 %q1, {%d0, %d0}; @!%p mov.b128 {_, %d2}, %q1; \
             mov.b128 %q2, {7, %d2}; st.volatile.global.b128 [%d0], %q2;",
            [7, HIGH],
        ),
        (
            "call (%q1), turned, (%q0); @%p st.global.b128 [%d0], %q1; \
             mov.b128 {%d2, %d3}, %q0; mov.b128 {%d4, %d5}, %q1; add.u64 %d2, %d2, %d5; \
             mov.b128 %q3, {%d2, %d4}; st.global.b128 [%d0], %q3;",
            [2 * LOW, HIGH],
        ),
    ] {
        assert_eq!(run_one(body), Ok(expected), "{body}");
    }
}

#[test]
fn addresses_are_multiples_of_16_bytes() {
    for body in [
        "st.global.b128 [%d0+8], %q0;",
        "ld.global.b128 %q1, [%d0+8];",
        "st.shared.b128 [tile+24], %q0;",
    ] {
        let fault = run_one(body).expect_err(body).to_string();
        assert!(fault.contains("misaligned"), "{body}: {fault}");
        assert!(fault.contains("of 16 bytes"), "{body}: {fault}");
    }
}

#[test]
fn unset_bytes_stay_with_their_half() {
    let load =
        "st.shared.u64 [tile], %d1; ld.shared.b128 %q1, [tile]; mov.b128 %q2, %q1;\n.loc 1 3 0\n";
    for body in [
        "mov.b128 {%d2, %d3}, %q2; st.global.u64 [%d0], %d2;",
        "st.shared.b128 [tile+16], %q2; ld.shared.u64 %d2, [tile+16]; st.global.u64 [%d0], %d2;",
        // Beside a set half, as a field that nobody has set.
        "st.global.b128 [%d0], %q2;",
    ] {
        let stored = run_one(&format!("{load}{body}"));
        assert_eq!(stored.map(|words| words[0]), Ok(1), "{body}");
    }
    for body in [
        "mov.b128 {%d2, %d3}, %q2; st.global.u64 [%d0], %d3;",
        "mov.b128 {_, %d3}, %q2; mov.b128 %q3, {%d3, %d3}; st.global.b128 [%d0], %q3;",
    ] {
        let fault = run_one(&format!("{load}{body}")).expect_err(body);
        let FaultKind::UninitialisedRead(read) = &fault.kind else {
            panic!("{body}: {fault}")
        };
        let place = |line| Some(("a.cu".to_owned(), line));
        assert_eq!((&fault.source, &read.loaded), (&place(3), &place(2)));
    }
}

#[test]
fn other_forms_are_unknown() {
    for body in [
        "ld.global.v2.b128 {%q1, %q2}, [%d0];",
        "ld.global.b128 %d2, [%d0];",
        "mov.b128 %q1, %d1;",
        "mov.b64 %d2, %q0;",
        "mov.b128 %q1, {%d1, %q0};",
        "mov.b128 {%d2, %d3, %d4}, %q0;",
    ] {
        let fault = run_one(body).expect_err(body);
        let unknown = matches!(fault.kind, FaultKind::UnknownInstruction { .. });
        assert!(unknown, "{body}: {fault}");
    }
}
