//! The program: what it prints, and how it refuses.

mod bench;
mod compare;
mod generate;
mod interrupts;
mod refusals;

use std::process::{Command, Output};

use crate::common::tiny_folder;

/// The program with the checks of the simulator that it leaves off otherwise.
fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_stage6-pipeline"));
    program.env("CUDA_SIM_CHECK", "on");
    program
}

/// Runs the tiny model; arguments in `more` come last.
fn tell(more: &[&str]) -> Output {
    program()
        .arg("--model")
        .arg(tiny_folder())
        .args(more)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Refused: exit code 1, the message on standard error, and nothing on standard output.
#[track_caller]
fn assert_refused(output: &Output, message: &str) {
    let stderr = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("error: ") && stderr.contains(message),
        "{stderr}"
    );
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}
