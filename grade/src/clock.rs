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
