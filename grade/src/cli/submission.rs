//! The folder of a submission: where the stages are in it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use grade::places::Places;

use super::root;

/// Names of a folder that a message lists.
const NAMES: usize = 8;

/// A submission: a checkout, or the content of its folder `exercises/`. Folders around it that hold nothing else, as archives
/// have them, are passed through.
///
/// # Errors
///
/// A folder that cannot be read or has no stage; `exercises` is a link.
pub fn submitted(folder: &Path) -> anyhow::Result<Places> {
    let outer = folder
        .canonicalize()
        .with_context(|| folder.display().to_string())?;
    let mut folder = outer.clone();
    loop {
        let inner = folder.join("exercises");
        ensure!(!inner.is_symlink(), "{} is a link", inner.display());
        if inner.is_dir() {
            folder = inner;
        }
        if (1..=6).any(|stage| folder.join(format!("stage{stage}")).is_dir()) {
            return Ok(Places::submission(root(), "submission", folder));
        }
        let entries = entries(&folder).with_context(|| folder.display().to_string())?;
        match &entries[..] {
            [(name, true)] => folder.push(name),
            _ => bail!(
                "{} has no stage: it should be a checkout, or hold stage1, stage2 and so on; there is {}",
                folder.display(),
                listed(&entries)
            ),
        }
    }
}

/// Empties the folder of a submission's programs, which an earlier one may have left, and keeps other gradings out of it until the
/// file is dropped: they would run each other's programs.
///
/// # Errors
///
/// It cannot be locked or emptied.
pub fn claim(places: &Places) -> anyhow::Result<File> {
    let shown = || places.scratch.display().to_string();
    if let Some(parent) = places.scratch.parent() {
        fs::create_dir_all(parent).with_context(shown)?;
    }
    let lock = File::create(places.scratch.with_extension("lock")).with_context(shown)?;
    if lock.try_lock().is_err() {
        eprintln!("waiting for another grading to end");
        lock.lock().with_context(shown)?;
    }
    match fs::remove_dir_all(&places.scratch) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).with_context(shown),
        _ => Ok(lock),
    }
}

/// Names in a folder, in order, and which are folders; without those that systems add: `.git`, `__MACOSX`.
fn entries(folder: &Path) -> io::Result<Vec<(String, bool)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && name != "__MACOSX" {
            entries.push((name, entry.file_type()?.is_dir())); // a link is no folder
        }
    }
    entries.sort();
    Ok(entries)
}

fn listed(entries: &[(String, bool)]) -> String {
    let names = entries.iter().take(NAMES).map(|(name, _)| &**name);
    let names: Vec<&str> = names.collect();
    match entries.len() {
        0 => "nothing".to_owned(),
        count if count > NAMES => format!("{} and {} more", names.join(", "), count - NAMES),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// An empty folder of a test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("grade-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder.canonicalize().unwrap()
    }

    fn found(submission: &Path) -> Result<PathBuf, String> {
        let places = submitted(submission).map_err(|error| error.to_string())?;
        Ok(places.submission)
    }

    #[test]
    fn a_submission_is_found_in_the_folders_around_it() {
        let folder = folder("submission");
        let repository = folder.join("unpacked/course-main");
        let exercises = repository.join("exercises");
        fs::create_dir_all(exercises.join("stage2/kernels")).unwrap();
        fs::create_dir_all(folder.join("__MACOSX")).unwrap();
        fs::create_dir_all(folder.join("unpacked/.git")).unwrap();
        fs::write(repository.join("README.md"), "").unwrap();
        for submission in [&folder, &folder.join("unpacked"), &repository, &exercises] {
            assert_eq!(found(submission), Ok(exercises.clone()));
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_without_a_stage_is_no_submission() {
        let folder = folder("no-submission");
        let missing = |there: &str| {
            let why = format!(
                "{} has no stage: it should be a checkout, or hold stage1, stage2 and so on; there is {there}",
                folder.display()
            );
            assert_eq!(found(&folder), Err(why));
        };
        missing("nothing");
        fs::write(folder.join("softmax.cu"), "").unwrap();
        missing("softmax.cu");
        fs::create_dir(folder.join("Stage2")).unwrap();
        missing("Stage2, softmax.cu");
        for i in 0..NAMES {
            fs::write(folder.join(format!("a{i}")), "").unwrap();
        }
        missing("Stage2, a0, a1, a2, a3, a4, a5, a6 and 2 more");
        symlink(root(), folder.join("exercises")).unwrap();
        let link = format!("{} is a link", folder.join("exercises").display());
        assert_eq!(found(&folder), Err(link));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_submission_begins_in_an_empty_folder_of_its_own() {
        let folder = folder("earlier");
        let places = Places {
            scratch: folder.join("scratch"),
            ..Places::submission(root(), "earlier", folder.clone())
        };
        fs::create_dir_all(places.scratch.join("cache")).unwrap();
        fs::write(places.scratch.join("cache/left"), "").unwrap();
        let held = claim(&places).unwrap();
        assert!(!places.scratch.exists());
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            claim(&places).unwrap();
            sender.send(()).unwrap();
        });
        let waits = receiver.recv_timeout(Duration::from_millis(200)).is_err();
        assert!(waits, "two gradings use one folder");
        drop(held);
        receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
