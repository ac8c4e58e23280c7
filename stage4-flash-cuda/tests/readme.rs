//! The table of padding in README.md is what `padding` prints.

use std::process::Command;

#[test]
fn the_table_of_padding_is_current() {
    let program = Command::new(env!("CARGO_BIN_EXE_stage4-flash-cuda"))
        .arg("padding")
        .env_remove("CUDA_SIM_DEVICE")
        .output();
    let program = program.expect("it runs");
    assert!(
        program.status.success(),
        "{}",
        String::from_utf8_lossy(&program.stderr)
    );
    let table = String::from_utf8(program.stdout).expect("it prints text");
    assert!(table.lines().count() > 5);
    let readme = include_str!("../README.md");
    assert!(readme.contains(&table), "README.md should have:\n{table}");
}
