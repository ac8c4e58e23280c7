//! The learner's files of a stage, in a folder of the grader's own.
//!
//! The program's `main.rs` and the committed PTX are those of the checkout, whatever the submission has: PTX of a submission could
//! be another kernel's than that of the file that it names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::places::Places;
use crate::verdict::Subject;

/// The largest file of a submission that is taken, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The most bytes that are taken of the checkout and a submission together.
const MAX_ALL: u64 = 64 << 20;

/// Makes the folder of a stage in the workspace. Files that are as they were keep their time.
///
/// # Errors
///
/// A folder that cannot be read or written; a link in a learner's submission, which could lead to the solution; a pipe or a
/// device; a file that is too large, or too much of all.
pub fn copy(places: &Places, stage: &str, workspace: &Path) -> io::Result<()> {
    let given = places.root.join("exercises").join(stage);
    let mut files = Files::new();
    let mut room = MAX_ALL;
    collect(
        &given,
        Path::new(stage),
        Links::Followed,
        &mut files,
        &mut room,
    )?;
    // A kernel of the solution that is a stage's own is a link.
    let (parts, links): (&[&str], _) = match places.subject {
        Subject::Learner => (&["src", "kernels"], Links::Refused),
        Subject::Solution => (&["src", "kernels", "ptx"], Links::Followed),
    };
    for part in parts {
        let folder = Path::new(stage).join(part);
        let submitted = places.submission.join(&folder);
        if submitted.is_dir() {
            let real = places.submission.canonicalize()?.join(&folder);
            if links == Links::Refused && submitted.canonicalize()? != real {
                return Err(refused(&folder, "is a link"));
            }
            collect(&submitted, &folder, links, &mut files, &mut room)?;
        }
    }
    let main = fs::read(given.join("src/main.rs"))?;
    files.insert(Path::new(stage).join("src/main.rs"), main);
    write(workspace, Path::new(stage), &files)
}

/// The contents of the workspace, by names from its root.
pub(super) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The treatment of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    Followed,
    Refused,
}

/// The files in a folder, under `name`.
fn collect(
    folder: &Path,
    name: &Path,
    links: Links,
    files: &mut Files,
    room: &mut u64,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), name.join(entry.file_name()));
        if is_hidden(&entry.file_name()) {
            continue;
        }
        if links == Links::Refused && entry.file_type()?.is_symlink() {
            return Err(refused(&name, "is a link"));
        }
        let metadata = fs::metadata(&path)?;
        if metadata.is_dir() {
            collect(&path, &name, links, files, room)?;
        } else if !metadata.is_file() {
            return Err(refused(&name, "is neither a file nor a folder"));
        } else if metadata.len() > MAX_FILE {
            return Err(refused(&name, "has more than 1 MiB"));
        } else if metadata.len() > *room {
            return Err(refused(&name, "is more than the 64 MiB that are taken"));
        } else {
            *room -= metadata.len();
            files.insert(name, fs::read(&path)?);
        }
    }
    Ok(())
}

/// True if a system or an editor made the file beside a learner's: `.DS_Store`, `._softmax.cu`, `.softmax.cu.swp`.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn refused(name: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{} {why}", name.display()))
}

