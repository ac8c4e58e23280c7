//! NVRTC, which kernels need that are not committed: asks before it is fetched.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};
use gpu::find_nvrtc;
use grade::compiler::edited;
use grade::places::Places;
use grade::tasks::Task;

use super::{ask, root};

/// Offers to fetch NVRTC, if kernels of the tasks were edited.
///
/// # Errors
///
/// Those of [`offer_compiler`].
pub fn ensure_compiler(places: &Places, tasks: &[&Task], yes: bool) -> anyhow::Result<()> {
    let files = edited(places, tasks);
    let files: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    offer_compiler(&files, yes)
}

/// Fetches NVRTC if these kernels were edited, it is not there, and the learner agrees. Without it, edited kernels do not
/// compile, with a finding that says so.
///
/// # Errors
///
/// `NVRTC_PATH` names none; fetching fails.
pub fn offer_compiler(files: &[String], yes: bool) -> anyhow::Result<()> {
    if files.is_empty() || is_there()? {
        return Ok(());
    }
    let files = files.join(", ");
    if offer(&format!("{files}: kernels that are not committed"), yes)?.is_none() {
        eprintln!("There is no NVRTC: such kernels do not compile ({files}). --yes fetches it.");
    }
    Ok(())
}

/// Fetches NVRTC for the kernels of submissions, if it is not there and the instructor agrees.
///
/// # Errors
///
/// There is still none; those of [`offer_compiler`].
pub fn require_compiler(yes: bool) -> anyhow::Result<()> {
    if !is_there()? {
        offer("kernels of submissions", yes)?;
        ensure!(
            is_there()?,
            "there is no NVRTC, which kernels of submissions need: --yes fetches it"
        );
    }
    Ok(())
}

fn is_there() -> anyhow::Result<bool> {
    Ok(find_nvrtc::search()?.found.is_some())
}

/// Fetches NVRTC if that is wanted. `None`: nobody is there to ask.
fn offer(what: &str, yes: bool) -> anyhow::Result<Option<bool>> {
    let question = format!(
        "{what} need NVIDIA's compiler NVRTC, which is not on this machine. Fetch it with pip into .nvrtc (about 60 MB)?"
    );
    let agreed = match yes {
        true => Some(true),
        false => ask(&question)?,
    };
    if agreed == Some(true) {
        fetch()?;
    }
    Ok(agreed)
}

fn fetch() -> anyhow::Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root())
        .args([
            "run",
            "--quiet",
            "--package",
            "gpu-tool",
            "--",
            "fetch-nvrtc",
        ])
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "NVRTC could not be fetched");
    Ok(())
}
