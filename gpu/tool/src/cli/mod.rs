//! The subcommands, and the walk over the workspace that they share.

pub mod check;
pub mod csv;
pub mod fetch_nvrtc;
pub mod info;
pub mod kernel;
pub mod numbers;
pub mod output;
pub mod picture;
pub mod profile;
pub mod ptx;
mod recorded;
pub mod refresh;
pub mod run;
pub mod trace;
pub mod watch;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use gpu::nvrtc::Nvrtc;
use gpu::{checkout, unit::PINNED_COMPILER};

/// Writes to standard output. A reader that has gone away, as in `… | head`, is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    write(&mut io::stdout(), text)
}

fn write(to: &mut impl Write, text: &str) -> anyhow::Result<()> {
    match to.write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// The root of the workspace that the program is run in.
pub fn workspace_root() -> anyhow::Result<PathBuf> {
    let folder = env::current_dir().context("finding the working directory")?;
    checkout::workspace_root(&folder).with_context(|| {
        format!(
            "no Cargo.toml with [workspace] in {} or above",
            folder.display()
        )
    })
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
         `{} fetch-nvrtc` installs that one",
        path.display(),
        checkout::program()
    );
    Ok(nvrtc)
}
