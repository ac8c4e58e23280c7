//! Damaged PTX: loading it answers, whatever it is.

use std::time::{Duration, Instant};

use cuda_sim::FaultKind;
use cudarc::{driver::LaunchConfig, driver::PushKernelArg, nvrtc::Ptx};

use super::rig::stream;

const TEXTS: [&str; 2] = [
    include_str!("../../ptx/driver.ptx"),
    include_str!("../../ptx/tiled_gemm.ptx"),
];

#[test]
fn damaged_text_is_refused_or_loads() {
    let stream = stream();
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let interesting = b"{}()[]<>;,.:@!-+|\"/*%_0123456789xfUd \n";
    let start = Instant::now();
    let (mut loaded, mut refused) = (0, 0);
    for round in 0..400 {
        let mut bytes = TEXTS[round % TEXTS.len()].as_bytes().to_vec();
        if round % 4 == 0 {
            bytes.truncate(random(bytes.len()));
        }
        for _ in 0..=random(4) {
            if bytes.is_empty() {
                break;
            }
            let (at, from) = (random(bytes.len()), random(bytes.len()));
            match random(4) {
                0 => bytes[at] = interesting[random(interesting.len())],
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, interesting[random(interesting.len())]),
                // A piece of the text lands somewhere else.
                _ => {
                    let piece = bytes[from..(from + 40).min(bytes.len())].to_vec();
                    drop(bytes.splice(at..at, piece));
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
        match stream.context().load_module(Ptx::from_src(text)) {
            Ok(_) => loaded += 1,
            Err(_) => refused += 1,
        }
        // Enough on a slow machine, too.
        if round >= 40 && start.elapsed() > Duration::from_millis(1500) {
            break;
        }
    }
    assert!(
        loaded > 0 && refused > 0,
        "{loaded} loaded, {refused} refused"
    );
}

#[test]
fn operands_that_make_no_sense_are_unknown_instructions() {
    let kernel = |body: &str| {
        format!(
            ".version 7.0\n.target sm_90\n.address_size 64\n.visible .entry t()\n{{\n.reg .b64 %d<9>;\n.reg .b32 %r<9>;\n.reg .b16 %h<9>;\n.reg .pred %p<9>;\n{body}\nret;\n}}\n"
        )
    };
    for body in [
        "mov.b64 {}, %d1;",
        "mov.b64 %d1, {};",
        "mov.b64 {%h1, %h2, %h3, %h4, %h5, %h6, %h7, %h8}, %d1;",
        "mov.b64 %d1, {%h1, %h2, %h3, %h4, %h5, %h6, %h7, %h8};",
        "mov.b8 {%h1, %h2}, %h3;",
        "ld.global.v4.u32 {%r1}, [%d1];",
        "st.global.v2.u32 [%d1], %r1;",
        "bar.red.popc.u32 %r1;",
        "shfl.sync.idx.b32;",
        "lop3.b32 %r1, %r2, %r3, %r4, 256;",
        "call nothing, (%r1);",
        "brx.idx %r1, nowhere;",
        "vote.sync.all.pred %p1;",
        "set.lt.f16.f32 %h1, %r1, %r2;",
        "slct.b32.u32 %r1, %r2, %r3, %r4;",
    ] {
        let loaded = stream().context().load_module(Ptx::from_src(kernel(body)));
        loaded
            .unwrap_or_else(|e| panic!("{body}: {e}"))
            .load_function("t")
            .unwrap();
    }
}

/// The fault of a kernel with this body, in which `%r1` is 4 and `%d1` an address.
fn fault_of(body: &str) -> cuda_sim::Fault {
    let stream = stream();
    let buffer = stream.alloc_zeros::<u64>(8).unwrap();
    let ptx = format!(
        ".version 7.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 at)\n{{\n.reg .b64 %d<9>;\n.reg .b32 %r<9>;\n.reg .b16 %h<9>;\n.reg .pred %p<9>;\nld.param.u64 %d1, [at];\nmov.u32 %r1, 4;\n{body}\nret;\n}}\n"
    );
    let module = stream.context().load_module(Ptx::from_src(ptx)).unwrap();
    let function = module.load_function("t").unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&buffer);
    // SAFETY: the argument is the kernel's.
    let launched = unsafe { launch.launch(LaunchConfig::for_num_elems(32)) };
    launched.map(|_| ()).expect_err(body);
    cuda_sim::take_fault().expect("a fault was reported")
}

#[test]
fn an_instruction_with_an_operand_too_many_is_unknown() {
    for body in [
        "add.u32 %r2, %r1, 1, 2;",
        "mov.u32 %r2, %r1, %r1;",
        "mad.lo.u32 %r2, %r1, %r1, %r1, %r1;",
        "setp.eq.u32 %p1, %r1, 1, 2;",
        "ld.global.u32 %r2, [%d1], %r1;",
        "st.global.u32 [%d1], %r1, %r1;",
        "bra DONE, %r1;\nDONE:",
        "bar.sync 0, 32, 32;",
        "membar.gl %r1;",
        "nanosleep.u32 1, 2;",
        "trap 1;",
    ] {
        assert_unknown(body);
    }
}

#[test]
fn forms_of_16_bit_floats_that_ptx_does_not_have_are_unknown() {
    for body in [
        "add.rz.f16 %h1, %h2, %h3;",
        "add.full.f16 %h1, %h2, %h3;",
        "add.sat.bf16 %h1, %h2, %h3;",
        "add.relu.f16 %h1, %h2, %h3;",
        "fma.f16 %h1, %h2, %h3, %h4;",
        "fma.rn.sat.relu.f16 %h1, %h2, %h3, %h4;",
        "min.ftz.bf16 %h1, %h2, %h3;",
        "ex2.approx.bf16 %h1, %h2;",
        "ex2.f16 %h1, %h2;",
        "tanh.approx.ftz.f16 %h1, %h2;",
        "add.NaN.f16 %h1, %h2, %h3;",
        "cvt.rm.f16x2.f32 %r1, %r2, %r3;",
        "cvt.rna.f16.f32 %h1, %r2;",
        "cvt.rna.relu.tf32.f32 %r1, %r2;",
        "cvt.tf32.f32 %r1, %r2;",
        "cvt.rn.relu.f32.f16 %r1, %h2;",
        "cvt.rn.relu.f32.bf16 %r1, %h2;",
        "cvt.rz.f32.tf32 %r1, %r2;",
        "cvt.rn.f32.bf16x2 %r1, %r2, %r3;",
        "cvt.rn.f32.f16x2 %r1, %r2, %r3;",
        "cvt.rn.satfinite.f16x2.e4m3x2 %r1, %h2;",
        "cvt.rn.e4m3x2.f16x2 %h1, %r2;",
        "cvt.rz.satfinite.e5m2x2.f32 %h1, %r2, %r3;",
        "cvt.rn.satfinite.e4m3x2.bf16x2 %h1, %r2;",
        "cvt.rn.satfinite.e5m2x2.e4m3x2 %h1, %h2;",
        "set.lt.f16x2.bf16x2 %r1, %r2, %r3;",
        "setp.lt.ftz.bf16 %p1, %h2, %h3;",
        "setp.lt.f16x2 %p1, %r2, %r3;",
        "add.f16x2 %r1, %r2;",
        "neg.f16 %h1, %h2, %h3;",
    ] {
        assert_unknown(body);
    }
}

#[test]
fn forms_of_asynchronous_copies_that_ptx_does_not_have_are_unknown() {
    for body in [
        "cp.async.cg.shared.global [%r1], [%d1], 8;",
        "cp.async.ca.shared.global [%r1], [%d1], 2;",
        "cp.async.ca.shared.global [%r1], [%d1], %r1;",
        "cp.async.ca.global.shared [%d1], [%r1], 4;",
        "cp.async.ca.shared.global [%r1], [%d1];",
        "cp.async.shared.global [%r1], [%d1], 16;",
        "cp.async.ca.cg.shared.global [%r1], [%d1], 16;",
        "cp.async.cg.shared.global.nc.weak.mmio [%r1], [%d1], 16;",
        "cp.async.cg.shared.global.L1::no_allocate [%r1], [%d1], 16;",
        "cp.async.cg.shared.global.L2::64B.L2::128B [%r1], [%d1], 16;",
        "cp.async.wait_group %r1;",
        "cp.async.wait_group;",
        "cp.async.commit_group 1;",
        "cp.async.mbarrier.arrive.noinc.shared.b32 [%r1];",
        "cp.async.mbarrier.arrive.noinc.global.b64 [%d1];",
        "cp.async.bulk.commit_group.read;",
    ] {
        assert_unknown(body);
    }
}

#[test]
fn forms_of_matrix_operations_that_are_not_simulated_are_unknown() {
    const A: &str = "{%r1, %r1, %r1, %r1}";
    const B: &str = "{%r1, %r1}";
    for opcode in [
        "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s4.s32",
        "mma.sync.aligned.m16n8k32.row.col.f32.s8.s8.f32",
        "mma.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.f16.f32",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f16",
        "mma.sync.aligned.m16n8k32.row.col.satfinite.f32.e4m3.e4m3.f32",
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e4m3.f32",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32",
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
    ] {
        assert_unknown(&format!("{opcode} {A}, {A}, {B}, {A};"));
    }
    for opcode in [
        "mma.sync.aligned.m8n8k16.row.row.s32.s8.s8.s32",
        "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
    ] {
        assert_unknown(&format!("{opcode} {B}, {{%r1}}, {{%r1}}, {B};"));
    }
    for body in [
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1, %r1}, {%r1, %r1}, {%r1, %r1}, {%r1, %r1};",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r1, %r1, %r1}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, \
         {%r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r1, %r1, %r1, %r1}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, \
         {%r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m8n8k4.row.col.satfinite.f64.f64.f64.f64 {%d1, %d2}, {%d3}, {%d4}, {%d5, %d6};",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%r1, %r2}, {%d3}, {%d4}, {%d5, %d6};",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1, %d2}, {%d3, %d3}, {%d4}, {%d5, %d6};",
        "mma.sync.aligned.m8n8k8.row.col.f64.f64.f64.f64 {%d1, %d2}, {%d3}, {%d4}, {%d5, %d6};",
        "mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64 {%d1, %d2}, {%d3}, {%d4}, {%d5, %d6};",
        "mma.sync.aligned.m16n8k8.row.col.rn.f32.f16.f16.f32 {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1}, {%r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m8n8k4.col.col.f64.f64.f64.f64 {%d1, %d2}, {%d3}, {%d4}, {%d5, %d6};",
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%d1, %d2}, {%d3}, {%d4}, {%d5, %d6};",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1}, {%r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r1, %r1}, {%r1, %r1}, {%r1, %r1}, {%r1, %r1};",
        "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f32 {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1, %r1}, \
         {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m8n8k4.row.col.f32.bf16.bf16.f32 {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1, %r1}, \
         {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m8n8k4.row.col.satfinite.f16.f16.f16.f16 {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1, %r1}, \
         {%r1, %r1, %r1, %r1};",
        "wmma.load.a.sync.aligned.row.m8n8k4.global.f16 {%r1}, [%d1], 4;",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f64 {%d2}, [%d1], 4;",
        "wmma.load.b.sync.aligned.row.m32n8k16.global.s8 {%r1, %r2}, [%d1], 16;",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2];",
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1, %r2, %r3}, [%r2];",
        "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r1}, [%d1];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%r1}, [%r2];",
        "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r2], {%r1};",
        "stmatrix.sync.aligned.m8n8.x1.global.b16 [%d1], {%r1};",
        "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r2], {%r1};",
        "movmatrix.sync.aligned.m8n8.b16 %r1, %r2;",
    ] {
        assert_unknown(body);
    }
}

