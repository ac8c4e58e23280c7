//! The tables and charts of README.md are what the program makes.
//!
//! `UPDATE_README=1 cargo test -p stage5-decode readme` writes them anew.

use std::fs;
use std::path::Path;

use bench_kit::readme::{keep, output, transcripts};

const PROGRAM: &str = env!("CARGO_BIN_EXE_stage5-decode");

#[test]
#[ignore = "a sweep"]
fn benches_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let charts = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stage5-decode");
    let path = folder.join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let run = |_, arguments: &[&str]| {
        let plotted = ["--svg", charts.to_str().unwrap()];
        let plotted = plotted.iter().filter(|_| arguments.contains(&"lengths"));
        output(
            PROGRAM,
            &Vec::from_iter(arguments.iter().chain(plotted).copied()),
        )
    };
    let (current, count) = transcripts(&readme, "stage5-decode", run).unwrap();
    assert_eq!(count, 5);
    for chart in ["latency", "bandwidth"] {
        let name = format!("{chart}.svg");
        let made = fs::read_to_string(charts.join(&name)).unwrap();
        keep(&folder.join("bench/modelled").join(&name), &made).unwrap();
    }
    keep(&path, &current).unwrap();
}

#[test]
fn bad_arguments_are_refused_before_anything_runs() {
    for (arguments, reason) in [
        (
            &["--heads", "6", "--kv-heads", "4"][..],
            "6 heads are not a multiple of 4",
        ),
        (&["--kv-heads", "0"], "it is not from 1 to"),
        (&["--context", "512,0"], "it is not from 1 to"),
        (&["--page-sizes", "15"], "a page has 16..=256 tokens"),
        (&["--dim", "257"], "it is not from 1 to 256"),
        (&["--dtype", "f64"], "it is none of f32, f16, bf16"),
        (
            &["--tables", "pages", "--svg", "x"],
            "--svg needs the table of lengths",
        ),
    ] {
        let error = output(PROGRAM, &[&["bench"], arguments].concat()).unwrap_err();
        assert!(error.to_string().contains(reason), "{arguments:?}: {error}");
    }
}

#[test]
fn a_problem_larger_than_the_device_is_remarked_on() {
    let of_batch = |batch| {
        let arguments = ["bench", "--tables", "lengths", "--batch", batch];
        let sizes = ["--context", "512", "--dtype", "f32"];
        output(PROGRAM, &[&arguments[..], &sizes].concat()).unwrap()
    };
    let remark = "the largest problem needs 128.4 GiB of memory; cuda-sim (h100) has 80.0 GiB\n";
    let text = of_batch("8192");
    assert!(text.contains(remark), "{text}");
    let text = of_batch("4096");
    assert!(!text.contains("the largest problem"), "{text}");
}
