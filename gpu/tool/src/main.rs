//! The program `gpu`: runs, checks and profiles kernel files, and keeps committed PTX current.

mod cli;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use gpu::checkout;

/// Runs, checks and profiles CUDA kernels, on a GPU or without one; manages compiler and committed
/// PTX.
#[derive(Parser)]
#[command(
    name = "gpu",
    after_help = "\
Start here:
  cargo gpu check stage2-naive-cuda/kernels/1_softmax_tree.cu
  cargo gpu profile stage4-flash-cuda/kernels/1_flash.cu --sort time"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Launch a kernel of any .cu or .ptx file, and print or save its buffers.
    Run(cli::run::Arguments),
    /// Check a kernel on the simulator for bad accesses, races and wrong barriers; fail if one is
    /// found.
    Check(cli::check::Arguments),
    /// Count the cost of each source line of a kernel, on the simulator.
    Profile(cli::profile::Arguments),
    /// Record what the lanes of a warp do at source lines, on the simulator.
    Trace(cli::trace::Arguments),
    /// Draw the memory accesses of source lines as SVG, on the simulator.
    Picture(cli::picture::Arguments),
    /// Print the PTX of a kernel file, with registers and spills.
    Ptx(cli::ptx::Arguments),
    /// Compile the variants in each kernels/variants.txt whose committed PTX is stale, and write
    /// it.
    Refresh(cli::refresh::Arguments),
    /// Install the pinned NVRTC with pip into the workspace's .nvrtc folder.
    FetchNvrtc(cli::fetch_nvrtc::Arguments),
    /// List device, compiler, cache and committed PTX of this machine.
    Info,
}

fn main() -> ExitCode {
    // In its usage and errors, the program is called as it can be called from here.
    let matches = Arguments::command()
        .bin_name(checkout::program())
        .get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match &arguments.command {
        Command::Run(arguments) => cli::run::run(arguments),
        Command::Check(arguments) => return cli::check::run(arguments).unwrap_or_else(failure),
        Command::Profile(arguments) => cli::profile::run(arguments),
        Command::Trace(arguments) => cli::trace::run(arguments),
        Command::Picture(arguments) => cli::picture::run(arguments),
        Command::Ptx(arguments) => cli::ptx::run(arguments),
        Command::Refresh(arguments) => cli::refresh::run(arguments),
        Command::FetchNvrtc(arguments) => cli::fetch_nvrtc::run(arguments),
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