#[test]
fn a_matrix_operation_of_part_of_a_warp_faults() {
    for operation in [
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r3, %r4, %r5, %r6}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, \
         {%r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r3, %r4, %r5, %r6}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, \
         {%r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d2, %d3}, {%d1}, {%d1}, {%d1, %d1};",
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%d2, %d3, %d4, %d5}, {%d1, %d1}, {%d1}, {%d1, %d1, %d1, %d1};",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r3, %r4}, {%r1}, {%r1}, {%r1, %r1};",
        "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r3, %r4, %r5, %r6}, {%r1, %r1}, {%r1, %r1}, {%r1, %r1, %r1, %r1};",
        "wmma.load.c.sync.aligned.row.m8n8k4.shared.f64 {%d2, %d3}, [s], 8;",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [s];",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], {%r1};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1;",
        "wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {%r3, %r4, %r5, %r6}, [s];",
        "wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [s], {%r1, %r1, %r1, %r1};",
    ] {
        let fault = fault_of(&format!(
            ".shared .align 16 .b8 s[512];\nmov.u32 %r2, %tid.x;\nsetp.lt.u32 %p1, %r2, 16;\n@!%p1 bra DONE;\n\
             {operation}\nDONE:",
        ));
        let kind = FaultKind::MissingLanes {
            members: u32::MAX,
            present: 0xffff,
        };
        assert_eq!(fault.kind, kind, "{operation}");
    }
}

