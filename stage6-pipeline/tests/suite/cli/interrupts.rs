//! `generate`, interrupted by a signal.

use std::io::Read;
use std::process::{Command, Output, Stdio};

use super::{program, stderr};
use crate::common::{scratch, tiny_folder};

/// The text so far, its seed and its times.
#[test]
fn an_interrupt_ends_the_text() {
    let mut child = program()
        .args(["--seed", "3", "--temperature", "1.5"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begin = [0; 24]; // more than the prompt, which comes before the handler is of use
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut begin)
        .unwrap();
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.ends_with(b"\n"));
    let figures = stderr(&output);
    for part in ["seed    3 ", ", then interrupt; ", "TTFT"] {
        assert!(figures.contains(part), "{figures} lacks {part}");
    }
}

/// Interrupts the program a moment after it has installed its handler: it tells stories by then.
fn interrupt(mut child: std::process::Child) -> Output {
    let status = format!("/proc/{}/status", child.id());
    let caught = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = line.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
        mask.is_some_and(|mask| mask & 2 != 0)
    };
    while !caught(std::fs::read_to_string(&status).unwrap()) {
        assert_eq!(child.try_wait().unwrap(), None, "ended too early");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    child.wait_with_output().unwrap()
}

/// More stories than memory could hold: those that did not begin leave no prompt behind,
/// and a file stays as it was.
#[test]
fn an_interrupt_ends_the_stories() {
    let folder = scratch("interrupted-stories");
    let out = folder.join("stories.txt");
    std::fs::write(&out, "before").unwrap();
    let start = |more: &[&str]| {
        let mut program = program();
        program.arg("--model").arg(tiny_folder());
        program.args(["--stories", "1000000000000", "--prompt", "The owl"]);
        program.args(["--temperature", "0", "--max-tokens", "2"]);
        program.args(more);
        program.stdout(Stdio::piped()).stderr(Stdio::piped());
        program.spawn().unwrap()
    };
    let output = interrupt(start(&["--batch", "2"]));
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let texts = String::from_utf8(output.stdout).unwrap();
    let mut texts = texts.split("\n\n");
    assert!(texts.next().unwrap().starts_with("# cargo run "));
    for text in texts {
        assert_ne!(text.trim_end(), "The owl", "it did not begin");
    }

    let output = interrupt(start(&["--batch", "2", "--out", out.to_str().unwrap()]));
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("stories.txt is not written"), "{said}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "before");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}
