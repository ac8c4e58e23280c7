//! Benches, tuning and tables of stage 4: `cargo run -p stage4-flash-cuda -- --help`.

use clap::{Parser, Subcommand};

mod cli;

/// Benches and tunes the fused kernels, and prints the tables of the README.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(cli::bench::Arguments),
    Ladder(cli::ladder::Arguments),
    Tune(cli::tune::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Bench(arguments) => cli::bench::run(&arguments),
        Command::Ladder(arguments) => cli::ladder::run(&arguments),
        Command::Tune(arguments) => cli::tune::run(&arguments),
    }
}
