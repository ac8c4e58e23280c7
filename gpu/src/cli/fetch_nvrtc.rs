//! `fetch-nvrtc`: installs the pinned compiler into the workspace, by pip. Outside a workspace it installs into the one that
//! this program was built in.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use gpu::find_nvrtc::{WORKSPACE_FOLDER, in_site_packages, own_workspace_root};
use gpu::unit::PINNED_COMPILER;

use super::{open_pinned, pinned_version, workspace_root};

/// Installs into a folder beside the final one, loads the library from there, then renames the folder. A failed installation
/// leaves nothing behind.
pub fn run() -> anyhow::Result<()> {
    let root = workspace_root().or_else(|error| own_workspace_root().ok_or(error))?;
    let folder = root.join(WORKSPACE_FOLDER);
    if let Some(path) = in_site_packages(&folder)
        && open_pinned(&path).is_ok()
    {
        println!(
            "NVRTC {} is already there: {}",
            pinned_version(),
            path.display()
        );
        return Ok(());
    }
    let unfinished = folder.with_extension("unfinished");
    remove(&unfinished)?;
    let result = pip_install(&unfinished).and_then(|()| {
        let path = in_site_packages(&unfinished).context("the package has no libnvrtc")?;
        open_pinned(&path)?;
        remove(&folder)?;
        fs::rename(&unfinished, &folder)
            .with_context(|| format!("renaming {}", unfinished.display()))
    });
    if let Err(error) = result {
        remove(&unfinished)?;
        return Err(error);
    }
    println!(
        "installed NVRTC {} in {}",
        pinned_version(),
        folder.display()
    );
    Ok(())
}

/// Runs the first pip there is.
fn pip_install(target: &Path) -> anyhow::Result<()> {
    let mut failures = String::new();
    for pip in [
        &["python3", "-m", "pip"][..],
        &["python", "-m", "pip"],
        &["pip3"],
        &["pip"],
    ] {
        let mut command = Command::new(pip[0]);
        command
            .args(&pip[1..])
            .args(["install", "--no-deps", "--only-binary=:all:", "--target"]);
        command.arg(target).arg(PINNED_COMPILER);
        let shown = pip.join(" ");
        match command.output() {
            Err(error) => failures += &format!("\n  {shown}: {error}"),
            Ok(output) if output.status.success() => {
                println!(
                    "{shown} install --target {} {PINNED_COMPILER}",
                    target.display()
                );
                return Ok(());
            }
            Ok(output) => {
                failures += &format!(
                    "\n  {shown}: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                )
            }
        }
    }
    bail!("fetching {PINNED_COMPILER} takes Python 3 with pip and a package index; tried{failures}")
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    Ok(())
}
