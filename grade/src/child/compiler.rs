//! The compiler on a learner's files, in the sandbox.

use std::cell::Cell;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use super::limits::{CLOCK, kill_group};
use super::process::ended;
use super::sandbox::{Allowed, Sandbox};
use crate::clock::{Deadline, Patience};
use crate::cut::cut;

/// Address space of a process, in bytes. Those of the solutions need less than 1 GiB.
const MEMORY: u64 = 3 << 30;

/// Bytes of a file that is written, and of all messages.
const FILE: u64 = 256 << 20;
const MESSAGES: u64 = 16 << 20;

/// Bytes that are kept of the messages, and of the first line.
const KEPT: usize = 64 << 10;
const HEADLINE: usize = 1 << 10;

/// The interval of looking for a compiler that takes too long.
const INTERVAL: Duration = Duration::from_millis(10);

/// Folders of the linker and of what it starts.
const LINKER: [&str; 4] = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/libexec"];

/// A compiler and the files that it may use.
#[derive(Debug)]
pub struct Compiler<'a> {
    /// The folder of the compiler and the standard library.
    pub toolchain: &'a Path,
    /// The working directory.
    pub folder: &'a Path,
    /// Files and folders to read, besides the toolchain and the linker.
    pub readable: &'a [&'a Path],
    /// The folder to write to.
    pub output: &'a Path,
    /// Its processor time, at most.
    pub work: Duration,
    /// False to compile without the sandbox, as a test does.
    pub confined: bool,
    /// Grows by what each run costs.
    pub cost: &'a Cell<Duration>,
}

/// Why nothing was compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The compiler says what is wrong.
    #[error("{headline}")]
    Refused {
        /// The first error: file, line and message.
        headline: String,
        /// All errors.
        messages: String,
    },
    /// It was stopped, or crashed.
    #[error("the compiler {0}")]
    Stopped(String),
    /// It cannot be started.
    #[error("starting the compiler: {0}")]
    System(#[from] io::Error),
}

impl Compiler<'_> {
    /// Compiles. The environment is this and nothing else.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn run(&self, arguments: &[String], environment: &[(&str, &str)]) -> Result<(), Error> {
        let mut command = Command::new(self.toolchain.join("bin/rustc"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", LINKER.join(":"))
            .env("TMPDIR", self.output)
            .envs(environment.iter().copied())
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        if self.confined {
            let mut readable: Vec<PathBuf> = LINKER.map(PathBuf::from).into();
            readable.extend(["bin", "lib"].map(|part| self.toolchain.join(part)));
            readable.extend(self.readable.iter().map(|path| path.to_path_buf()));
            let sandbox = Sandbox::new(Allowed {
                readable,
                writable: vec![self.output.to_owned()],
                memory: MEMORY,
                cpu_seconds: self.work.as_secs() + 5, // `watched` gives a reason before
                file: FILE,
                processes: true,
            })?;
            sandbox.confine(&mut command);
        }
        let mut process = command.spawn()?;
        let done = watched(&mut process, self.work, self.cost);
        if done.is_err() {
            kill_group(&process);
            let _ = process.wait(); // it is dead
        }
        let (status, messages) = done?;
        match status.success() {
            true => Ok(()),
            false => Err(refused(&messages).unwrap_or_else(|| crashed(status, &messages))),
        }
    }
}

/// Waits for the end of a compiler within the limits. The caller stops it after an error.
fn watched(
    process: &mut process::Child,
    work: Duration,
    cost: &Cell<Duration>,
) -> Result<(ExitStatus, Vec<u8>), Error> {
    let pipe = process.stderr.take();
    let mut pipe = pipe.ok_or_else(|| io::Error::other("no pipe to the compiler"))?;
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        let mut messages = Vec::new();
        let _ = pipe.by_ref().take(MESSAGES).read_to_end(&mut messages); // up to an error, there are some
        let _ = sender.send(messages); // nobody listens after a limit
    });
    let mut patience = Patience::with_process(process.id(), work, Deadline::new(CLOCK));
    let (mut messages, before) = (None, cost.get());
    loop {
        cost.set(before + patience.cost());
        if let Ok(all) = received.recv_timeout(INTERVAL) {
            if all.len() as u64 == MESSAGES {
                let text = format!("was stopped: it wrote {} MiB of messages", MESSAGES >> 20);
                return Err(Error::Stopped(text));
            }
            messages = Some(all);
        }
        if messages.is_some()
            && let Some(status) = process.try_wait()?
        {
            return Ok((status, messages.unwrap_or_default()));
        }
        if let Some(why) = patience.over() {
            return Err(Error::Stopped(format!("was stopped: {why}")));
        }
    }
}

/// A message of the compiler, in a line of its own.
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

/// The errors among the messages, if there are some.
fn refused(messages: &[u8]) -> Option<Error> {
    let text = String::from_utf8_lossy(messages);
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let (mut headline, mut rendered) = (None, String::new());
    for message in lines.filter(|message| message.level.starts_with("error")) {
        if rendered.len() < KEPT {
            let text = message.rendered.as_deref().unwrap_or(&message.message);
            rendered += &cut(&in_exercises(text), KEPT);
        }
        headline.get_or_insert_with(|| {
            let place = message.spans.iter().find(|span| span.is_primary);
            let place = place
                .map(|span| format!("{}:{}: ", in_exercises(&span.file_name), span.line_start));
            format!(
                "{}{}",
                place.unwrap_or_default(),
                cut(&message.message, HEADLINE)
            )
        });
    }
    headline.map(|headline| Error::Refused {
        headline,
        messages: rendered,
    })
}

/// The end of a compiler without an error in the learner's files, with its first words.
fn crashed(status: ExitStatus, messages: &[u8]) -> Error {
    let text = String::from_utf8_lossy(messages);
    let words = text
        .lines()
        .find(|line| !line.is_empty() && !line.starts_with('{'));
    let words = words.map(|words| format!(": {}", cut(words, HEADLINE)));
    Error::Stopped(format!(
        "ended: {}{}",
        ended(status),
        words.unwrap_or_default()
    ))
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
