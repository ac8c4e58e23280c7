//! The subcommands, and the walk over the workspace that they share.

pub mod check;
pub mod csv;
pub mod fetch_nvrtc;
pub mod info;
pub mod ink;
pub mod kernel;
pub mod numbers;
pub mod profile;
pub mod ptx;
pub mod refresh;
pub mod run;

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use gpu::nvrtc::Nvrtc;
use gpu::{find_nvrtc, kernel_file, unit::PINNED_COMPILER};

/// Writes to standard output. A reader that has gone away, as in `… | head`, is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// A package of the workspace whose kernels are compiled ahead.
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
}

/// The root of the workspace that the program is run in.
pub fn workspace_root() -> anyhow::Result<PathBuf> {
    let folder = env::current_dir().context("finding the working directory")?;
    find_nvrtc::workspace_root(&folder).with_context(|| {
        format!(
            "no Cargo.toml with [workspace] in {} or above",
            folder.display()
        )
    })
}

/// The packages with a `kernels/variants.txt`, ordered by folder.
pub fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    let mut packages = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        if folder.join("kernels/variants.txt").is_file() {
            packages.push(Package {
                name: kernel_file::package_name(&folder).with_context(|| {
                    format!("{} names no package", folder.join("Cargo.toml").display())
                })?,
                folder: folder.clone(),
            });
        }
        for entry in
            fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?
        {
            let entry = entry?;
            let name = entry.file_name();
            let skipped = name == "target" || name.to_string_lossy().starts_with('.');
            if !skipped && entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    packages.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(packages)
}

/// The version in the pinned compiler's name: `12.4.127`.
pub fn pinned_version() -> &'static str {
    PINNED_COMPILER
        .rsplit("==")
        .next()
        .unwrap_or(PINNED_COMPILER)
}

/// Loads the library at `path` if it is the pinned compiler.
pub fn open_pinned(path: &Path) -> anyhow::Result<Nvrtc> {
    let nvrtc = Nvrtc::open(path)?;
    let (version, pinned) = (nvrtc.full_version()?, pinned_version());
    anyhow::ensure!(
        version == pinned,
        "{} is NVRTC {version}, but committed PTX is made by {pinned} ({PINNED_COMPILER}); \
         `cargo run -p gpu -- fetch-nvrtc` installs that one",
        path.display()
    );
    Ok(nvrtc)
}
