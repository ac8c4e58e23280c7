//! The build of a learner's program. The course's part is built by cargo; the learner's files are compiled in the sandbox, and
//! the results stay in the folder of this grading.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::compiler::{self, Compiler};
use super::copy::copy;
use super::course;
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
    (built(places, task, limits, &cost), cost.get())
}

fn built(
    places: &Places,
    task: &Task,
    limits: &Limits,
    cost: &Cell<Duration>,
) -> Result<Program, BuildError> {
    let commands = course::build(places, task)?;
    let [workspace, output, cache] =
        ["workspace", "build", "cache"].map(|name| places.scratch.join(name));
    for folder in [&workspace, &output, &cache] {
        fs::create_dir_all(folder)?;
    }
    copy(places, &task.folder(), &workspace)?;
    let stage = workspace.join(task.folder());
    let compiler = Compiler {
        toolchain: &commands.toolchain,
        folder: &workspace,
        readable: &[&commands.packages, &stage],
        output: &output,
        work: limits.build,
        confined: true,
        cost,
    };
    let package = task.package();
    let name = package.replace('-', "_");
    let environment = [
        ("CARGO_MANIFEST_DIR", &*stage.to_string_lossy()),
        ("CARGO_PKG_NAME", &package),
        ("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION")),
        ("CARGO_CRATE_NAME", &name),
    ];
    let library = output.join(format!("lib{name}.rlib"));
    let run = |command: &[String]| {
        let arguments = arguments(command, &name, &library, &output);
        compiler.run(&arguments, &environment)
    };
    for command in [&commands.library, &commands.program] {
        run(command)?;
        only_own_files(&output.join(format!("{name}.d")), &workspace, &stage)?;
    }
    Ok(Program {
        path: output.join(name),
        cache,
    })
}

/// The arguments of a command of the course's package, for the learner's: results lie in `output`, under a name without a hash;
/// the program is linked with the learner's `library`, and without what a debugger needs, which takes a third of the time.
fn arguments(command: &[String], name: &str, library: &Path, output: &Path) -> Vec<String> {
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
            ("--extern", key) if key == name => format!("{name}={}", library.display()),
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
