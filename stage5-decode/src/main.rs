//! Bench and tuning of stage 5: `cargo run -p stage5-decode -- --help`.

use clap::{Parser, Subcommand};

mod cli;

/// Decoding with a KV cache: what it costs, and how well sequences are split.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(cli::bench::Arguments),
    Tune(cli::tune::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Bench(arguments) => cli::bench::run(&arguments),
        Command::Tune(arguments) => cli::tune::run(&arguments),
    }
}