/// Halves of a warp that come to different instructions do not meet.
#[test]
fn a_wmma_move_in_each_of_two_branches_faults() {
    let load = "wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {%r3, %r4, %r5, %r6}, [s];";
    for other in [load, "bar.warp.sync 0xffffffff;"] {
        let fault = fault_of(&format!(
            ".shared .align 16 .b8 s[512];\nmov.u32 %r2, %tid.x;\nsetp.lt.u32 %p1, %r2, 16;\n@!%p1 bra ELSE;\n{load}\n\
             bra DONE;\nELSE:\n{other}\nDONE:",
        ));
        assert!(
            matches!(fault.kind, FaultKind::MissingLanes { .. }),
            "{fault}"
        );
    }
}

#[test]
fn a_misaligned_row_of_a_matrix_faults() {
    for operation in [
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r1};",
    ] {
        let fault = fault_of(&format!(
            ".shared .align 16 .b8 s[64];\nmov.u32 %r2, s;\nadd.u32 %r2, %r2, 8;\n{operation}"
        ));
        assert!(matches!(fault.kind, FaultKind::Misaligned(_)), "{fault}");
    }
}

#[test]
fn an_unset_fragment_faults() {
    for operation in [
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r3, %r4}, {%r1, %r1, %r1, %r8}, {%r1, %r1}, {%r1, %r1};",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r3, %r4, %r5, %r6}, {%r1, %r1}, {%r1}, {%r1, %r1, %r1, %r8};",
        "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%r3, %r4, %r5, %r6}, {%r1, %r1}, {%r8}, {%r1, %r1, %r1, %r1};",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d2, %d3}, {%d1}, {%d1}, {%d1, %d8};",
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%d2, %d3, %d4, %d5}, {%d1, %d8}, {%d1}, {%d1, %d1, %d1, %d1};",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r3, %r4}, {%r1}, {%r1}, {%r1, %r8};",
        "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r3, %r4, %r5, %r6}, {%r1, %r1}, {%r1, %r1}, {%r1, %r1, %r1, %r8};",
        "stmatrix.sync.aligned.m8n8.x2.shared.b16 [s], {%r1, %r8};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r8;",
    ] {
        let fault = fault_of(&format!(
            ".shared .align 16 .b8 s[128];\nmov.u32 %r1, %tid.x;\n{operation}"
        ));
        assert_eq!(fault.kind, FaultKind::UninitialisedRegister, "{operation}");
    }
}

