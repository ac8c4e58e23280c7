//! `gpu check`, as a user runs it.

mod common;

use std::fs;

use common::{DOUBLE, folder, root, run, words};

const VECTOR_ADD: &str = "check gpu/kernels/vector_add.cu --grid 2 --block 256 \
     --arg f32[300]=iota --arg f32[300]=ones --arg f32[300]=uninit";

#[test]
fn a_clean_kernel_is_called_clean() {
    // What only the simulator does is done there, whatever the environment asks for.
    let clean = run(
        root(),
        &words(&format!("{VECTOR_ADD} --arg i32=300")),
        &[("GPU", "cuda")],
    );
    assert!(clean.success, "{}", clean.text);
    let lines: Vec<&str> = clean.text.lines().collect();
    assert_eq!(
        lines[0],
        "clean: vector_add of gpu/kernels/vector_add.cu, grid (2, 1, 1), block (256, 1, 1), under 4 schedules"
    );
    assert!(
        lines.len() == 2 && lines[1].starts_with("checked: bounds, "),
        "{}",
        clean.text
    );
}

#[test]
fn results_that_depend_on_the_schedule_are_not_called_clean() {
    // Both warps exchange the same four bytes for their number, and nothing orders them.
    let ptx = "// launch: grid=1 block=64\n// args: u32[1]=zeros\n\
               .version 8.4\n.target sm_75\n.address_size 64\n.visible .entry last(.param .u64 p)\n{\n\
               .reg .b32 %r<3>;\n.reg .b64 %d<2>;\nld.param.u64 %d1, [p];\nmov.u32 %r1, %tid.x;\n\
               shr.u32 %r2, %r1, 5;\natom.global.exch.b32 %r1, [%d1], %r2;\nret;\n}\n";
    let folder = folder("command_check_differs");
    fs::write(folder.join("last.ptx"), ptx).unwrap();
    let check = run(&folder, &words("check last.ptx --seeds 16"), &[]);
    let lines: Vec<&str> = check.text.lines().collect();
    assert!(
        check.success && lines.len() == 3 && !check.text.contains("clean"),
        "{}",
        check.text
    );
    assert_eq!(
        lines[0],
        "no fault, but the results differ: last of last.ptx, grid (1, 1, 1), block (64, 1, 1), under 16 schedules"
    );
    assert!(
        lines[1].starts_with("argument 0 is another under seed ")
            && lines[1].contains("depends on the order of blocks and warps: it adds"),
        "{}",
        check.text
    );
}

#[test]
fn a_fault_is_reported_with_its_source() {
    let fault = run(
        root(),
        &words(&format!("{VECTOR_ADD} --arg i32=301 --seeds 1")),
        &[],
    );
    assert!(!fault.success);
    assert!(
        fault.text.starts_with(
            "vector_add of gpu/kernels/vector_add.cu, grid (2, 1, 1), block (256, 1, 1), seed 0\n\n\
             out-of-bounds load of 4 bytes at 0x"
        ),
        "{}",
        fault.text
    );
    assert!(
        fault
            .text
            .contains("\n  block   (1, 0, 0), thread (44, 0, 0)"),
        "{}",
        fault.text
    );
    assert!(
        fault.text.ends_with(
            "\ngpu/kernels/vector_add.cu:18\n    16 |                                       int n) {\n    17 |     int i = \
             blockIdx.x * BLOCK + threadIdx.x;\n>   18 |     if (i < n) c[i] = a[i] + b[i];\n    19 | }\n"
        ),
        "{}",
        fault.text
    );
}

#[test]
fn a_launch_that_the_driver_refuses_is_reported() {
    let many = run(
        root(),
        &words(&format!("{VECTOR_ADD} --arg i32=300 --block 2048").replacen("--block 256", "", 1)),
        &[],
    );
    assert!(
        !many.success
            && many
                .text
                .contains("launching kernel vector_add: the driver reports"),
        "{}",
        many.text
    );
}

#[test]
fn ptx_without_lines_is_checked_too() {
    let folder = folder("command_check");
    fs::write(folder.join("twice.ptx"), DOUBLE).unwrap();
    let clean = run(&folder, &words("check twice.ptx --seeds 2"), &[]);
    assert!(
        clean.success && clean.text.contains("under 2 schedules"),
        "{}",
        clean.text
    );
    let fault = run(&folder, &words("check twice.ptx --arg f32[7]=iota"), &[]);
    assert!(
        !fault.success && fault.text.contains("the PTX has no line information"),
        "{}",
        fault.text
    );
    let none = run(&folder, &words("check twice.ptx --seeds 0"), &[]);
    assert!(
        !none.success && none.text.contains("invalid value '0' for '--seeds <N>'"),
        "{}",
        none.text
    );
}

#[test]
fn both_sides_of_a_race_are_quoted() {
    let folder = folder("command_check_race");
    let source = folder.join("race.cu");
    fs::write(
        &source,
        "__shared__ unsigned s[64];\ns[t] = t;\n// no barrier\ns[t ^ 32] = t;\n",
    )
    .unwrap();
    let ptx = format!(
        "// launch: grid=1 block=64\n\
         .version 8.4\n.target sm_75\n.address_size 64\n.visible .entry race()\n{{\n\
         .shared .align 4 .b8 s[256];\n.reg .b32 %r<8>;\n\
         mov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\nmad.lo.s32 %r3, %r1, 4, %r2;\n\
         xor.b32 %r4, %r1, 32;\nmad.lo.s32 %r5, %r4, 4, %r2;\n\
         .loc 1 2 1\nst.shared.u32 [%r3], %r1;\n.loc 1 4 1\nst.shared.u32 [%r5], %r1;\nret;\n}}\n\
         .file 1 \"{}\"\n",
        source.display()
    );
    fs::write(folder.join("race.ptx"), ptx).unwrap();
    let race = run(&folder, &words("check race.ptx --seeds 1"), &[]);
    assert!(
        !race.success && race.text.contains("\n\nrace: "),
        "{}",
        race.text
    );
    for marked in [">    2 | s[t] = t;\n", ">    4 | s[t ^ 32] = t;\n"] {
        assert_eq!(race.text.matches(marked).count(), 1, "{}", race.text);
    }
}
