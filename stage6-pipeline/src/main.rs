//! Generates text: `cargo run --release -p stage6-pipeline -- --prompt "Once upon a time"`.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Arguments::parse().run() {
        Ok(code) => code,
        Err(error) if cli::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            cli::note(&format!("error: {}", cli::message(&error)));
            ExitCode::FAILURE
        }
    }
}
