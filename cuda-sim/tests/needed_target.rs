//! Instructions that a module's `.target` lacks: refused at load, as by NVIDIA's assembler. What
//! each needs is what ptxas 12.9 said.

use crate::common::{Outcome, context, expect_error};
use cudarc::driver::sys::CUresult::CUDA_ERROR_INVALID_PTX;
use cudarc::nvrtc::Ptx;

const NEEDED: [(&str, u32); 73] = [
    ("cp.async.bulk.commit_group;", 90),
    (
        "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 16;",
        90,
    ),
    (
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r1], 16;",
        90,
    ),
    ("prefetch.tensormap [%d1];", 90),
    (
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d1], [%d2], 128;",
        90,
    ),
    ("cp.async.ca.shared.global [%r1], [%d1], 4;", 80),
    ("cp.async.commit_group;", 80),
    ("cp.async.wait_all;", 80),
    ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];", 80),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];", 75),
    ("movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;", 75),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r1};", 90),
    (
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f1, %f2, %f3, %f4};",
        75,
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};",
        80,
    ),
    (
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f1, %f2, %f3, %f4};",
        80,
    ),
    (
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f1, %f2, %f3, %f4};",
        80,
    ),
    (
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r1, %r2, %r3, %r4};",
        80,
    ),
    (
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 {%r1, %r2}, {%r3}, {%r4}, {%r1, %r2};",
        75,
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r7}, {%r1, %r2, %r3, %r4};",
        80,
    ),
    (
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};",
        89,
    ),
    (
        "mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16 {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r7, %r8}, {%r1, %r2, %r3, %r4};",
        70,
    ),
    (
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%v1, %v2}, {%v3}, {%v4}, {%v1, %v2};",
        80,
    ),
    (
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%v1, %v2, %v3, %v4}, {%v5, %v6}, {%v7}, {%v1, %v2, %v3, %v4};",
        90,
    ),
    (
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%v1, %v2, %v3, %v4}, {%v1, %v2, %v3, %v4}, {%v5, %v6}, {%v1, %v2, %v3, %v4};",
        90,
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%v1, %v2, %v3, %v4}, \
         {%v1, %v2, %v3, %v4, %v5, %v6, %v7, %v8}, {%v1, %v2, %v3, %v4}, {%v1, %v2, %v3, %v4};",
        90,
    ),
    (
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d1], 16;",
        70,
    ),
    (
        "wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%r1, %r2}, [%d1], 16;",
        72,
    ),
    (
        "wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d1], 16;",
        72,
    ),
    (
        "wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%r1, %r2, %r3, %r4}, [%d1], 16;",
        80,
    ),
    (
        "wmma.load.c.sync.aligned.row.m16n16k8.global.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, [%d1], 16;",
        80,
    ),
    (
        "wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%v1}, [%d1], 16;",
        80,
    ),
    ("mbarrier.init.shared.b64 [%r1], 1;", 80),
    ("mbarrier.arrive.shared.b64 %d2, [%r1];", 80),
    ("mbarrier.arrive.release.cta.shared.b64 %d2, [%r1];", 80),
    ("mbarrier.arrive.relaxed.cta.shared.b64 %d2, [%r1];", 90),
    ("mbarrier.arrive.expect_tx.shared.b64 %d2, [%r1], 3;", 90),
    ("mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 3;", 90),
    ("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], %r2;", 80),
    ("mbarrier.try_wait.shared.b64 %p1, [%r1], %d2;", 90),
    ("add.f16 %h1, %h2, %h3;", 70),
    ("fma.rn.f16x2 %r1, %r2, %r3, %r4;", 70),
    ("fma.rn.relu.f16 %h1, %h2, %h3, %h4;", 80),
    ("min.f16 %h1, %h2, %h3;", 80),
    ("max.NaN.f16x2 %r1, %r2, %r3;", 80),
    ("max.NaN.f32 %f1, %f2, %f3;", 80),
    ("ex2.approx.f16x2 %r1, %r2;", 75),
    ("ex2.approx.ftz.bf16 %h1, %h2;", 90),
    ("ex2.approx.f32 %f1, %f2;", 70),
    ("tanh.approx.f32 %f1, %f2;", 75),
    ("tanh.approx.bf16 %h1, %h2;", 90),
    ("add.bf16 %h1, %h2, %h3;", 90),
    ("mul.bf16x2 %r1, %r2, %r3;", 90),
    ("fma.rn.bf16 %h1, %h2, %h3, %h4;", 80),
    ("neg.bf16x2 %r1, %r2;", 80),
    ("setp.lt.bf16 %p1, %h1, %h2;", 90),
    ("set.lt.u32.bf16 %r9, %h1, %h2;", 90),
    ("cvt.rn.f16.f32 %h1, %f1;", 70),
    ("cvt.rn.relu.f16.f32 %h1, %f1;", 80),
    ("cvt.rn.bf16.f32 %h1, %f1;", 80),
    ("cvt.f32.bf16 %f1, %h1;", 80),
    ("cvt.rn.f16x2.f32 %r1, %f1, %f2;", 80),
    ("cvt.rna.tf32.f32 %r1, %f1;", 80),
    ("cvt.rn.f16x2.e4m3x2 %r1, %h1;", 89),
    ("redux.sync.add.s32 %r1, %r2, 0xffffffff;", 80),
    ("elect.sync %r1|%p1, 0xffffffff;", 90),
    ("atom.global.add.noftz.f16 %h1, [%d1], %h2;", 70),
    ("red.global.add.noftz.bf16x2 [%d1], %r1;", 90),
    ("red.global.add.v4.f32 [%d1], {%f1, %f2, %f3, %f4};", 90),
    ("ld.relaxed.gpu.global.u32 %r1, [%d1];", 70),
    ("ld.relaxed.cluster.global.u32 %r1, [%d1];", 90),
    ("fence.acq_rel.gpu;", 70),
    ("nanosleep.u32 20;", 70),
    ("match.any.sync.b32 %r1, %r2, 0xffffffff;", 70),
];

