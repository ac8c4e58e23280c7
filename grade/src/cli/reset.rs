//! `reset`: puts the starter's files of a task back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use clap::Args;

use super::starters::starter;
use super::{ask, exercises, files_of, one, print, shown};

/// The flags of `reset`.
#[derive(Args)]
pub struct Arguments {
    /// The task, such as softmax or 3/flash.
    task: String,

    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Asks, copies the files to a folder of backups, and writes the starter's.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let task = one(&arguments.task)?;
    let mut changed = Vec::new();
    for path in files_of(task) {
        let starter = starter(&path)?;
        if fs::read(&path).ok().as_ref() != Some(&starter) {
            changed.push((path, starter));
        }
    }
    if changed.is_empty() {
        return print(&format!("{} is the starter already.\n", task.name()));
    }
    let names: Vec<String> = changed.iter().map(|(path, _)| shown(path)).collect();
    let names = names.join(", ");
    let question = format!("Put back the starter of {names}? A backup is kept.");
    let agreed = match arguments.yes {
        true => Some(true),
        false => ask(&question)?,
    };
    match agreed {
        Some(true) => {}
        Some(false) => return print("Nothing was changed.\n"),
        None => bail!("nobody is there to ask; --yes resets without asking"),
    }
    let exercises = exercises();
    let backup = backup_folder(&exercises)?;
    for (path, starter) in &changed {
        replace(path, starter, &exercises, &backup)?;
    }
    print(&format!(
        "Put back: {names}\nBackup:   {}\n",
        shown(&backup)
    ))
}

/// A folder for this backup: `exercises/.backup/1763829501`, the seconds since 1970.
fn backup_folder(exercises: &Path) -> anyhow::Result<PathBuf> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(exercises.join(".backup").join(now.as_secs().to_string()))
}

/// Copies a file into the backup, under its path in the exercises, and writes the starter in its place.
fn replace(path: &Path, starter: &[u8], exercises: &Path, backup: &Path) -> anyhow::Result<()> {
    let context = || path.display().to_string();
    if path.exists() {
        let kept = backup.join(path.strip_prefix(exercises)?);
        fs::create_dir_all(kept.parent().unwrap_or(backup))?;
        fs::copy(path, &kept).with_context(context)?;
    }
    fs::write(path, starter).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_is_kept() {
        let folder = std::env::temp_dir().join(format!("grade-reset-{}", std::process::id()));
        let file = folder.join("stage2/kernels/softmax.cu");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "mine").unwrap();
        let backup = backup_folder(&folder).unwrap();
        replace(&file, b"starter", &folder, &backup).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"starter");
        let kept = fs::read(backup.join("stage2/kernels/softmax.cu")).unwrap();
        assert_eq!(kept, b"mine");
        // A file that was deleted is put back too.
        fs::remove_file(&file).unwrap();
        replace(&file, b"starter", &folder, &backup).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"starter");
        fs::remove_dir_all(&folder).unwrap();
    }
}
