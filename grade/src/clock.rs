//! Times of work on the CPU.

use std::io;
use std::time::{Duration, Instant};

/// A time that is running: the lesser of wall time and processor time, so that neither other programs nor idle threads count.
#[derive(Debug)]
pub struct Stopwatch {
    clock: Option<libc::clockid_t>,
    wall: Instant,
    processor: Option<Duration>,
}

impl Stopwatch {
    /// The work of this thread.
    pub fn of_thread() -> Self {
        Self::of(Some(libc::CLOCK_THREAD_CPUTIME_ID))
    }

    /// The work of all threads of another process, as the system counts it.
    pub fn of_process(process: u32) -> Self {
        Self::of(clock_of(process).ok())
    }

    fn of(clock: Option<libc::clockid_t>) -> Self {
        Self {
            clock,
            processor: clock.and_then(|clock| time_of(clock).ok()),
            wall: Instant::now(),
        }
    }

    /// Seconds since it was made. Of a process that has ended, wall time.
    pub fn seconds(&self) -> f64 {
        let wall = self.wall.elapsed();
        let now = self.clock.and_then(|clock| time_of(clock).ok());
        let processor = now.zip(self.processor);
        let time = processor.map_or(wall, |(now, start)| wall.min(now.saturating_sub(start)));
        time.as_secs_f64()
    }
}

/// How long an answer of another process is waited for. Other programs that keep the machine busy do not shorten it.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    stopwatch: Stopwatch,
    /// When it was last seen that the process had worked, and its time until then.
    worked: (Instant, f64),
}

impl Patience {
    /// Work in which a process shows that it does not merely wait, in seconds.
    const WORK: f64 = 0.001;

    /// Starts now.
    pub fn with_process(process: u32, limit: Duration) -> Self {
        let stopwatch = Stopwatch::of_process(process);
        Self {
            limit,
            worked: (stopwatch.wall, 0.0),
            stopwatch,
        }
    }

    /// Whether the process has worked for the limit, has waited for it without work, or does not answer in ten times the limit.
    pub fn is_over(&mut self) -> bool {
        let time = self.stopwatch.seconds();
        if time - self.worked.1 > Self::WORK {
            self.worked = (Instant::now(), time);
        }
        time >= self.limit.as_secs_f64()
            || self.worked.0.elapsed() >= self.limit
            || self.stopwatch.wall.elapsed() >= 10 * self.limit
    }
}

fn clock_of(process: u32) -> io::Result<libc::clockid_t> {
    let process = i32::try_from(process).map_err(io::Error::other)?;
    let mut clock = 0;
    // SAFETY: it writes a number to a place for one.
    match unsafe { libc::clock_getcpuclockid(process, &mut clock) } {
        0 => Ok(clock),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

fn time_of(clock: libc::clockid_t) -> io::Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes a time to a place for one.
    match unsafe { libc::clock_gettime(clock, &mut time) } {
        0 => Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::thread::sleep;

    /// Whether patience with a shell's command ends before the command does.
    fn ends_early(command: &str, limit: Duration) -> bool {
        let mut process = Command::new("sh").args(["-c", command]).spawn().unwrap();
        let mut patience = Patience::with_process(process.id(), limit);
        let ends = loop {
            if patience.is_over() {
                break true;
            }
            if process.try_wait().unwrap().is_some() {
                break false;
            }
            sleep(Duration::from_millis(1));
        };
        let _ = process.kill(); // it may have ended
        process.wait().unwrap();
        ends
    }

    #[test]
    fn patience_ends_with_work_and_with_waiting() {
        let limit = Duration::from_millis(200);
        assert!(
            ends_early("while :; do :; done", limit),
            "it works for ever"
        );
        assert!(ends_early("exec sleep 3600", limit), "it waits for ever");
        assert!(
            ends_early("while :; do sleep 0.01; done", limit),
            "it works a little for ever"
        );
        let forever = Duration::from_secs(3600);
        assert!(!ends_early(
            "i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done",
            forever
        ));
    }

    #[test]
    fn waiting_is_no_work_and_a_process_has_its_own() {
        let stopwatch = Stopwatch::of_thread();
        sleep(Duration::from_millis(50));
        assert!(stopwatch.seconds() < 0.02, "{}", stopwatch.seconds());

        let mut idle = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut busy = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
        let stopwatches = [&idle, &busy].map(|process| Stopwatch::of_process(process.id()));
        while stopwatches[1].seconds() < 0.02 {
            sleep(Duration::from_millis(1)); // the test's own time limit ends it if it never works
        }
        assert!(stopwatches[0].seconds() < 0.02);
        for process in [&mut idle, &mut busy] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        assert!(stopwatches[1].seconds() > 0.0, "it ended: wall time");
    }
}
