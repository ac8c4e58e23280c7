//! The last result of each task, kept in `target/grade/kept/`: valid as long as the files and the grader are the same.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::Context;
use grade::places::Places;
use grade::tasks::Task;
use grade::verdict::TaskGrade;
use serde::{Deserialize, Serialize};

use super::{exercises, root, write};

/// A result, and what it is the result of.
#[derive(Serialize, Deserialize)]
struct Kept {
    fingerprint: u64,
    result: TaskGrade,
}

/// The result of a task, if nothing that it depends on has changed since.
pub fn kept(task: &Task) -> Option<TaskGrade> {
    let kept = read(task)?;
    (kept.fingerprint == fingerprint(task)).then_some(kept.result)
}

/// The last result of a task, whatever has changed since.
pub fn last(task: &Task) -> Option<TaskGrade> {
    Some(read(task)?.result)
}

fn read(task: &Task) -> Option<Kept> {
    let text = fs::read_to_string(path(task.stage, task.id)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Keeps the result of a task; the fingerprint was taken before it was graded.
pub fn keep(fingerprint: u64, result: &TaskGrade) -> anyhow::Result<()> {
    let path = path(result.stage, &result.task);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let kept = Kept {
        fingerprint,
        result: result.clone(),
    };
    write(&path, &serde_json::to_string(&kept)?)
}

/// A number that differs, almost surely, if a file of the stage or the grader does.
pub fn fingerprint(task: &Task) -> u64 {
    let mut hasher = DefaultHasher::new();
    let grader = env::current_exe().and_then(|path| path.metadata()?.modified());
    grader.ok().hash(&mut hasher);
    hash_folder(&exercises().join(task.folder()), &mut hasher);
    hasher.finish()
}

fn hash_folder(folder: &Path, hasher: &mut DefaultHasher) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        path.hash(hasher);
        match path.is_dir() {
            true => hash_folder(&path, hasher),
            false => fs::read(&path).ok().hash(hasher),
        }
    }
}

fn path(stage: u8, task: &str) -> PathBuf {
    let folder = Places::learner(root()).target().join("grade/kept");
    folder.join(format!("stage{stage}-{task}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_changes_the_hash_of_its_folder() {
        let folder = env::temp_dir().join(format!("grade-store-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).unwrap();
        let hash = || {
            let mut hasher = DefaultHasher::new();
            hash_folder(&folder, &mut hasher);
            hasher.finish()
        };
        fs::write(folder.join("src/lib.rs"), "a").unwrap();
        let first = hash();
        assert_eq!(hash(), first);
        fs::write(folder.join("src/lib.rs"), "b").unwrap();
        assert_ne!(hash(), first);
        fs::write(folder.join("src/lib.rs"), "a").unwrap();
        assert_eq!(hash(), first);
        fs::write(folder.join("src/tile.rs"), "").unwrap();
        assert_ne!(hash(), first, "an empty file is not a missing one");
        fs::remove_dir_all(&folder).unwrap();
    }
}
