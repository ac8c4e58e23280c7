//! The program beside the library: runs, checks and profiles kernel files; keeps the committed PTX current.

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// CUDA kernels: run, check and profile them, on a GPU or without one; compilers and committed PTX.
#[derive(Parser)]
#[command(
    name = "gpu",
    bin_name = "cargo run -p gpu --",
    after_help = "\
Start here:
  cargo run -p gpu -- check stage2-naive-cuda/kernels/softmax.cu
  cargo run -p gpu -- profile stage4-flash-cuda/kernels/2_options.cu --sort time"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Launch a kernel of any .cu or .ptx file, and print or save its buffers.
    Run(cli::run::Arguments),
    /// Look for a kernel's mistakes on the simulator: bad accesses, races, barriers; fail if there is one.
    Check(cli::check::Arguments),
    /// Count what each source line of a kernel costs, on the simulator.
    Profile(cli::profile::Arguments),
    /// Print what a kernel file compiles to, with registers and spills.
    Ptx(cli::ptx::Arguments),
    /// Compile the variants in each kernels/variants.txt whose committed PTX is stale, and write it.
    Refresh(cli::refresh::Arguments),
    /// Install the pinned NVRTC into the workspace's .nvrtc folder, by pip.
    FetchNvrtc,
    /// Tell what was found: device, compiler, cache, committed PTX.
    Info,
}

fn main() -> ExitCode {
    let result = match &Arguments::parse().command {
        Command::Run(arguments) => cli::run::run(arguments),
        Command::Check(arguments) => return cli::check::run(arguments).unwrap_or_else(failure),
        Command::Profile(arguments) => cli::profile::run(arguments),
        Command::Ptx(arguments) => cli::ptx::run(arguments),
        Command::Refresh(arguments) => cli::refresh::run(arguments),
        Command::FetchNvrtc => cli::fetch_nvrtc::run(),
        Command::Info => cli::info::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(error),
    }
}

fn failure(error: anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
