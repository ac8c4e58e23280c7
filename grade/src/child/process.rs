//! The learner's process: a program that answers requests, under limits.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{self, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use exercise_kit::frame::{self, Broken, Tensor};
use exercise_kit::message::{Outcome, Reply, Request, Ticket};
use gpu::find_nvrtc;
use serde::Serialize;

use super::build::Program;
use super::limits::{Limits, kill_group};
use super::output::{Captured, MOST};
use super::resident;
use super::sandbox::{Allowed, Sandbox};
use crate::clock::{Deadline, Patience, Stopwatch, TooLong};

/// Instructions that one warp may run, and all warps of a launch. A kernel of the exercises needs a hundredth.
const BUDGETS: [(&str, &str); 2] = [
    ("CUDA_SIM_BUDGET", "4194304"),
    ("CUDA_SIM_LAUNCH_BUDGET", "268435456"),
];

/// Bytes of a file that the program writes.
const FILE: u64 = 16 << 20;

/// The interval of looking for calls that take too long.
const INTERVAL: Duration = Duration::from_millis(20);

/// Host threads of the simulator and of rayon, at most.
const MAX_THREADS: usize = 8;

/// A running program.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    requests: Option<Sender<Vec<u8>>>,
    replies: Receiver<Result<(Ticket, Reply), Broken>>,
    errors: Captured,
    /// Makes tickets that nobody can guess: its keys are from the operating system.
    tickets: RandomState,
    /// The number of calls.
    calls: u64,
}

/// Why a program gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Lost {
    /// It was stopped.
    #[error("the program did not answer and was stopped: {0}")]
    TimedOut(TooLong),
    /// It was stopped.
    #[error("the program was stopped: it printed more than {} MiB", MOST >> 20)]
    Printed,
    /// It ended.
    #[error("the program ended: {0}")]
    Ended(String),
    /// It answered something else.
    #[error("the program's answer cannot be read: {0}")]
    Unreadable(String),
}

impl Child {
    /// Starts a program. With `own`, its lower steps are the learner's, too.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn start(program: &Program, limits: &Limits, own: bool) -> io::Result<Self> {
        let mut readable = vec![program.path.clone()];
        let nvrtc = find_nvrtc::search().ok().and_then(|search| search.found);
        readable.extend(
            nvrtc
                .iter()
                .filter_map(|path| Some(path.parent()?.to_owned())),
        );
        let sandbox = Sandbox::new(Allowed {
            readable,
            writable: vec![program.cache.clone()],
            memory: limits.memory,
            cpu_seconds: limits.cpu_seconds,
            file: FILE,
            processes: false,
        })?;
        let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
        let threads = threads.min(MAX_THREADS).to_string();