#[test]
fn rows_that_two_lanes_store_with_different_values_race() {
    let body = |value: &str| {
        format!(
            ".shared .align 16 .b8 s[128];\nmov.u32 %r1, {value};\n\
             stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], {{%r1}};"
        )
    };
    let fault = fault_of(&body("%tid.x"));
    assert!(matches!(fault.kind, FaultKind::Race(_)), "{fault}");
    // The same values are no race, and the kernel goes on to its end.
    let fault = fault_of(&format!("{}\ntrap;", body("7")));
    assert_eq!(fault.kind, FaultKind::Trap);
}

#[test]
fn unset_addresses_that_are_used_fault() {
    let head = ".shared .align 16 .b8 s[512];\nmov.u32 %r4, %laneid;\nmov.u32 %r2, s;\n";
    // The address is set in the first lanes.
    for (set, width, name, instruction) in [
        (
            7,
            "b32",
            "%r5, %r2",
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r5]",
        ),
        (
            15,
            "b32",
            "%r5, %r2",
            "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r3, %r6}, [%r5]",
        ),
        (
            31,
            "b64",
            "%d2, %d1",
            "cp.async.ca.shared.global [%r2], [%d2], 4",
        ),
        (
            31,
            "b64",
            "%d2, %d1",
            "cp.async.ca.shared.global [%r2], [%d2], 4, %r1",
        ),
        (
            31,
            "b64",
            "%d2, %d1",
            "cp.async.ca.shared.global [%r2], [%d2], 4, %p2",
        ),
        (
            31,
            "b32",
            "%r5, %r2",
            "cp.async.ca.shared.global [%r5], [%d1], 4, 0",
        ),
    ] {
        let fault = fault_of(&format!(
            "{head}setp.lt.u32 %p1, %r4, {set};\nsetp.lt.u32 %p2, %r4, 9;\n@%p1 mov.{width} {name};\n{instruction};"
        ));
        let found = (fault.kind.clone(), fault.thread[0]);
        assert_eq!(
            found,
            (FaultKind::UninitialisedRegister, set),
            "{instruction}"
        );
    }
}

