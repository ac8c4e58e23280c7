//! The limits of a process and of the processes that it starts.

use std::process;
use std::time::Duration;

/// Time of the clock of a compilation and of a task, each: enough for a machine that other programs keep busy.
pub(super) const CLOCK: Duration = Duration::from_secs(80);

/// The limits of a build and of a learner's process.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Processor time of the compiler for a library or a program. Those of the solutions need less than 3 s.
    pub build: Duration,
    /// Processor time of one call, and the time of the clock that it may wait without work.
    pub call: Duration,
    /// Processor time of all calls of a task, after which no call is begun.
    pub task: Duration,
    /// Time of the clock of a task, after which a call is stopped.
    pub clock: Duration,
    /// Time of all builds and calls of a submission: of each its processor time, or a quarter of its time of the clock if that is
    /// more. Those of the solutions need less than 30 s. When it is over, no task is begun. Bonus tasks have as much, apart.
    pub submission: Duration,
    /// CPU time of all threads, in seconds.
    pub cpu_seconds: u64,
    /// Address space in bytes.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            build: Duration::from_secs(20),
            call: Duration::from_secs(20),
            task: Duration::from_secs(60),
            clock: CLOCK,
            submission: Duration::from_secs(80),
            cpu_seconds: 300,
            memory: 2 << 30,
        }
    }
}

impl Limits {
    /// The same, but no build and no task may take longer than this.
    pub(crate) fn within(&self, left: Duration) -> Self {
        Self {
            build: self.build.min(left),
            call: self.call.min(left),
            task: self.task.min(left),
            clock: self.clock.min(left),
            ..self.clone()
        }
    }
}

/// Kills a process that leads a group, and its group.
pub(super) fn kill_group(process: &process::Child) {
    if let Ok(group) = i32::try_from(process.id()) {
        // SAFETY: numbers only. The group's number is not taken by another while its leader was not waited for.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}
