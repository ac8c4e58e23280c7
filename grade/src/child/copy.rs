//! A workspace of the grader's own with the learner's files in it.
//!
//! The manifests, the programs' `main.rs` and the kit are those of the checkout, whatever the submission has. So a learner's
//! build script, dependency or profile does not take part.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::places::Places;

/// The largest file of a submission that is taken, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Makes a folder the workspace. Files that are as they were keep their time, so that cargo builds only what changed.
///
/// # Errors
///
/// A folder that cannot be read or written; a file of the submission that is too large.
pub fn copy(places: &Places, workspace: &Path) -> io::Result<()> {
    let exercises = places.root.join("exercises");
    let mut files = BTreeMap::new();
    let manifest = fs::read_to_string(exercises.join("Cargo.toml"))?;
    let manifest = elsewhere(&manifest, &places.root);
    files.insert(PathBuf::from("Cargo.toml"), manifest.into_bytes());
    files.insert("Cargo.lock".into(), fs::read(exercises.join("Cargo.lock"))?);
    for stage in (1..=6).map(|stage| format!("stage{stage}")) {
        let given = exercises.join(&stage);
        if !given.is_dir() {
            continue;
        }
        collect(&given, Path::new(&stage), &mut files)?;
        for part in ["src", "kernels", "ptx"] {
            let folder = Path::new(&stage).join(part);
            let submitted = places.submission.join(&folder);
            if submitted.is_dir() {
                let main = given.join("src/main.rs");
                collect(&submitted, &folder, &mut files)?;
                files.insert(Path::new(&stage).join("src/main.rs"), fs::read(main)?);
            }
        }
    }
    write(workspace, &files)
}

/// The manifest of the exercises' workspace, for a copy of it: paths are absolute, and the kit stays where it is.
fn elsewhere(manifest: &str, root: &Path) -> String {
    let root = root.display();
    manifest
        .replace("path = \"../", &format!("path = \"{root}/"))
        .replace(
            "path = \"kit\"",
            &format!("path = \"{root}/exercises/kit\""),
        )
        .replace("members = [\"kit\", ", "members = [")
}

/// The files in a folder, links followed, under `name`.
fn collect(folder: &Path, name: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = name.join(path.file_name().unwrap_or_default());
        let metadata = fs::metadata(&path)?;
        if metadata.is_dir() {
            collect(&path, &name, files)?;
        } else if metadata.len() > MAX_FILE {
            let text = format!("{} has more than {MAX_FILE} bytes", name.display());
            return Err(io::Error::other(text));
        } else {
            files.insert(name, fs::read(&path)?);
        }
    }
    Ok(())
}

/// Makes a folder hold these files and no others.
fn write(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    if folder.is_dir() {
        remove_others(folder, Path::new(""), files)?;
    }
    for (name, text) in files {
        let path = folder.join(name);
        if fs::read(&path).is_ok_and(|old| old == *text) {
            continue;
        }
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)?;
    }
    Ok(())
}

fn remove_others(folder: &Path, name: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = name.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), &name, files)?;
        } else if !files.contains_key(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
