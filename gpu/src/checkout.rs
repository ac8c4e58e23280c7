//! The checkout that this crate was built in, and workspaces around a folder.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of this package, where it lies: a build may have reached it by a link.
pub(crate) fn own_folder() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    built.canonicalize().unwrap_or_else(|_| built.to_owned())
}

/// The root of the workspace that this crate was built in, if it is still there.
pub fn own_workspace_root() -> Option<PathBuf> {
    workspace_root(&own_folder())
}

/// The command that runs the program `gpu` from the working directory, up to its own arguments.
/// `cargo gpu` is an alias of this workspace.
pub fn program() -> String {
    let here = env::current_dir()
        .ok()
        .and_then(|folder| workspace_root(&folder));
    if here.is_some() && here == own_workspace_root() {
        return "cargo gpu".to_owned();
    }
    let manifest = own_folder().join("tool/Cargo.toml");
    format!("cargo run --manifest-path {} --", manifest.display())
}

/// The nearest folder from `start` upward whose Cargo.toml is a workspace's.
pub fn workspace_root(start: &Path) -> Option<PathBuf> {
    workspace_roots(start).next().map(Path::to_owned)
}

/// The folders from `start` upward whose Cargo.toml is a workspace's, the nearest first.
pub fn workspace_roots(start: &Path) -> impl Iterator<Item = &Path> {
    start.ancestors().filter(|folder| {
        let manifest = gpu_reading::text_within(folder, "Cargo.toml").unwrap_or_default();
        manifest.lines().any(|line| line.trim() == "[workspace]")
    })
}