/// A module whose function `f`, which no kernel calls, has the instruction in line 10.
fn module(instruction: &str, target: u32) -> Ptx {
    Ptx::from_src(format!(
        ".version 8.0\n.target sm_{target}\n.address_size 64\n.visible .entry t() {{ ret; }}\n.func f()\n{{\n\
         .reg .b16 %h<9>; .reg .b32 %r<10>; .reg .f32 %f<9>;\n.reg .f64 %v<9>; .reg .b64 %d<9>; .reg .pred %p<9>;\n{{\n\
         {instruction}\n}}\nret;\n}}\n"
    ))
}

/// `wgmma` needs `sm_90a`: what `sm_90` has runs on every later GPU, and `wgmma` does not.
#[test]
fn instructions_of_one_architecture_need_its_target() -> Outcome {
    let context = context()?;
    let load = |instruction: &str, target: &str| {
        let text = format!(
            ".version 8.0\n.target {target}\n.address_size 64\n.visible .entry t() {{\n{instruction}\nret; }}\n"
        );
        context.load_module(Ptx::from_src(text))
    };
    for instruction in [
        "wgmma.fence.sync.aligned;",
        "setmaxnreg.inc.sync.aligned.u32 240;",
        "tensormap.replace.tile.rank.global.b1024.b32 [%d1], 1;",
    ] {
        assert!(load(instruction, "sm_90a").is_ok(), "{instruction}");
        let opcode = instruction.split([' ', ';']).next().unwrap();
        for target in ["sm_80", "sm_90"] {
            let text = expect_error(load(instruction, target), CUDA_ERROR_INVALID_PTX);
            let wanted = format!(
                "PTX line 5: {opcode} requires .target sm_90a, and this module is for {target}"
            );
            assert!(text.contains(&wanted), "{text}");
        }
    }
    Ok(())
}

#[test]
fn a_module_is_refused_for_an_instruction_that_its_target_lacks() -> Outcome {
    let context = context()?;
    for (instruction, needed) in NEEDED {
        for target in [70, 72, 75, 80, 86, 89, 90] {
            let loaded = context.load_module(module(instruction, target));
            if target >= needed {
                assert!(loaded.is_ok(), "{instruction} for sm_{target}: {loaded:?}");
                continue;
            }
            let text = expect_error(loaded, CUDA_ERROR_INVALID_PTX);
            let opcode = instruction.split([' ', ';']).next().unwrap();
            let wanted = format!(
                "PTX line 10: {opcode} requires .target sm_{needed} or higher, and this module is for sm_{target}"
            );
            assert!(text.contains(&wanted), "{text}");
        }
    }
    Ok(())
}
