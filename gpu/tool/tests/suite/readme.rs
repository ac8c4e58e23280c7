//! The transcripts in the READMEs of this package, of `cuda-sim` and of the workspace are what the
//! program prints.
//!
//! `UPDATE_README=1 cargo test -p gpu-tool readme` writes them anew.

use std::env;
use std::fs;

use crate::common::{root, run, words};

const FENCE: &str = "```console\n$ cargo gpu ";

#[test]
fn transcripts_are_current() {
    are_current("gpu/tool/README.md", 5);
}

#[test]
fn transcripts_of_the_simulator_are_current() {
    are_current("cuda-sim/README.md", 4);
}

#[test]
fn the_sample_report_of_the_workspace_is_current() {
    are_current("README.md", 1);
}

#[track_caller]
fn are_current(readme: &str, least: usize) {
    let path = root().join(readme);
    let readme = fs::read_to_string(&path).unwrap();
    let mut blocks = readme.split(FENCE);
    let mut current = blocks.next().unwrap().to_owned();
    let mut transcripts = 0;
    for block in blocks {
        let (transcript, rest) = block.split_once("```\n").unwrap();
        let command = transcript.lines().next().unwrap();
        let printed = run(root(), &words(command), &[("GPU", "sim")]).text;
        current += &format!(
            "{FENCE}{command}\n{}```\n{rest}",
            without_addresses(&printed)
        );
        transcripts += 1;
    }
    assert!(transcripts >= least, "{transcripts}");
    if env::var_os("UPDATE_README").is_some() {
        fs::write(&path, &current).unwrap();
    }
    let differs = readme
        .lines()
        .zip(current.lines())
        .find(|(old, new)| old != new);
    assert!(
        readme == current,
        "`UPDATE_README=1 cargo test -p gpu-tool readme` mends it: {differs:?}"
    );
}

/// Addresses are another matter in each process.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x1");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown += "0x…";
        shown += part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    shown
}
