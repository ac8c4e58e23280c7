//! `bench`: its figures, and what it refuses.

use std::process::Stdio;

use rstest::rstest;

use super::{assert_refused, program, stderr};
use crate::common::{scratch, tiny_folder};

#[rstest]
#[case::no_prompt(&["--prompt-tokens", "0"], "--prompt-tokens")]
#[case::long_prompt(&["--dummy", "--prompt-tokens", "18446744073709551615"], "--prompt-tokens")]
#[case::one_token(&["--tokens", "1"], "--tokens")]
#[case::many_tokens(&["--dummy", "--tokens", "18446744073709551615"], "--tokens")]
#[case::large_batch(&["--batch", "18446744073709551615"], "--batch")]
#[case::many_runs(&["--runs", "18446744073709551615"], "--runs")]
fn bench_refuses_numbers_out_of_range(#[case] arguments: &[&str], #[case] name: &str) {
    let output = program().arg("bench").args(arguments).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(name) && said.contains("is not in "), "{said}");
}

/// Of a petabyte: vocab × hidden × 4 bytes.
#[test]
fn bench_refuses_weights_that_no_host_can_hold() {
    let sizes = [
        "--hidden", "16777216", "--heads", "65536", "--vocab", "16777216",
    ];
    let bench = ["bench", "--dummy", "--layers", "1", "--tokens", "2"];
    let output = program().args(bench).args(sizes).output().unwrap();
    assert_refused(
        &output,
        "weights is a matrix of 16777216 × 16777216 elements of f32 (1125899906842624 bytes)",
    );
}

#[test]
fn bench_writes_figures_that_agree() {
    let json = scratch("bench").join("bench.json");
    let output = program()
        .args(["bench", "--model"])
        .arg(tiny_folder())
        .args([
            "--prompt-tokens",
            "5",
            "--tokens",
            "4",
            "--batch",
            "2",
            "--launches",
            "--json",
        ])
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let tbt = number(&report["tbt_us"]["median"]);
    assert!(tbt > 0.0 && number(&report["ttft_us"]["median"]) > 0.0);
    assert!(number(&report["tbt_us"]["p95"]) >= tbt);
    let rate = number(&report["tokens_per_second"]);
    assert!((rate - 2e6 / tbt).abs() <= 1e-6 * rate);
    assert!((0.0..1.0).contains(&number(&report["bandwidth"])));
    let times = report["times"].as_str().unwrap();
    assert!(printed.contains(times), "{printed}");
    let kernels = report["kernels"].as_array().unwrap();
    if times == "measured" {
        assert!(kernels.is_empty() && report["step"] == serde_json::json!([]));
        return;
    }
    // Of 2 blocks. The shares are of the whole.
    let launches = |name: &str| {
        let kernel = kernels
            .iter()
            .find(|kernel| kernel["kernel"] == name)
            .unwrap();
        number(&kernel["launches_per_token"])
    };
    assert_eq!(
        ["update_cache", "argmax", "advance", "increment"].map(launches),
        [2.0, 1.0, 1.0, 1.0]
    );
    // The first launch of a step takes 3 µs to start, one behind others 2 µs.
    let starts = |name: &str| {
        let kernel = kernels.iter().find(|kernel| kernel["kernel"] == name);
        number(&kernel.unwrap()["us_per_token"]).floor()
    };
    assert_eq!(["advance", "increment"].map(starts), [3.0, 2.0]);
    let sum = |name: &str| {
        kernels
            .iter()
            .map(|kernel| number(&kernel[name]))
            .sum::<f64>()
    };
    assert!((sum("share") - 1.0).abs() < 1e-9);
    assert!(
        (sum("us_per_token") - tbt).abs() < 0.2 * tbt,
        "{tbt}: {report}"
    );
    // The launches of a step: all of it, in order, each but the first 1 µs less than alone.
    let step = report["step"].as_array().unwrap();
    assert_eq!(step.len() as f64, sum("launches_per_token"));
    let all: f64 = step.iter().map(|launch| number(&launch["us"])).sum();
    assert!((all - tbt).abs() < 0.2 * tbt, "{all}: {report}");
    for (index, launch) in step.iter().enumerate() {
        let saved = number(&launch["alone_us"]) - number(&launch["us"]);
        assert!((saved - f64::from(u8::from(index > 0))).abs() < 1e-9);
    }
    let name = |at: usize| step[at]["kernel"].as_str().unwrap();
    assert_eq!([name(0), name(step.len() - 1)], ["advance", "increment"]);
    let (_, printed) = printed.split_once("launches of a step").unwrap();
    assert_eq!(printed.lines().count(), 1 + step.len(), "{printed}");
}

/// Bytes of a step: those of the matrices but for the embedding, of vectors in f32, and
/// of 7 tokens in the cache.
#[rstest]
#[case::dummy(
    &["--dummy", "--layers", "1", "--hidden", "24", "--heads", "3", "--vocab", "50", "--dtype", "bf16"],
    2 * (72 * 24 + 24 * 24 + 192 * 24 + 24 * 96 + 50 * 24) + 4 * 6 * 24 + 2 * 7 * 2 * 24
)]
#[case::config(
    &["--config", concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-gpt2/config.json")],
    4 * (2 * (12 * 36 * 36 + 9 * 36 + 4 * 36) + 2 * 36 + 300 * 36) + 2 * 4 * 7 * 2 * 36
)]
fn bench_draws_random_weights(#[case] model: &[&str], #[case] bytes: u64) {
    let json = scratch(&format!("bench-{bytes}")).join("bench.json");
    let sizes = ["--prompt-tokens", "5", "--tokens", "4", "--json"];
    let mut program = program();
    program.arg("bench").args(model).args(sizes).arg(&json);
    let output = program.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report = std::fs::read_to_string(json).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["step_bytes"], bytes);
}

#[test]
fn bench_without_a_reader_writes_its_figures() {
    let json = scratch("bench-unread").join("bench.json");
    let mut child = program()
        .args(["bench", "--prompt-tokens", "2", "--tokens", "2", "--model"])
        .arg(tiny_folder())
        .arg("--json")
        .arg(&json)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take()); // Every write fails from here on.
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    assert!(json.exists());
}
