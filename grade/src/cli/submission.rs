//! The folder of a submission: where the stages are in it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use grade::places::Places;

use super::root;

/// Names of a folder that a message lists.
const NAMES: usize = 8;

/// A submission: a checkout, or the content of its folder `exercises/`. Folders around it that hold no other folder and no code,
/// as archives have them, are passed through.
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
        let telling = entries
            .iter()
            .filter(|(name, is_dir)| *is_dir || is_code(name));
        match Vec::from_iter(telling)[..] {
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
/// file is dropped: they would run each other's programs. A folder that cannot be removed, which a program may have left on
/// purpose, is put aside.
///
/// # Errors
///
/// It cannot be locked or put aside.
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
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let aside = put_aside(&places.scratch).with_context(shown)?;
            eprintln!(
                "{} cannot be removed ({error}) and is now {}",
                places.scratch.display(),
                aside.display()
            );
        }
        _ => {}
    }
    Ok(lock)
}

/// Gives a folder a name beside it that nothing has.
fn put_aside(folder: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let aside = folder.with_extension(format!("left{number}"));
        if aside.symlink_metadata().is_err() {
            return fs::rename(folder, &aside).map(|()| aside);
        }
        number += 1;
    }
}

/// Names in a folder, in order, and which are folders; without those that systems add: `.git`, `__MACOSX`.
fn entries(folder: &Path) -> io::Result<Vec<(OsString, bool)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(b".") && name != "__MACOSX" {
            entries.push((name, entry.file_type()?.is_dir())); // a link is no folder
        }
    }
    entries.sort();
    Ok(entries)
}

/// True for a file of a learner's, which belongs into a stage.
fn is_code(name: &OsString) -> bool {
    let ending = Path::new(name).extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| ["rs", "cu", "cuh", "ptx"].contains(&ending))
}

fn listed(entries: &[(OsString, bool)]) -> String {
    let names = entries.iter().take(NAMES);
    let names: Vec<_> = names.map(|(name, _)| name.to_string_lossy()).collect();
    match entries.len() {
        0 => "nothing".to_owned(),
        count if count > NAMES => format!("{} and {} more", names.join(", "), count - NAMES),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
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
        for stray in ["README.md", "Thumbs.db"] {
            fs::write(folder.join(stray), "").unwrap();
        }
        fs::write(repository.join("README.md"), "").unwrap();
        for submission in [&folder, &folder.join("unpacked"), &repository, &exercises] {
            assert_eq!(found(submission), Ok(exercises.clone()));
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_name_need_not_be_text() {
        let folder = folder("latin");
        let inner = folder.join(OsString::from_vec(b"Zo\xeb".to_vec()));
        fs::create_dir_all(inner.join("stage1")).unwrap();
        assert_eq!(found(&folder), Ok(inner));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_program_left_on_purpose_does_not_stop_the_next() {
        let folder = folder("left");
        let places = Places {
            scratch: folder.join("scratch"),
            ..Places::submission(root(), "left", folder.clone())
        };
        let hidden = places.scratch.join("cache/hidden");
        fs::create_dir_all(&hidden).unwrap();
        fs::write(hidden.join("file"), "").unwrap();
        // No hindrance to root.
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).unwrap();
        claim(&places).unwrap();
        assert!(!places.scratch.exists());
        // Never removed as a folder, whoever asks.
        for aside in ["scratch.left8", "scratch.left9"] {
            fs::write(&places.scratch, "").unwrap();
            for number in 1..8 {
                let taken = folder.join(format!("scratch.left{number}"));
                fs::create_dir_all(taken).unwrap();
            }
            claim(&places).unwrap();
            assert!(!places.scratch.exists());
            assert!(folder.join(aside).is_file(), "{aside}");
        }
        let hidden = folder.join("scratch.left1/cache/hidden");
        let _ = fs::set_permissions(hidden, fs::Permissions::from_mode(0o700));
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
