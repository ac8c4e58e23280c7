//! `fetch-nvrtc`: installs the pinned compiler into the workspace, by pip. Outside a workspace it
//! installs into the one that this program was built in.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use gpu::checkout::own_workspace_root;
use gpu::find_nvrtc::{WORKSPACE_FOLDER, in_site_packages};
use gpu::unit::PINNED_COMPILER;

use super::{open_pinned, pinned_version, print, workspace_root};

/// The packages with CUDA's headers of the same release: cuda_fp16.h, cooperative_groups.h and
/// others, and what they include.
const HEADERS: [&str; 3] = [
    "nvidia-cuda-runtime-cu12==12.4.127",
    "nvidia-cuda-cccl-cu12==12.4.127.post1",
    "nvidia-cuda-nvcc-cu12==12.4.131",
];

/// The flags of `fetch-nvrtc`.
#[derive(Args)]
pub struct Arguments {
    /// Install CUDA's headers too, for kernels that include cuda_fp16.h, cooperative_groups.h or
    /// the like.
    #[arg(long)]
    headers: bool,
}

/// Installs into a folder beside the final one, loads the library from there, then renames the
/// folder. A failed installation leaves nothing behind.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = workspace_root().or_else(|error| own_workspace_root().ok_or(error))?;
    let folder = root.join(WORKSPACE_FOLDER);
    let headers = if arguments.headers {
        " with headers"
    } else {
        ""
    };
    if let Some(path) = in_site_packages(&folder)
        && let Ok(nvrtc) = open_pinned(&path)
        && (!arguments.headers || !nvrtc.headers().is_empty())
    {
        return print(&format!(
            "NVRTC {}{headers} is already there: {}\n",
            pinned_version(),
            path.display()
        ));
    }
    let mut packages = vec![PINNED_COMPILER];
    if arguments.headers {
        packages.extend(HEADERS);
    }
    let unfinished = folder.with_extension("unfinished");
    remove(&unfinished)?;
    let result = pip_install(&unfinished, &packages).and_then(|()| {
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
    print(&format!(
        "installed NVRTC {}{headers} in {}\n",
        pinned_version(),
        folder.display()
    ))
}

/// Runs the first pip there is.
fn pip_install(target: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let names = packages.join(" ");
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
        command.arg(target).args(packages);
        let shown = pip.join(" ");
        match command.output() {
            Err(error) => failures += &format!("\n  {shown}: {error}"),
            Ok(output) if output.status.success() => {
                let target = target.display();
                return print(&format!("{shown} install --target {target} {names}\n"));
            }
            Ok(output) => {
                failures += &format!(
                    "\n  {shown}: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                )
            }
        }
    }
    bail!("fetching {names} takes Python 3 with pip and a package index; tried{failures}")
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    Ok(())
}
