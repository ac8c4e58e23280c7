//! The program beside the library: keeps the committed PTX current, fetches the compiler, tells what was found.

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// CUDA kernels of this workspace: committed PTX, compiler, devices.
#[derive(Parser)]
#[command(name = "gpu", bin_name = "cargo run -p gpu --")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile every variant that a kernels/variants.txt lists, and write its ptx/ folder.
    Refresh {
        /// Change nothing; fail if a file differs from what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Install the pinned NVRTC into the workspace's .nvrtc folder, by pip.
    FetchNvrtc,
    /// Tell what was found: device, compiler, cache, committed PTX.
    Info,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Refresh { check } => cli::refresh::run(check),
        Command::FetchNvrtc => cli::fetch_nvrtc::run(),
        Command::Info => cli::info::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
