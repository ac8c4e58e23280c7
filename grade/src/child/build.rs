//! The build of a learner's program.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::copy::copy;
use super::output::Captured;
use super::process::kill_group;
use crate::places::Places;
use crate::tasks::Task;

/// How long a build may take. The first one compiles the simulator.
const LIMIT: Duration = Duration::from_secs(1200);

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
    /// It takes too long.
    #[error("the build was stopped after {} s", LIMIT.as_secs())]
    TooLong {
        /// What cargo printed.
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
    let built = messages(cargo, &task.package())?;
    let programs = places.scratch.join("bin");
    fs::create_dir_all(&programs)?;
    let path = programs.join(task.package());
    // A new file: the old one may be running.
    let _ = fs::remove_file(&path);
    fs::copy(built, &path)?;
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

/// Runs cargo, and returns the executable.
fn messages(mut cargo: Command, package: &str) -> Result<PathBuf, BuildError> {
    let mut process = cargo.spawn()?;
    let mut errors = Captured::of(process.stderr.take().ok_or_else(no_pipe)?);
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
    let (mut executable, mut headline, mut rendered) = (None, None, String::new());
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
                rendered += &in_exercises(text);
                headline.get_or_insert_with(|| {
                    let place = message.spans.iter().find(|span| span.is_primary);
                    let place = place.map(|span| {
                        format!("{}:{}: ", in_exercises(&span.file_name), span.line_start)
                    });
                    format!("{}{}", place.unwrap_or_default(), message.message)
                });
            }
            _ => {}
        }
        if line.target.is_some_and(|target| target.name == package) {
            executable = line.executable.or(executable);
        }
    }
    let status = process.wait()?;
    errors.wait();
    match (status.success(), executable, headline) {
        (true, Some(executable), _) => Ok(executable),
        (_, _, Some(headline)) => Err(BuildError::NotCompiled {
            headline,
            messages: rendered,
        }),
        _ => Err(BuildError::Cargo(errors.text())),
    }
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
