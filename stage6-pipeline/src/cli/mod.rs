//! The command line: a file per subcommand.

pub mod bench;
pub mod compare;
pub mod generate;
mod model;
mod output;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

/// Text generation by GPT-2 and Llama-style models whose every step runs as a CUDA kernel, on an
/// NVIDIA GPU or, without one, on the simulated device.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    generate: generate::Arguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(Box<generate::Arguments>),
    Bench(bench::Arguments),
    Compare(compare::Arguments),
}

impl Arguments {
    /// Runs the subcommand; `generate` if there is none.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.command {
            None => generate::run(&self.generate),
            Some(Command::Generate(arguments)) => generate::run(arguments),
            Some(Command::Bench(arguments)) => bench::run(arguments),
            Some(Command::Compare(arguments)) => compare::run(arguments),
        }
    }
}

/// An error and its causes, without those that the text before them quotes already.
pub fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// Writes to standard error; nobody reading it is no reason to stop.
pub fn note(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// A bar on standard error, if that is a terminal, for `count` of a unit.
fn progress(count: u64, unit: &str) -> ProgressBar {
    let template = format!("{{bar:30}} {{pos}}/{{len}} {unit}, {{elapsed}} passed, {{eta}} left");
    let style = ProgressStyle::with_template(&template);
    ProgressBar::new(count).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}

/// True for a write that failed because the reader of standard output, say `head`, has ended.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