        let mut command = Command::new(&program.path);
        command
            .env_clear()
            .envs(BUDGETS)
            .env("GPU", "sim")
            .env("GPU_CACHE_DIR", &program.cache)
            .env("CUDA_SIM_THREADS", &threads)
            .env("RAYON_NUM_THREADS", &threads)
            .envs(nvrtc.map(|path: PathBuf| ("NVRTC_PATH", path)))
            .envs(own.then_some((exercise_kit::OWN, "1")))
            .envs(env::var_os("CUDA_SIM_DEVICE").map(|name| ("CUDA_SIM_DEVICE", name)))
            .current_dir(&program.cache)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        sandbox.confine(&mut command);
        let mut process = command.spawn()?;
        let no_pipe = || io::Error::other("no pipe to the program");
        let stdin = process.stdin.take().ok_or_else(no_pipe)?;
        let mut stdout = process.stdout.take().ok_or_else(no_pipe)?;
        let errors = Captured::new(process.stderr.take().ok_or_else(no_pipe)?);
        // Of a program that writes more replies than it was asked for, one waits here.
        let (sender, replies) = mpsc::sync_channel(1);
        thread::spawn(move || {
            while let Some(reply) = frame::read::<(Ticket, Reply)>(&mut stdout).transpose() {
                let reply = reply.and_then(|(ticket, reply)| Ok((ticket, reply.checked()?)));
                let end = reply.is_err();
                if sender.send(reply).is_err() || end {
                    break;
                }
            }
        });
        Ok(Self {
            process,
            requests: Some(writer(stdin)),
            replies,
            errors,
            tickets: RandomState::new(),
            calls: 0,
        })
    }

    /// Makes a call, with a limit of processor time and one of the clock. What it gives while it goes on is `heard`. After an error
    /// the program is gone.
    ///
    /// # Errors
    ///
    /// [`Lost`].
    pub fn call<C: Serialize>(
        &mut self,
        request: &Request<C>,
        limit: Duration,
        deadline: Deadline,
        heard: &mut dyn FnMut(Vec<Tensor>),
    ) -> Result<Reply, Lost> {
        self.calls += 1;
        let ticket: Ticket = self.tickets.hash_one(self.calls);
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &(ticket, request)).map_err(|error| {
            let text = error.to_string();
            Lost::Unreadable(text)
        })?;
        if let Some(requests) = &self.requests {
            let _ = requests.send(bytes); // if the writer is gone, so is the program
        }
        let mut patience = Patience::with_process(self.process.id(), limit, deadline);
        let reply = loop {
            match self.replies.recv_timeout(INTERVAL) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Ok((answered, reply)))
                    if answered == ticket && reply.outcome == Outcome::GoesOn =>
                {
                    heard(reply.outputs);
                }
                reply => break reply,
            }
            if let Some(why) = patience.over() {
                self.kill();
                return Err(Lost::TimedOut(why));
            }
            if self.errors.is_full() {
                self.kill();
                return Err(Lost::Printed);
            }
        };
        match reply {
            Ok(Ok((answered, reply))) if answered == ticket => Ok(reply),
            Ok(Ok(_)) => {
                self.kill();
                Err(Lost::Unreadable("it answers no request".to_owned()))
            }
            Ok(Err(Broken::Pipe(_))) | Err(_) => {
                let text = match self.end(Duration::from_secs(2)) {
                    Some(status) => ended(status),
                    None => "its output was closed".to_owned(),
                };
                Err(Lost::Ended(text))
            }
            Ok(Err(broken)) => {
                self.kill();
                Err(Lost::Unreadable(broken.to_string()))
            }
        }
    }

    /// Starts to take the time of its work.
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch::process(self.process.id())
    }

    /// Forgets the peak of its resident memory, and returns what is resident, in bytes; `None` where the system does not tell.
    pub fn forget_peak(&self) -> Option<u64> {
        resident::forget_peak(self.process.id())
    }

    /// The most resident memory since then, in bytes.
    pub fn peak(&self) -> Option<u64> {
        resident::peak(self.process.id())
    }

    /// Ends it, and returns what it printed.
    pub fn finish(mut self) -> String {
        self.requests = None; // the end of its input, at which it ends
        self.end(Duration::from_millis(500));
        self.errors.wait();
        self.errors.text()
    }

    /// Waits for its end, but not for long; then it is killed. Its status, if it ended by itself.
    fn end(&mut self, patience: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Some(status); // it has no children: see `sandbox`
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.kill();
        None
    }

    fn kill(&mut self) {
        kill_group(&self.process);
        let _ = self.process.wait(); // it is dead
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            self.kill();
        }
    }
}

/// A thread that writes requests, so that a program that does not read them keeps nobody waiting.
fn writer(mut stdin: ChildStdin) -> Sender<Vec<u8>> {
    let (sender, requests) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        for request in requests {
            if stdin.write_all(&request).is_err() {
                break; // the program is gone; the reader of its replies tells
            }
        }
    });
    sender
}

/// A sentence on how a program ended.
pub(super) fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "it exited with success, without an answer".to_owned(),
        (Some(code), _) => format!("it exited with status {code}"),
        (None, Some(libc::SIGSEGV)) => {
            "SIGSEGV, by a stack overflow or a bad address in unsafe code".to_owned()
        }
        (None, Some(libc::SIGABRT)) => {
            "it aborted: out of memory, a stack overflow, or a panic in a panic".to_owned()
        }
        (None, Some(libc::SIGXCPU | libc::SIGKILL)) => {
            "it was killed, because it used more CPU time or memory than allowed".to_owned()
        }
        (None, Some(libc::SIGSYS)) => "it made a system call that is not allowed".to_owned(),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}
