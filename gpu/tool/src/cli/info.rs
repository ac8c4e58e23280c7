//! `info`: lists device, compiler, cache and committed PTX of this machine.

use std::fs;
use std::path::Path;

use gpu::nvrtc::Nvrtc;
use gpu::{cache, checkout, find_nvrtc};
use gpu_tool::workspace;

use super::{refresh, workspace_root};

/// Prints a line for each part. A missing part is reported in its line, and is no error.
pub fn run() -> anyhow::Result<()> {
    super::print(&format!(
        "device:        {}\ncompiler:      {}\ncache:         {}\ncommitted PTX: {}\n",
        device().unwrap_or_else(|error| format!("none: {error}")),
        compiler().unwrap_or_else(|error| format!("none: {error}")),
        cached(),
        committed().unwrap_or_else(|error| format!("none: {error}")),
    ))
}

fn device() -> anyhow::Result<String> {
    let ctx = gpu::context(0)?;
    let (major, minor) = ctx.compute_capability()?;
    let bytes = ctx.total_mem()?;
    let driver = gpu::backend()?.label();
    Ok(format!(
        "{}, compute {major}.{minor}, {} MiB, by {driver}",
        gpu::device_label(&ctx)?,
        bytes >> 20
    ))
}

fn compiler() -> Result<String, gpu::Error> {
    let search = find_nvrtc::search()?;
    let Some(path) = search.found else {
        return Ok(format!(
            "no NVRTC; `{} fetch-nvrtc` fetches it (only edited kernels need it)",
            checkout::program()
        ));
    };
    Ok(format!(
        "NVRTC {}: {}",
        Nvrtc::open(&path)?.full_version()?,
        path.display()
    ))
}

fn cached() -> String {
    let Some(folder) = cache::folder() else {
        return "none: set GPU_CACHE_DIR, XDG_CACHE_HOME or HOME".to_owned();
    };
    let sizes = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.metadata().ok());
    let (files, bytes) = sizes.fold((0, 0), |(files, bytes), metadata| {
        (files + 1, bytes + metadata.len())
    });
    format!(
        "{files} files, {} KiB: {}",
        bytes.div_ceil(1024),
        folder.display()
    )
}

/// PTX files in a folder and in those within it.
fn ptx_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .map(|path| match path.is_dir() {
            true => ptx_files(&path),
            false => usize::from(path.extension().is_some_and(|extension| extension == "ptx")),
        })
        .sum()
}

fn committed() -> anyhow::Result<String> {
    let (mut counts, mut any_stale) = (Vec::new(), false);
    for package in workspace::packages(&workspace_root()?)? {
        let mut count = format!(
            "{} {}",
            package.name,
            ptx_files(&package.folder.join("ptx"))
        );
        let stale = refresh::stale(&package)?;
        if stale > 0 {
            any_stale = true;
            count += &format!(" ({stale} stale)");
        }
        counts.push(count);
    }
    let mut text = counts.join(", ");
    if any_stale {
        text += &format!("; `{} refresh` compiles what is stale", checkout::program());
    }
    Ok(text)
}
