//! `warm-up`: judges the warm-ups. The judge is a package of its own, `grade/warm-up`.

use std::process::ExitCode;

use clap::Args;
use warm_up::cli;

use super::compiler::offer_compiler;

/// The flags of `warm-up`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    arguments: cli::Arguments,

    /// Do not ask before the compiler is fetched.
    #[arg(long)]
    yes: bool,
}

/// Judges; the exit status tells whether all are done.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.arguments.compiles() {
        offer_compiler(&["exercises/warm-up".to_owned()], arguments.yes)?;
    }
    cli::run(&arguments.arguments)
}

/// Judges a warm-up at every save, until it is interrupted.
pub fn watch(name: &str, yes: bool) -> anyhow::Result<()> {
    let arguments = cli::Arguments::watching(name);
    run(&Arguments { arguments, yes }).map(|_| ())
}
