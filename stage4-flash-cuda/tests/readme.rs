//! The tables and plots of README.md are what the program makes.
//!
//! `UPDATE_README=1 cargo test -p stage4-flash-cuda --test readme` writes them anew, but for the tables of padding and of the
//! ladder.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

const FENCE: &str = "```console\n$ cargo run -p stage4-flash-cuda -- ";

/// What the program prints on the simulated H100.
fn run(arguments: &[&str]) -> String {
    let program = Command::new(env!("CARGO_BIN_EXE_stage4-flash-cuda"))
        .args(arguments)
        .env("GPU", "sim")
        .env_remove("CUDA_SIM_DEVICE")
        .output();
    let program = program.expect("it runs");
    assert!(
        program.status.success(),
        "{}",
        String::from_utf8_lossy(&program.stderr)
    );
    String::from_utf8(program.stdout).expect("it prints text")
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn tables_are_current() {
    for command in ["padding", "ladder"] {
        let table = run(&[command]);
        assert!(table.lines().count() > 5);
        let readme = include_str!("../README.md");
        assert!(readme.contains(&table), "README.md should have:\n{table}");
    }
}

#[test]
fn benches_are_current() {
    let update = env::var_os("UPDATE_README").is_some();
    let plots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plots");
    let path = folder().join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let mut blocks = readme.split(FENCE);
    let mut current = blocks.next().unwrap().to_owned();
    for (i, block) in blocks.enumerate() {
        let (transcript, rest) = block.split_once("```\n").unwrap();
        let command = transcript.lines().next().unwrap();
        let mut arguments: Vec<&str> = command.split(' ').collect();
        if i == 0 {
            arguments.extend(["--plots", plots.to_str().unwrap()]);
        }
        current += &format!("{FENCE}{command}\n{}```\n{rest}", run(&arguments));
    }
    assert_eq!(current.matches(FENCE).count(), 2);
    for plot in ["latency", "throughput", "speed-up", "memory", "roofline"] {
        let name = format!("{plot}.svg");
        let made = fs::read_to_string(plots.join(&name)).unwrap();
        let committed = folder().join("bench/modelled").join(&name);
        if update {
            fs::create_dir_all(committed.parent().unwrap()).unwrap();
            fs::write(&committed, &made).unwrap();
        }
        let known = fs::read_to_string(&committed).unwrap_or_default();
        assert!(known == made, "{} is out of date", committed.display());
    }
    if update {
        fs::write(&path, &current).unwrap();
    }
    let differs = (readme.lines().zip(current.lines())).find(|(old, new)| old != new);
    assert!(
        readme == current || update,
        "`UPDATE_README=1 cargo test -p stage4-flash-cuda --test readme` mends it: {differs:?}"
    );
}
