//! Packages of a workspace whose kernels are compiled ahead, and their files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gpu::checkout;
use gpu::unit::Folder;

use crate::variants;

/// A package of the workspace with a `kernels/variants.txt`.
#[derive(Debug, Clone)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
}

/// The packages with a `kernels/variants.txt` in the workspace at `root`, ordered by folder.
///
/// # Errors
///
/// A folder that cannot be read, or such a file in a folder that is no package and names none.
pub fn packages(root: &Path) -> io::Result<Vec<Package>> {
    let mut packages = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let list = folder.join("kernels/variants.txt");
        if list.is_file() {
            let name = package_of(&folder)
                .ok_or_else(|| io::Error::other(format!("{} names no package", list.display())))?;
            packages.push(Package {
                name,
                folder: folder.clone(),
            });
        }
        for entry in fs::read_dir(&folder)? {
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

/// The package that the kernels of a folder belong to: the one that its `kernels/variants.txt`
/// names, or the folder's own.
pub(crate) fn package_of(folder: &Path) -> Option<String> {
    let list = gpu_reading::text_within(folder, "kernels/variants.txt").ok();
    let named = list.as_deref().and_then(variants::package);
    named.map(str::to_owned).or_else(|| package_name(folder))
}

/// The text of a file of a unit, for [`Unit::new`](gpu::unit::Unit::new): `own` is the kernel
/// file's folder, and other packages are those of its workspace. `None` if it cannot be read, or is
/// not a regular file inside that folder; a link may lead to another `kernels/` folder of a
/// workspace around it.
pub fn read(own: &Path, folder: Folder<'_>, file: &str) -> Option<String> {
    let kernels = match folder {
        Folder::Own => own.to_owned(),
        Folder::Package(name) => {
            let packages = packages(&checkout::workspace_root(own)?).ok()?;
            let package = packages.into_iter().find(|package| package.name == name)?;
            package.folder.join("kernels")
        }
        Folder::Included | Folder::Standard => return None,
    };
    let beside = gpu_reading::within(&kernels, Path::new(file)).ok();
    gpu_reading::text(&beside.or_else(|| source(&kernels, Path::new(file)))?).ok()
}

/// The real path of the file `name`, seen from `folder`, if that is a kernel or a header in a
/// `kernels/` folder of a workspace around `folder`.
pub(crate) fn source(folder: &Path, name: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let real = folder.join(name).canonicalize().ok()?;
    let kind = real.extension()?.to_str()?;
    let of_kernels = checkout::workspace_roots(&folder).any(|root| {
        let within = real.strip_prefix(root).ok().and_then(Path::parent);
        within.is_some_and(|within| {
            within
                .components()
                .any(|part| part.as_os_str() == "kernels")
        })
    });
    (["cu", "cuh"].contains(&kind) && of_kernels).then_some(real)
}

/// The `name` in the `[package]` table of a folder's Cargo.toml.
pub fn package_name(folder: &Path) -> Option<String> {
    let manifest = gpu_reading::text_within(folder, "Cargo.toml").ok()?;
    let package = manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[package]")
        .skip(1);
    let mut table = package.take_while(|line| !line.starts_with('['));
    let value = table.find_map(|line| line.strip_prefix("name")?.trim_start().strip_prefix('='));
    let (name, _) = value?.trim().strip_prefix('"')?.split_once('"')?;
    Some(name.to_owned())
}
