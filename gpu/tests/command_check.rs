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