/// Makes a folder hold these files, and no others in its part.
pub(super) fn write(folder: &Path, part: &Path, files: &Files) -> io::Result<()> {
    if folder.join(part).is_dir() {
        remove_others(&folder.join(part), part, files)?;
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

/// Removes other files, and folders with none.
fn remove_others(folder: &Path, name: &Path, files: &Files) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = name.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), &name, files)?;
            let _ = fs::remove_dir(entry.path()); // one with a file is kept
        } else if !files.contains_key(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    #[test]
    fn only_folders_and_files_of_a_submission_are_taken() {
        let folder = std::env::temp_dir().join(format!("grade-copy-{}", std::process::id()));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let solutions = root.join("exercises/solutions");
        let submission = folder.join("submission");
        let kernels = submission.join("stage2/kernels");
        let workspace = folder.join("workspace");
        let places = |subject| Places {
            subject,
            ..Places::submission(&root, "copy", submission.clone())
        };
        let copied = |subject| {
            for stage in ["stage1", "stage2", "stage3"] {
                let copied = copy(&places(subject), stage, &workspace);
                copied.map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        };
        fs::create_dir_all(&kernels).unwrap();
        fs::create_dir_all(submission.join("stage1/src")).unwrap();
        fs::write(kernels.join("softmax.cu"), "mine").unwrap();
        fs::write(submission.join("stage1/src/main.rs"), "mine").unwrap();
        fs::create_dir_all(submission.join("stage2/ptx")).unwrap();
        fs::write(submission.join("stage2/ptx/softmax.ptx"), "mine").unwrap();
        fs::write(submission.join("stage1/Cargo.toml"), "mine").unwrap();
        fs::write(submission.join("stage1/build.rs"), "mine").unwrap();
        fs::write(kernels.join("._softmax.cu"), [0x80]).unwrap();
        copied(Subject::Learner).unwrap();
        let text = |name: &str| fs::read_to_string(workspace.join(name));
        assert!(text("stage2/kernels/._softmax.cu").is_err());
        assert_eq!(text("stage2/kernels/softmax.cu").unwrap(), "mine");
        let given = |name: &str| fs::read_to_string(root.join("exercises").join(name)).ok();
        for name in [
            "stage1/src/main.rs",
            "stage1/Cargo.toml",
            "stage1/build.rs",
            "stage2/ptx/softmax.ptx",
        ] {
            assert_eq!(text(name).ok(), given(name), "{name}");
        }

        let broken = |name: &str, why: &str| {
            assert_eq!(copied(Subject::Learner), Err(format!("{name} {why}")));
        };
        let more = kernels.join("more.cu");
        symlink(solutions.join("stage2/kernels/softmax.cu"), &more).unwrap();
        broken("stage2/kernels/more.cu", "is a link");
        copied(Subject::Solution).unwrap();
        assert!(
            text("stage2/kernels/more.cu")
                .unwrap()
                .contains("__global__")
        );
        fs::remove_file(&more).unwrap();
        symlink(
            solutions.join("stage3/src"),
            submission.join("stage1/src/more"),
        )
        .unwrap();
        broken("stage1/src/more", "is a link");
        fs::remove_file(submission.join("stage1/src/more")).unwrap();
        symlink(solutions.join("stage3"), submission.join("stage3")).unwrap();
        broken("stage3/src", "is a link");
        fs::remove_file(submission.join("stage3")).unwrap();
        let made = Command::new("mkfifo").arg(kernels.join("pipe")).status();
        assert!(made.unwrap().success());
        broken("stage2/kernels/pipe", "is neither a file nor a folder");
        fs::remove_file(kernels.join("pipe")).unwrap();
        fs::write(kernels.join("large.cu"), vec![b' '; MAX_FILE as usize + 1]).unwrap();
        broken("stage2/kernels/large.cu", "has more than 1 MiB");
        fs::remove_file(kernels.join("large.cu")).unwrap();

        // A file where an earlier submission had a folder.
        let more = submission.join("stage1/src/more");
        fs::create_dir_all(more.join("inner")).unwrap();
        fs::write(more.join("inner/mod.rs"), "mine").unwrap();
        copied(Subject::Learner).unwrap();
        fs::remove_dir_all(&more).unwrap();
        fs::write(&more, "a file").unwrap();
        copied(Subject::Learner).unwrap();
        assert_eq!(text("stage1/src/more").unwrap(), "a file");

        // As many files as take no room on the disk.
        for i in 0..64 {
            let file = fs::File::create(kernels.join(format!("part{i:02}.cu"))).unwrap();
            file.set_len(MAX_FILE).unwrap();
        }
        let error = copied(Subject::Learner).unwrap_err();
        assert!(
            error.ends_with("is more than the 64 MiB that are taken"),
            "{error}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
