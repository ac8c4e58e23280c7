//! The build of a learner's program. The course's part is built by cargo; the learner's files are compiled in the sandbox, and
//! the results stay in the folder of this grading.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::compiler::{self, Compiler};
use super::copy::copy;
use super::course::{self, Commands};
use super::limits::Limits;
use crate::places::Places;
use crate::tasks::Task;

/// A program, built.
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Folders that the process may write to: compiled kernels, and its working directory.
    pub cache: PathBuf,
}

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The compiler does not compile the learner's files.
    #[error(transparent)]
    Compiler(#[from] compiler::Error),
    /// A file that is none of the exercise's takes part, by `include!` or `#[path]`.
    #[error("the build reads {}, which is no file of the exercise", .0.display())]
    Foreign(PathBuf),
    /// Files of the submission or of the checkout.
    #[error("preparing the build: {0}")]
    Files(#[from] io::Error),
    /// The course's part.
    #[error(transparent)]
    Course(#[from] course::Error),
}

/// Copies the submission, and builds the program of the task's stage. The result, and the time of compiling the submission, as
/// [`Limits::submission`] counts it.
pub fn build(
    places: &Places,
    task: &Task,
    limits: &Limits,
) -> (Result<Program, BuildError>, Duration) {
    let cost = Cell::default();
    let bench = Bench::new(places, limits, &cost);
    let built = || {
        let package = task.package();
        let commands = course::build(places, &[&package])?;
        bench.prepare()?;
        copy(places, &task.folder(), &bench.workspace)?;
        bench.compile(&task.folder(), &commands[0])?;
        Ok(bench.program(&package))
    };
    (built(), cost.get())
}

/// Copies the submission, and builds the program of a story from the stages of these tasks. Of the tasks that are `solved`, it has the
/// solution's files.
///
/// # Errors
///
/// [`BuildError`].
pub fn build_story(
    places: &Places,
    tasks: &[&Task],
    solved: &[&Task],
    limits: &Limits,
) -> Result<Program, BuildError> {
    let cost = Cell::default();
    let bench = Bench::new(places, limits, &cost);
    let mut folders: Vec<String> = tasks.iter().map(|task| task.folder()).collect();
    folders.dedup();
    let packages: Vec<String> = folders.iter().map(|folder| package(folder)).collect();
    let story = package(course::STORY);
    let packages: Vec<&str> = packages
        .iter()
        .chain([&story])
        .map(|name| &**name)
        .collect();
    let commands = course::build(places, &packages)?;
    bench.prepare()?;
    for folder in &folders {
        copy(places, folder, &bench.workspace)?;
    }
    for task in solved {
        solve(places, task, &bench.workspace)?;
    }
    copy(places, course::STORY, &bench.workspace)?;
    folders.push(course::STORY.to_owned());
    for (folder, commands) in folders.iter().zip(&commands) {
        bench.compile(folder, commands)?;
    }
    Ok(bench.program(&story))
}

/// The package of an exercise's folder.
fn package(folder: &str) -> String {
    format!("exercise-{folder}")
}

/// Puts the solution's files of a task, and what was compiled of the kernels of its stage, in the place of the learner's.
fn solve(places: &Places, task: &Task, workspace: &Path) -> io::Result<()> {
    let solution = places.root.join("exercises/solutions").join(task.folder());
    let stage = workspace.join(task.folder());
    for file in task.files {
        fs::copy(solution.join(file), stage.join(file))?;
    }
    if task.kernels().next().is_some() {
        for entry in fs::read_dir(solution.join("ptx"))? {
            let name = entry?.file_name();
            fs::copy(
                solution.join("ptx").join(&name),
                stage.join("ptx").join(&name),
            )?;
        }
    }
    Ok(())
}

/// The folders in which a submission is compiled.
struct Bench<'a> {
    workspace: PathBuf,
    output: PathBuf,
    cache: PathBuf,
    limits: &'a Limits,
    cost: &'a Cell<Duration>,
}

impl<'a> Bench<'a> {
    fn new(places: &Places, limits: &'a Limits, cost: &'a Cell<Duration>) -> Self {
        let [workspace, output, cache] =
            ["workspace", "build", "cache"].map(|name| places.scratch.join(name));
        Self {
            workspace,
            output,
            cache,
            limits,
            cost,
        }
    }

    fn prepare(&self) -> io::Result<()> {
        let folders = [&self.workspace, &self.output, &self.cache];
        folders.into_iter().try_for_each(fs::create_dir_all)
    }

    /// Compiles the package in a folder of the workspace.
    fn compile(&self, folder: &str, commands: &Commands) -> Result<(), BuildError> {
        let stage = self.workspace.join(folder);
        let compiler = Compiler {
            toolchain: &commands.toolchain,
            folder: &self.workspace,
            readable: &[&commands.packages, &stage],
            output: &self.output,
            work: self.limits.build,
            confined: true,
            cost: self.cost,
        };
        let package = package(folder);
        let name = package.replace('-', "_");
        let environment = [
            ("CARGO_MANIFEST_DIR", &*stage.to_string_lossy()),
            ("CARGO_PKG_NAME", &package),
            ("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION")),
            ("CARGO_CRATE_NAME", &name),
        ];
        for command in commands.library.iter().chain([&commands.program]) {
            compiler.run(&arguments(command, &self.output), &environment)?;
            only_own_files(
                &self.output.join(format!("{name}.d")),
                &self.workspace,
                &stage,
            )?;
        }
        Ok(())
    }

    fn program(&self, package: &str) -> Program {
        Program {
            path: self.output.join(package.replace('-', "_")),
            cache: self.cache.clone(),
        }
    }
}

/// The arguments of a command of the course's package, for the learner's: results lie in `output`, under a name without a hash;
/// exercises are those that lie there; and the program is linked without what a debugger needs, which takes a third of the time.
fn arguments(command: &[String], output: &Path) -> Vec<String> {
    let mut arguments = vec!["-C".to_owned(), "strip=debuginfo".to_owned()];
    let mut words = command.iter();
    while let Some(word) = words.next() {
        let value = match &**word {
            "--out-dir" | "--extern" | "-C" => words.next().map_or("", String::as_str),
            _ => "",
        };
        let (key, _) = value.split_once('=').unwrap_or((value, ""));
        let value = match (&**word, key) {
            ("--out-dir", _) => output.display().to_string(),
            ("-C", "incremental") => format!("incremental={}", output.display()),
            ("-C", "extra-filename") => continue,
            ("--extern", key) if key.starts_with("exercise_stage") => {
                format!("{key}={}", output.join(format!("lib{key}.rlib")).display())
            }
            _ => value.to_owned(),
        };
        if !word.starts_with("--json=") {
            arguments.push(word.clone());
        }
        if !value.is_empty() {
            arguments.push(value);
        }
    }
    arguments
}

/// Refuses a library or a program that was made of other files than those in the folder of its exercise: where the kernel protects no files,
/// `include!` could reach the solution. The compiler lists all files that it read: a line `file:` for each.
fn only_own_files(list: &Path, workspace: &Path, stage: &Path) -> Result<(), BuildError> {
    let own = stage.canonicalize()?;
    let list = fs::read_to_string(list)?;
    for file in list.lines().filter_map(|line| line.strip_suffix(':')) {
        let file = workspace.join(file.replace("\\ ", " ")).canonicalize()?;
        if !file.starts_with(&own) {
            return Err(BuildError::Foreign(file));
        }
    }
    Ok(())
}
