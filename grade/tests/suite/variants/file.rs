//! The file of a variant, and the solution that it changes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};

use grade::cause::Cause;
use grade::tasks::{Task, select};
use grade::verdict::Kind;
use serde::Deserialize;

/// Which promise a variant makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Folder {
    /// It loses points.
    Wrong,
    /// It loses none for correctness and cleanliness.
    Unusual,
    /// It gains none.
    Cheats,
}

impl Folder {
    pub const ALL: [Self; 3] = [Self::Wrong, Self::Unusual, Self::Cheats];

    pub fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Unusual => "unusual",
            Self::Cheats => "cheats",
        }
    }
}

/// A change of a solution, and the result that it must get.
#[derive(Debug)]
pub struct Variant {
    pub folder: Folder,
    pub name: String,
    /// The task, in its steps.
    pub tasks: Vec<&'static Task>,
    pub said: File,
}

/// The file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub task: String,
    pub what: String,
    shares: OfTask,
    cause: Option<Causes>,
    pub says: Option<String>,
    #[serde(default)]
    replace: Vec<Replace>,
    #[serde(default)]
    write: Vec<Write>,
}

/// The causes that findings must name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Causes {
    One(Cause),
    Several(Vec<Cause>),
}

/// The shares of a task, or those of each of its steps.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OfTask {
    Whole(Shares),
    Steps(BTreeMap<String, OfStep>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OfStep {
    /// Of all criteria.
    All(Share),
    Each(Shares),
}

/// The share that each criterion must give; `None` if it is not compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shares {
    correct: Option<Share>,
    robust: Option<Share>,
    clean: Option<Share>,
    fast: Option<Share>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
pub enum Share {
    /// To 0.005.
    Exactly(f64),
    /// Both ends included.
    Between([f64; 2]),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replace {
    file: PathBuf,
    old: String,
    new: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    file: PathBuf,
    text: String,
}

/// The checkout.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

impl Variant {
    /// All of them, by folder and name.
    pub fn all() -> Vec<Self> {
        let mut variants: Vec<Self> = Folder::ALL.into_iter().flat_map(Self::in_folder).collect();
        variants.sort_by(|a, b| (a.folder, &a.name).cmp(&(b.folder, &b.name)));
        variants
    }

    fn in_folder(folder: Folder) -> Vec<Self> {
        let files = fs::read_dir(root().join("exercises").join(folder.name())).unwrap();
        let paths = files.map(|entry| entry.unwrap().path());
        let paths = paths.filter(|path| path.extension().is_some_and(|end| end == "toml"));
        paths.map(|path| Self::read(folder, &path)).collect()
    }

    fn read(folder: Folder, path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let said: File =
            toml::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let tasks = select(None, Some(&said.task)).unwrap();
        assert!(
            tasks.iter().all(|task| task.shares_files(tasks[0])),
            "{}: `{}` is not one task",
            path.display(),
            said.task
        );
        if let OfTask::Steps(steps) = &said.shares {
            let mut known: Vec<&str> = tasks.iter().map(|task| step_of(task)).collect();
            known.sort();
            let stated: Vec<&String> = steps.keys().collect();
            assert_eq!(stated, known, "{}", path.display());
        }
        Self {
            folder,
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            tasks,
            said,
        }
    }

    /// The share that a criterion of a step must give; `None` if it is not compared.
    pub fn share(&self, step: &Task, kind: Kind) -> Option<Share> {
        let shares = match &self.said.shares {
            OfTask::Whole(shares) => shares,
            OfTask::Steps(steps) => match &steps[step_of(step)] {
                OfStep::All(share) => return Some(*share),
                OfStep::Each(shares) => shares,
            },
        };
        match kind {
            Kind::Correct => shares.correct,
            Kind::Robust => shares.robust,
            Kind::Clean => shares.clean,
            Kind::Fast => shares.fast,
        }
    }

    /// The files of the solution, relative to the folder of the exercise, and the given ones that are changed, with the change.
    /// Says what does not fit.
    pub fn files(&self) -> Result<BTreeMap<PathBuf, String>, String> {
        let solution = root()
            .join("exercises/solutions")
            .join(self.tasks[0].folder());
        let mut files = BTreeMap::new();
        collect(&solution, Path::new(""), &mut files);
        for Replace { file, old, new } in &self.said.replace {
            let given = root()
                .join("exercises")
                .join(self.tasks[0].folder())
                .join(file);
            let text = match files.entry(file.clone()) {
                Entry::Occupied(of_solution) => of_solution.into_mut(),
                Entry::Vacant(none) => none.insert(
                    fs::read_to_string(&given)
                        .map_err(|why| format!("{}: {why}", given.display()))?,
                ),
            };
            match text.matches(old.as_str()).count() {
                1 => *text = text.replacen(old, new, 1),
                count => return Err(format!("{} has this {count} times: {old}", file.display())),
            }
        }
        for Write { file, text } in &self.said.write {
            files.insert(file.clone(), text.clone());
        }
        Ok(files)
    }
}

impl File {
    /// The causes that findings must name, in order.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes = match &self.cause {
            None => Vec::new(),
            Some(Causes::One(cause)) => vec![*cause],
            Some(Causes::Several(causes)) => causes.clone(),
        };
        causes.sort();
        causes
    }
}

/// The name of a step within its task.
fn step_of(task: &Task) -> &str {
    task.id.split_once('/').map_or(task.id, |(_, step)| step)
}

impl Share {
    pub fn holds(self, share: f64) -> bool {
        match self {
            Self::Exactly(expected) => (share - expected).abs() <= 0.005,
            Self::Between([low, high]) => (low..=high).contains(&share),
        }
    }
}

/// The text files in a folder, links followed.
fn collect(folder: &Path, name: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = name.join(path.file_name().unwrap());
        if path.is_dir() {
            collect(&path, &name, files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            files.insert(name, text);
        }
    }
}
