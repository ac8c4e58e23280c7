//! The tables and plots of README.md are what the program makes.
//!
//! `UPDATE_README=1 cargo test -p stage4-flash-cuda readme` writes them anew.

use std::fs;
use std::path::Path;

use bench_kit::readme::{keep, output, transcripts, with_table};

const PROGRAM: &str = env!("CARGO_BIN_EXE_stage4-flash-cuda");

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn tables_and_plots_are_current() {
    let plots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plots");
    let path = folder().join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let table = output(PROGRAM, &["ladder"]).unwrap();
    assert!(table.lines().count() > 3);
    let readme = with_table(
        &readme,
        "| kernel | queries × keys, threads | instructions",
        &table,
    )
    .unwrap();
    let run = |i, arguments: &[&str]| {
        let plotted = ["--plots", plots.to_str().unwrap()];
        let plotted = plotted.iter().filter(|_| i == 0);
        output(
            PROGRAM,
            &Vec::from_iter(arguments.iter().chain(plotted).copied()),
        )
    };
    let (current, count) = transcripts(&readme, "stage4-flash-cuda", run).unwrap();
    assert_eq!(count, 4);
    for plot in ["latency", "throughput", "speed-up", "memory", "roofline"] {
        let name = format!("{plot}.svg");
        let made = fs::read_to_string(plots.join(&name)).unwrap();
        keep(&folder().join("bench/modelled").join(&name), &made).unwrap();
    }
    keep(&path, &current).unwrap();
}

#[test]
#[ignore = "takes a minute"]
fn further_tables_are_current() {
    let path = folder().join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let table = output(PROGRAM, &["ladder", "--f16"]).unwrap();
    assert!(table.lines().count() > 3);
    let head = "| kernel | queries × keys, threads | FLOPs";
    let readme = with_table(&readme, head, &table).unwrap();
    let table = output(PROGRAM, &["ladder", "--backward"]).unwrap();
    backward_is_as_fast_as_it_should_be(&table, &[2.8, 2.3, 2.8, 2.6]);
    let readme = with_table(&readme, "| D | kernel |", &table).unwrap();
    let table = output(PROGRAM, &["ladder", "--backward", "--f16"]).unwrap();
    backward_is_as_fast_as_it_should_be(&table, &[3.4, 3.1, 3.9, 3.2]);
    let head = "| D | kernel in f16 |";
    keep(&path, &with_table(&readme, head, &table).unwrap()).unwrap();
}

#[test]
#[ignore = "a sweep"]
fn plots_of_both_passes_are_current() {
    let plots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("backward");
    let modes = "naive,register_tiles,library";
    let folder_of_plots = plots.to_str().unwrap();
    let arguments = [
        "bench",
        "--backward",
        "--dim",
        "64",
        "--modes",
        modes,
        "--plots",
        folder_of_plots,
    ];
    output(PROGRAM, &arguments).unwrap();
    for plot in ["latency", "throughput", "speed-up", "memory", "roofline"] {
        let name = format!("{plot}.svg");
        let made = fs::read_to_string(plots.join(&name)).unwrap();
        keep(&folder().join("bench/modelled/backward").join(&name), &made).unwrap();
    }
}

/// By the model, on an H100: how many times as long as the forward pass of the same steps the
/// backward pass takes at most, in each of the table's lines that say so.
fn backward_is_as_fast_as_it_should_be(table: &str, limits: &[f64]) {
    let heads = Vec::from_iter(table.lines().next().unwrap().split(" | "));
    let h100 = heads.iter().position(|&head| head == "ms, h100").unwrap();
    let ratios = table
        .lines()
        .filter(|line| line.contains("backward ÷ forward"));
    let ratios = ratios.map(|line| line.split(" | ").nth(h100).unwrap().parse().unwrap());
    let ratios: Vec<f64> = ratios.collect();
    assert_eq!(ratios.len(), limits.len());
    let mut pairs = ratios.iter().zip(limits);
    assert!(pairs.all(|(ratio, limit)| ratio <= limit), "{ratios:?}");
}
