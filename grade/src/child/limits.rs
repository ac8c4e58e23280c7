//! The limits of a process and of the processes that it starts.

use std::process;
use std::time::Duration;

/// The limits of a learner's process.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Processor time of one call. A call that waits without work gets as much time of the clock, any other ten times as much.
    pub call: Duration,
    /// Processor time of all calls of a task. After ten times as much time of the clock no call is begun.
    pub task: Duration,
    /// CPU time of all threads, in seconds.
    pub cpu_seconds: u64,
    /// Address space in bytes.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(20),
            task: Duration::from_secs(120),
            cpu_seconds: 300,
            memory: 2 << 30,
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
