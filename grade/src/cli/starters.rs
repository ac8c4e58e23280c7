//! The starters of the exercises.
//!
//! `starters.txt` names each by git's hash of its content, so that its text is in the objects of every checkout that has ever
//! held it, whatever was committed since.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use grade::starters::hash_of;

use super::{root, shown};

/// The text of a file's starter.
///
/// # Errors
///
/// The file has none; git is not installed, or does not have it.
pub fn starter(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = shown(path);
    let hash = hash_of(&name).with_context(|| format!("starters.txt has no {name}"))?;
    git([OsStr::new("cat-file"), OsStr::new("blob"), OsStr::new(hash)])
        .with_context(|| format!("reading the starter of {name}"))
}

fn git<const N: usize>(arguments: [&OsStr; N]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(arguments)
        .output()
        .context("starting git")?;
    let reason = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git: {}", reason.trim());
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::files_of;
    use grade::starters::STARTERS;
    use grade::tasks::TASKS;

    /// In the course's own repository the exercises are the starters. `UPDATE_STARTERS=1` writes the list anew.
    #[test]
    fn the_list_is_that_of_the_starters() {
        let mut list: Vec<String> = Vec::new();
        let tasks = TASKS.chunk_by(|a, b| a.shares_files(b));
        for path in tasks.flat_map(|steps| files_of(&steps[0])) {
            let hash = git([OsStr::new("hash-object"), path.as_os_str()]).unwrap();
            let hash = String::from_utf8(hash).unwrap();
            list.push(format!("{} {}", hash.trim(), shown(&path)));
        }
        let list = list.join("\n") + "\n";
        if std::env::var_os("UPDATE_STARTERS").is_some() {
            std::fs::write(root().join("grade/starters.txt"), list).unwrap();
        } else {
            assert_eq!(STARTERS, list, "UPDATE_STARTERS=1 mends it");
        }
    }

    #[test]
    fn a_file_without_a_starter_is_refused() {
        let error = starter(&root().join("README.md")).unwrap_err();
        assert_eq!(error.to_string(), "starters.txt has no README.md");
    }
}
