//! Keys of slow blocks, those of the grader and of the benches: a check makes them again only if their keys have changed.
//!
//! A key is a hash over all that the block is made of (the sources of the program and of every package that it or the exercise
//! uses, the submission, its change, the command, what of the output is kept, and how) and over the block itself.
//! `generated/keys.txt` has a line for each: name and key. Where a key is missing or differs, the command runs, and its output is
//! compared with the block.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::submissions::Submission;
use crate::{folder, root};

/// Folders of a package that are no part of its program.
const LEFT_OUT: [&str; 4] = ["benches", "examples", "target", "tests"];

/// Sources of this program that turn an output into a block.
const MAKERS: [&str; 3] = [
    "book/src/generated.rs",
    "book/src/programs.rs",
    "book/src/submissions.rs",
];

/// The committed keys, by the name of the block.
pub struct Keys(BTreeMap<String, String>);

impl Keys {
    /// Reads `generated/keys.txt`. Without it, no block has a key.
    pub fn read() -> Self {
        let text = fs::read_to_string(file()).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Self(
            lines
                .map(|(name, key)| (name.to_owned(), key.to_owned()))
                .collect(),
        )
    }

    /// True if this is the committed key of a block.
    pub fn has(&self, name: &str, key: &str) -> bool {
        self.0.get(name).is_some_and(|committed| committed == key)
    }

    /// Names that have a key.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Sets the key of a block.
    pub fn set(&mut self, name: &str, key: String) {
        self.0.insert(name.to_owned(), key);
    }

    /// Writes the keys of the blocks named, and drops others.
    pub fn write(&self, names: &BTreeSet<&str>) -> Result<()> {
        let kept = self
            .0
            .iter()
            .filter(|(name, _)| names.contains(name.as_str()));
        let text: String = kept.map(|(name, key)| format!("{name} {key}\n")).collect();
        fs::write(file(), text).with_context(|| file().display().to_string())
    }
}

/// The file of the keys.
pub fn file() -> PathBuf {
    folder().join("generated/keys.txt")
}

/// Hashes of a repository's folders, each read once.
pub struct Inputs {
    root: PathBuf,
    read: BTreeMap<PathBuf, String>,
}

impl Inputs {
    /// The inputs of this repository.
    pub fn new() -> Self {
        Self::of(root())
    }

    fn of(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            read: BTreeMap::new(),
        }
    }

    /// The key of a block: its program and arguments, what of the output is kept, and the text that it holds; for the grader,
    /// the submission to the task that the arguments are; for a story, the exercises that tell it.
    pub fn key(&mut self, texts: [&str; 4], submission: Option<&Submission>) -> Result<String> {
        let [program, arguments, ..] = texts;
        let mut names = vec![program.to_owned()];
        let mut parts = vec!["Cargo.toml".to_owned(), "Cargo.lock".to_owned()];
        parts.extend(MAKERS.map(str::to_owned));
        if let Some(submission) = submission {
            let stage = format!("stage{}", arguments.split('/').next().unwrap_or(arguments));
            names.push(format!("exercises/{stage}"));
            match submission {
                Submission::Starter => {} // the exercise itself
                Submission::Solution => parts.push(format!("exercises/solutions/{stage}")),
                Submission::Wrong(name) => {
                    parts.push(format!("exercises/solutions/{stage}"));
                    parts.push(format!("exercises/wrong/{name}.toml"));
                }
            }
        }
        if arguments.starts_with("story") {
            names.push("exercises/story".to_owned());
            parts.push("exercises/solutions".to_owned());
        }
        let mut key = Sha256::new();
        for text in texts {
            key.update(Sha256::digest(text));
        }
        for package in packages(&self.root, &names)? {
            key.update(self.hash(&package)?);
        }
        for part in parts {
            key.update(self.hash(&self.root.join(part))?);
        }
        Ok(hexadecimal(&key.finalize()))
    }

    /// The hash of a file, or of the files of a folder and their paths.
    fn hash(&mut self, part: &Path) -> Result<String> {
        if let Some(hash) = self.read.get(part) {
            return Ok(hash.clone());
        }
        let mut files = BTreeSet::new();
        collect(part, &mut files)?;
        let mut hash = Sha256::new();
        for file in files {
            let content = fs::read(&file).with_context(|| file.display().to_string())?;
            let path = file.strip_prefix(&self.root).unwrap_or(&file);
            hash.update(Sha256::digest(path.to_string_lossy().as_bytes()));
            hash.update(Sha256::digest(content));
        }
        let hash = hexadecimal(&hash.finalize());
        self.read.insert(part.to_owned(), hash.clone());
        Ok(hash)
    }
}

/// The files of a package or folder, without packages that lie in it, and without README and tests.
fn collect(path: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.insert(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_left_out = name.starts_with('.')
            || name == "README.md"
            || (path.is_dir() && (LEFT_OUT.contains(&&*name) || path.join("Cargo.toml").exists()));
        if !is_left_out {
            collect(&path, files)?;
        }
    }
    Ok(())
}

