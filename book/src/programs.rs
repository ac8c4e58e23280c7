//! The programs of this repository whose outputs the book shows.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::root;

/// Where the programs come from.
pub enum Programs {
    /// `cargo run` builds them.
    CargoRun,
    /// They lie in this folder, such as `target/debug`.
    Folder(PathBuf),
}

impl Programs {
    /// Builds programs, and shows what cargo says.
    pub fn build(&self, programs: &BTreeSet<&str>) -> Result<()> {
        if let Self::CargoRun = self {
            for program in programs {
                let mut command = Command::new("cargo");
                command.args(["build", "--package", package(program)]);
                let status = command
                    .current_dir(root())
                    .status()
                    .context("cargo build")?;
                ensure!(status.success(), "{program} cannot be built");
            }
        }
        Ok(())
    }

    /// The command that starts a program of this repository on the simulator.
    pub fn command(&self, program: &str) -> Command {
        let mut command = match self {
            Self::CargoRun => {
                let mut command = Command::new("cargo");
                command.args(["run", "--quiet", "--package", package(program), "--"]);
                command
            }
            Self::Folder(folder) => Command::new(root().join(folder).join(program)),
        };
        command
            .current_dir(root())
            .stdin(Stdio::null())
            .env("GPU", "sim")
            .env("NO_COLOR", "1");
        command
    }
}

/// The package of a program.
fn package(program: &str) -> &str {
    match program {
        "gpu" => "gpu-tool",
        other => other,
    }
}

/// A command line that runs a program, as a reader types it.
pub fn typed(program: &str, arguments: &str) -> String {
    match program {
        "gpu" | "grade" => format!("cargo {program} {arguments}"),
        other => format!("cargo run -p {other} -- {arguments}"),
    }
}

/// Addresses of device memory are others in each process.
pub fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x1");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown += "0x…";
        shown += part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    shown
}
