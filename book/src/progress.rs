//! Progress of the program on standard error: in a terminal one line that changes, elsewhere one line when a part ends.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// A part of the work, made of a known number of things.
pub struct Progress {
    what: &'static str,
    total: usize,
    done: usize,
    started: Instant,
    is_terminal: bool,
}

impl Progress {
    /// Begins a part, such as `chapters`, of `total` things.
    pub fn new(what: &'static str, total: usize) -> Self {
        Self {
            what,
            total,
            done: 0,
            started: Instant::now(),
            is_terminal: io::stderr().is_terminal(),
        }
    }

    /// Begins the next thing.
    pub fn next(&mut self, name: &str) {
        self.done += 1;
        if self.is_terminal {
            self.line(&format!(
                "\r\x1b[K{} {} of {}: {name:.50}",
                self.what, self.done, self.total
            ));
        }
    }

    /// Ends the part.
    pub fn end(self) {
        let start = if self.is_terminal { "\r\x1b[K" } else { "" };
        let time = shown(self.started.elapsed());
        self.line(&format!("{start}{}: {}, {time}\n", self.what, self.total));
    }

    /// Progress that cannot be written is no reason to stop.
    fn line(&self, text: &str) {
        let mut out = io::stderr();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Drop for Progress {
    /// Clears the line that changes: where the work stops early, the error gets a line of its own.
    fn drop(&mut self) {
        if self.is_terminal {
            self.line("\r\x1b[K");
        }
    }
}

fn shown(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