/// The folders of packages, and of all packages of the repository that their programs use.
fn packages(root: &Path, names: &[String]) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut left: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
    while let Some(package) = left.pop() {
        if !found.insert(package.clone()) {
            continue;
        }
        let manifest = manifest(&package)?;
        // The workspace is the nearest folder above that is one.
        let workspace = package.ancestors().skip(1).find_map(|folder| {
            let manifest = manifest_of(folder)?;
            Some((folder.to_owned(), manifest.get("workspace")?.clone()))
        });
        for kind in ["dependencies", "build-dependencies"] {
            for (name, dependency) in manifest
                .get(kind)
                .and_then(Value::as_table)
                .into_iter()
                .flatten()
            {
                let path =
                    |entry: &Value| entry.get("path").and_then(Value::as_str).map(str::to_owned);
                if let Some(path) = path(dependency) {
                    left.push(resolved(&package.join(path)));
                } else if let Some((folder, workspace)) = &workspace
                    && let Some(path) = workspace
                        .get("dependencies")
                        .and_then(|all| all.get(name))
                        .and_then(path)
                {
                    left.push(resolved(&folder.join(path)));
                }
            }
        }
    }
    Ok(found)
}

fn manifest(package: &Path) -> Result<Table> {
    manifest_of(package).with_context(|| format!("{} has no manifest", package.display()))
}

fn manifest_of(folder: &Path) -> Option<Table> {
    let text = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    text.parse().ok()
}

/// A path without `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        if part.as_os_str() == ".." {
            resolved.pop();
        } else {
            resolved.push(part);
        }
    }
    resolved
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with a grader that uses `low`, by way of `middle`, and one exercise.
    fn repository(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("book-keys-{name}-{}", std::process::id()));
        for (path, text) in [
            (
                "Cargo.toml",
                "[workspace.dependencies]\nmiddle = { path = \"middle\" }\n",
            ),
            ("Cargo.lock", ""),
            (
                "grade/Cargo.toml",
                "[dependencies]\nmiddle.workspace = true\nserde = \"1\"\n",
            ),
            ("grade/src/main.rs", "fn main() {}"),
            ("grade/tests/a.rs", ""),
            (
                "middle/Cargo.toml",
                "[dependencies]\nlow = { path = \"../low\" }\n",
            ),
            ("low/Cargo.toml", ""),
            ("low/kernels/k.cu", "kernel"),
            ("unused/Cargo.toml", ""),
            ("exercises/stage2/Cargo.toml", ""),
            ("exercises/stage2/kernels/k.cu", "starter"),
            ("exercises/solutions/stage2/kernels/k.cu", "solution"),
            ("exercises/wrong/w.toml", "what = 'w'"),
            ("book/src/generated.rs", "fn made() {}"),
            ("book/src/programs.rs", "fn command() {}"),
            ("book/src/submissions.rs", "fn verdict() {}"),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_key_depends_on_what_the_block_is_made_of_and_on_nothing_else() {
        let root = repository("inputs");
        let with = |submission: &Submission, kept: &str, text: &str| {
            let texts = ["grade", "2/softmax", kept, text];
            Inputs::of(&root).key(texts, Some(submission)).unwrap()
        };
        let wrong = Submission::Wrong("w");
        let key = |text: &str| with(&wrong, "all", text);
        let before = key("text");
        assert_eq!(key("text"), before);
        assert_ne!(key("typed by hand"), before);
        assert_ne!(with(&Submission::Solution, "all", "text"), before);
        assert_ne!(with(&wrong, "some", "text"), before);
        for input in [
            "Cargo.lock",
            "grade/src/main.rs",
            "grade/src/new.rs",
            "middle/Cargo.toml",
            "low/kernels/k.cu",
            "exercises/stage2/kernels/k.cu",
            "exercises/solutions/stage2/kernels/k.cu",
            "exercises/wrong/w.toml",
            "book/src/generated.rs",
            "book/src/programs.rs",
            "book/src/submissions.rs",
        ] {
            let path = root.join(input);
            let old = fs::read(&path).ok();
            fs::write(&path, "# changed").unwrap();
            assert_ne!(key("text"), before, "{input}");
            match old {
                Some(old) => fs::write(&path, old).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            assert_eq!(key("text"), before, "{input}");
        }
        for other in [
            "grade/tests/a.rs",
            "grade/README.md",
            "unused/Cargo.toml",
            "exercises/wrong/v.toml",
            "book/src/blocks.rs",
        ] {
            fs::write(root.join(other), "# changed").unwrap();
            assert_eq!(key("text"), before, "{other}");
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_grader_of_this_repository_is_made_of_its_packages() {
        let found = packages(root(), &["grade".to_owned(), "exercises/stage4".to_owned()]).unwrap();
        for package in [
            "cuda-sim",
            "gpu/embed",
            "exercises/kit",
            "stage4-flash-cuda",
            "models/storyteller",
        ] {
            assert!(found.contains(&root().join(package)), "{package}");
        }
        assert!(!found.contains(&root().join("kernel-corpus")));
    }
}