#[test]
fn a_matrix_in_device_memory_is_out_of_bounds() {
    let fault = fault_of("ldmatrix.sync.aligned.m8n8.x1.b16 {%r3}, [%d1];");
    let FaultKind::OutOfBounds(access) = &fault.kind else {
        panic!("{fault}")
    };
    assert_eq!(
        (access.space, access.bytes),
        (cuda_sim::MemoryKind::Global, 16)
    );
    let text = fault.to_string();
    assert!(text.contains("reads shared memory alone"), "{text}");
}

/// Copies of two lanes to one place lack no wait.
#[test]
fn copies_to_one_place_at_once_are_told_from_copies_one_after_the_other() {
    let module = ".shared .align 16 .b8 s[64];\nmov.u32 %r2, s;\n";
    for (guard, copies, at_once) in [("", 1, true), ("@%p1 ", 2, false)] {
        let copy = format!("{guard}cp.async.ca.shared.global [%r2], [%d1], 4;\n");
        let first = "mov.u32 %r3, %tid.x;\nsetp.eq.u32 %p1, %r3, 5;\n";
        let fault = fault_of(&format!("{module}{first}{}", copy.repeat(copies)));
        let FaultKind::UnfinishedCopy(found) = &fault.kind else {
            panic!("{fault}")
        };
        assert_eq!(found.at_once, at_once);
        let text = fault.to_string();
        assert_eq!(text.contains("clamped index"), at_once, "{text}");
        assert_eq!(text.contains("wait_group is missing"), !at_once, "{text}");
    }
}

#[track_caller]
fn assert_unknown(body: &str) {
    let fault = fault_of(body);
    let FaultKind::UnknownInstruction { text } = &fault.kind else {
        panic!("{body}: {fault}")
    };
    assert!(body.starts_with(text.split(' ').next().unwrap()), "{text}");
}

#[test]
fn a_branch_by_index_beyond_its_table_faults() {
    let fault = fault_of("T: .branchtargets A, B, A, B;\nbrx.idx %r1, T;\nA:\nB:");
    let kind = FaultKind::BadBranch {
        index: 4,
        targets: 4,
    };
    assert_eq!((fault.kind, fault.lanes), (kind, u32::MAX));
    // Only lanes that branch count.
    let guarded = "setp.lt.u32 %p1, %r1, 4;\nT: .branchtargets A, B, A, B;\n@%p1 brx.idx %r1, T;\nA:\nB: trap;";
    assert_eq!(fault_of(guarded).kind, FaultKind::Trap);
}

#[test]
fn nesting_beyond_measure_is_refused() {
    let many = 200_000;
    let head = ".version 7.0\n.target sm_90\n.address_size 64\n";
    for body in [
        format!("setp.eq.u32 {}%p1, 1, 2;", "%p1|".repeat(many)),
        format!("mov.b64 {}%r1{}, 1;", "{".repeat(many), "}".repeat(many)),
        format!("call {}f{};", "(".repeat(many), ")".repeat(many)),
        format!("{}{}", "{".repeat(many), "}".repeat(many)),
    ] {
        let text = format!("{head}.visible .entry t()\n{{\n{body}\nret;\n}}\n");
        let loaded = stream().context().load_module(Ptx::from_src(text));
        let error = loaded.map(drop).expect_err("too deep");
        let text = error.error_string().unwrap().to_string_lossy();
        assert!(text.contains("expected fewer"), "{text}");
    }
    let braces = format!(
        "{head}.global .b32 x[] = {}1{};\n",
        "{".repeat(many),
        "}".repeat(many)
    );
    let loaded = stream().context().load_module(Ptx::from_src(braces));
    loaded.map(drop).expect_err("too deep");
}
