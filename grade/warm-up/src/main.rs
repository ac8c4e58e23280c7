//! The program `warm-up`, as the alias `cargo warm-up`: judges the warm-ups, and is built without the grader.

use std::process::ExitCode;

use clap::Parser;
use warm_up::cli;

/// Judges the warm-ups.
#[derive(Parser)]
#[command(name = "warm-up", bin_name = "cargo warm-up")]
struct Arguments {
    #[command(flatten)]
    arguments: cli::Arguments,
}

fn main() -> ExitCode {
    cli::run(&Arguments::parse().arguments).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
