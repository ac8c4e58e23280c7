//! NVRTC, which edited kernels need: asks before it is fetched.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};
use gpu::find_nvrtc;
use grade::places::Places;
use grade::tasks::Task;

use super::starters::is_starter;
use super::{ask, root};

/// Fetches NVRTC if kernels of the tasks were edited, it is not there, and the learner agrees. Without it, edited kernels lose
/// their points, with a finding that says so.
///
/// # Errors
///
/// `NVRTC_PATH` names none; fetching fails.
pub fn ensure_compiler(places: &Places, tasks: &[&Task], yes: bool) -> anyhow::Result<()> {
    let edited = |task: &&Task| {
        let folder = places.submission.join(task.folder());
        let mut kernels = task.files.iter().filter(|file| file.ends_with(".cu"));
        // The PTX of starters is committed.
        kernels.any(|file| {
            !is_starter(
                &folder.join(file),
                &format!("exercises/{}/{file}", task.folder()),
            )
        })
    };
    if !tasks.iter().any(edited) || find_nvrtc::search()?.found.is_some() {
        return Ok(());
    }
    let question = "Edited kernels need NVIDIA's compiler NVRTC, which is not on this machine. Fetch it with pip into .nvrtc \
                    (about 60 MB)?";
    let agreed = match yes {
        true => Some(true),
        false => ask(question)?,
    };
    match agreed {
        Some(true) => fetch(),
        Some(false) => Ok(()),
        None => {
            eprintln!("There is no NVRTC: edited kernels do not compile. --yes fetches it.");
            Ok(())
        }
    }
}

fn fetch() -> anyhow::Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root())
        .args(["run", "--quiet", "--package", "gpu", "--", "fetch-nvrtc"])
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "NVRTC could not be fetched");
    Ok(())
}
