//! The build of a learner's program.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::copy::copy;
use super::limits::kill_group;
use super::output::Captured;
use crate::cut::cut;
use crate::places::Places;
use crate::tasks::Task;

/// The time that a build may take. The first one compiles the simulator.
const LIMIT: Duration = Duration::from_secs(1200);

/// Bytes that are kept of the compiler's messages, and of the first line.
const MESSAGES: usize = 64 << 10;
const HEADLINE: usize = 1 << 10;

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
    /// The learner's Rust does not compile.
    #[error("{headline}")]
    NotCompiled {
        /// The first error: file, line and message.
        headline: String,
        /// The compiler's messages.
        messages: String,
    },
    /// A file that is none of the exercise's takes part, by `include!` or `#[path]`.
    #[error("the build reads {}, which is no file of the exercise", .0.display())]
    Foreign(PathBuf),
    /// It takes too long.
    #[error("the build was stopped after {} s", LIMIT.as_secs())]
    TooLong {
        /// The output of cargo.
        output: String,
    },
    /// Files of the submission or of the checkout.
    #[error("preparing the build: {0}")]
    Files(#[from] io::Error),
    /// Cargo fails, and not because of the learner.
    #[error("cargo failed: {}", .0.lines().last().unwrap_or_default())]
    Cargo(String),
}

/// Copies the submission, and builds the program of the task's stage.
///
/// # Errors
///
/// [`BuildError`].
pub fn build(places: &Places, task: &Task) -> Result<Program, BuildError> {
    fs::create_dir_all(&places.scratch)?;
    // All gradings use the same copy and so build what is the same once. Held until the program is copied out of it.
    let common = places.target().join("grade");
    fs::create_dir_all(&common)?;
    let lock = File::create(common.join("lock"))?;
    lock.lock()?;
    let workspace = common.join("workspace");
    copy(places, &workspace)?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--locked", "--message-format=json", "--package"])
        .arg(task.package())
        .current_dir(&workspace)
        .env("CARGO_TARGET_DIR", places.target())
        .env("CARGO_TERM_COLOR", "never")
        .env_remove("RUSTFLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let Built {
        executable,
        metadata,
    } = messages(cargo, &task.package())?;
    only_own_files(&metadata, &workspace, &task.folder())?;
    let programs = places.scratch.join("bin");
    fs::create_dir_all(&programs)?;
    let path = programs.join(task.package());
    // A new file: the old one may be running.
    let _ = fs::remove_file(&path);
    fs::copy(executable, &path)?;
    let cache = places.scratch.join("cache");
    fs::create_dir_all(&cache)?;
    Ok(Program { path, cache })
}

/// A line of cargo's output.
#[derive(Deserialize)]
struct Line {
    reason: String,
    target: Option<Target>,
    message: Option<Message>,
    executable: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    message: String,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: usize,
    is_primary: bool,
}

/// The results of the build of a package.
struct Built {
    executable: PathBuf,
    /// The metadata of its library, `deps/libexercise_stage1-0123456789abcdef.rmeta`.
    metadata: PathBuf,
}

/// Runs cargo, and returns what it built.
fn messages(mut cargo: Command, package: &str) -> Result<Built, BuildError> {
    let mut process = cargo.spawn()?;
    let mut errors = Captured::new(process.stderr.take().ok_or_else(no_pipe)?);
    let lines = BufReader::new(process.stdout.take().ok_or_else(no_pipe)?);
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if let Ok(line) = serde_json::from_str::<Line>(&line) {
                let _ = sender.send(line); // nobody listens after the limit
            }
        }
    });

    let end = Instant::now() + LIMIT;
    let library = package.replace('-', "_");
    let (mut executable, mut metadata) = (None, None);
    let (mut headline, mut rendered) = (None, String::new());
    loop {
        let line = match received.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                kill_group(&process);
                let _ = process.wait();
                let output = errors.text();
                return Err(BuildError::TooLong { output });
            }
        };
        match line.message {
            Some(message) if line.reason == "compiler-message" && message.level == "error" => {
                let text = message.rendered.as_deref().unwrap_or(&message.message);
                if rendered.len() < MESSAGES {
                    rendered += &cut(&in_exercises(text), MESSAGES);
                }
                headline.get_or_insert_with(|| {
                    let place = message.spans.iter().find(|span| span.is_primary);
                    let place = place.map(|span| {
                        format!("{}:{}: ", in_exercises(&span.file_name), span.line_start)
                    });
                    let message = cut(&message.message, HEADLINE);
                    format!("{}{message}", place.unwrap_or_default())
                });
            }
            _ => {}
        }
        match line.target {
            Some(target) if target.name == package => executable = line.executable.or(executable),
            Some(target) if target.name == library => {
                let mut files = line.filenames.into_iter();
                let of_library = files.find(|file| file.extension() == Some("rmeta".as_ref()));
                metadata = of_library.or(metadata);
            }
            _ => {}
        }
    }
    let status = process.wait()?;
    errors.wait();
    match (status.success(), executable.zip(metadata), headline) {
        (true, Some((executable, metadata)), _) => Ok(Built {
            executable,
            metadata,
        }),
        (_, _, Some(headline)) => Err(BuildError::NotCompiled {
            headline,
            messages: rendered,
        }),
        _ => Err(BuildError::Cargo(errors.text())),
    }
}

/// Refuses a library that was made of other files than those in the folder of its exercise: `include!` could reach the
/// solution. The compiler lists all files that it read, in `deps/exercise_stage1-0123456789abcdef.d`: a line `file:` for each.
fn only_own_files(metadata: &Path, workspace: &Path, stage: &str) -> Result<(), BuildError> {
    let name = metadata.with_extension("d");
    let name = name
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let list = metadata.with_file_name(name.trim_start_matches("lib"));
    let own = workspace.canonicalize()?.join(stage);
    let list = fs::read_to_string(list)?;
    for file in list.lines().filter_map(|line| line.strip_suffix(':')) {
        let file = workspace.join(file.replace("\\ ", " ")).canonicalize()?;
        if !file.starts_with(&own) {
            return Err(BuildError::Foreign(file));
        }
    }
    Ok(())
}

fn no_pipe() -> io::Error {
    io::Error::other("no pipe to cargo")
}

/// Messages name files of the copy from its root; the learner's are in `exercises/`.
fn in_exercises(text: &str) -> String {
    let mut text = text.to_owned();
    for stage in 1..=6 {
        let (from, to) = (
            format!("stage{stage}/src/"),
            format!("exercises/stage{stage}/src/"),
        );
        text = text.replace(&from, &to);
    }
    text
}
