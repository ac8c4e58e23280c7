//! The time limit of a command, and progress while it takes long.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The exit status of a command that ran out of time: that of `timeout(1)`.
pub const OUT_OF_TIME: i32 = 124;

/// Silence before the first line of progress; it doubles with each.
const SILENCE: Duration = Duration::from_secs(5);

/// A thread that watches the command.
pub struct Watch(Arc<Mutex<String>>);

impl Watch {
    /// Watches from now on. After `timeout` the process ends, whatever it does: NVRTC cannot be interrupted.
    pub fn start(timeout: Option<Duration>) -> Watch {
        let step = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&step);
        thread::spawn(move || watch(&seen, timeout));
        Watch(step)
    }

    /// Says what is being done now: `compiling`.
    pub fn now(&self, step: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = step.into();
    }
}

fn watch(step: &Mutex<String>, timeout: Option<Duration>) {
    let start = Instant::now();
    let progress = io::stderr().is_terminal();
    let mut next = SILENCE;
    loop {
        let until = timeout.map_or(next, |timeout| next.min(timeout));
        thread::sleep(until.saturating_sub(start.elapsed()));
        let step = || step.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(timeout) = timeout.filter(|timeout| start.elapsed() >= *timeout) {
            let seconds = timeout.as_secs_f64();
            eprintln!(
                "error: stopped after {seconds} s, the limit of --timeout, while {}",
                step()
            );
            // SAFETY: it ends the process without its exit handlers, which another thread may be in the middle of.
            unsafe { libc::_exit(OUT_OF_TIME) };
        }
        if progress {
            eprintln!("{} s: {}", start.elapsed().as_secs(), step());
        }
        next *= 2;
    }
}
