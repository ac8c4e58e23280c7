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
    pub fn thread() -> Self {
        Self::new(Some(libc::CLOCK_THREAD_CPUTIME_ID))
    }

    /// The work of all threads of another process, as the system counts it.
    pub fn process(process: u32) -> Self {
        Self::new(clock_of(process).ok())
    }

    fn new(clock: Option<libc::clockid_t>) -> Self {
        Self {
            clock,
            processor: clock.and_then(|clock| time_of(clock).ok()),
            wall: Instant::now(),
        }
    }

    /// The time since it was made. Of a process that has ended, wall time.
    pub fn time(&self) -> Duration {
        let wall = self.wall.elapsed();
        let now = self.clock.and_then(|clock| time_of(clock).ok());
        let processor = now.zip(self.processor);
        processor.map_or(wall, |(now, start)| wall.min(now.saturating_sub(start)))
    }

    /// What a process costs: its work, or a quarter of the time if that is more. Of a process that has ended, wall time.
    pub fn cost(&self) -> Duration {
        self.time().max(self.wall.elapsed() / IDLE)
    }
}

/// A part of the time of the clock that counts as work, so that a process that sleeps has not all the time in the world, and one
/// that waits for a busy machine has enough.
const IDLE: u32 = 4;

/// Reason for which a process is waited for no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooLong {
    /// It has worked for the limit.
    #[error("it worked for {} s", .0.as_secs_f64())]
    Worked(Duration),
    /// It has waited for the limit without work.
    #[error("it waited for {} s without work", .0.as_secs_f64())]
    Waited(Duration),
    /// So much time of the clock has passed.
    #[error("it took {:.0} s of the clock, though it worked for less", .0.as_secs_f64())]
    Clock(Duration),
}

/// A time of the clock that runs out.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    begun: Instant,
    limit: Duration,
}

impl Deadline {
    /// Starts now.
    pub fn new(limit: Duration) -> Self {
        Self {
            begun: Instant::now(),
            limit,
        }
    }

    fn over(&self) -> Option<TooLong> {
        (self.begun.elapsed() >= self.limit).then_some(TooLong::Clock(self.limit))
    }
}

/// The time that an answer of another process may take.
#[derive(Debug)]
pub struct Patience {
    stopwatch: Stopwatch,
    call: Call,
    deadline: Deadline,
}

impl Patience {
    /// Starts now. `limit` is of processor time, and of the clock without work.
    pub fn with_process(process: u32, limit: Duration, deadline: Deadline) -> Self {
        Self {
            stopwatch: Stopwatch::process(process),
            call: Call::new(limit),
            deadline,
        }
    }

    /// What the process has cost.
    pub fn cost(&self) -> Duration {
        self.stopwatch.cost()
    }

    /// Why it is over, if it is.
    pub fn over(&mut self) -> Option<TooLong> {
        let work = self.stopwatch.time();
        let of_call = self.call.over(self.stopwatch.wall.elapsed(), work);
        of_call.or_else(|| self.deadline.over())
    }
}

/// A call that goes on, and its limit of processor time. Other programs that keep the machine busy do not shorten it.
#[derive(Debug)]
struct Call {
    limit: Duration,
    /// When it was last seen that the process had worked, and its work until then.
    worked: (Duration, Duration),
}

impl Call {
    /// Work in which a process shows that it does not merely wait.
    const WORK: Duration = Duration::from_millis(1);

    fn new(limit: Duration) -> Self {
        Self {
            limit,
            worked: (Duration::ZERO, Duration::ZERO),
        }
    }

    /// Why it has taken too long when `clock` has passed since its begin, and the process has worked for `work`.
    fn over(&mut self, clock: Duration, work: Duration) -> Option<TooLong> {
        if work.saturating_sub(self.worked.1) > Self::WORK {
            self.worked = (clock, work);
        }
        if work >= self.limit {
            Some(TooLong::Worked(self.limit))
        } else if clock.saturating_sub(self.worked.0) >= self.limit {
            Some(TooLong::Waited(self.limit))
        } else {
            None
        }
    }
}

/// The time that several calls have together: processor time, and time of the clock.
#[derive(Debug)]
pub struct Budget {
    limit: Duration,
    worked: Duration,
    deadline: Deadline,
}

impl Budget {
    /// Starts now.
    pub fn new(limit: Duration, clock: Duration) -> Self {
        Self {
            limit,
            worked: Duration::ZERO,
            deadline: Deadline::new(clock),
        }
    }

    /// Takes the processor time of a call off.
    pub fn spend(&mut self, work: Duration) {
        self.worked += work;
    }

    /// The end by the clock.
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Why no further call may be made, if so.
    pub fn over(&self) -> Option<TooLong> {
        if self.worked >= self.limit {
            Some(TooLong::Worked(self.limit))
        } else {
            self.deadline.over()
        }
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

    const LIMIT: Duration = Duration::from_millis(200);

    /// Why a call ends that works for `work` and waits for `wait` in turn, both in milliseconds, and after how many milliseconds
    /// of the clock.
    fn end(work: u64, wait: u64) -> (TooLong, u128) {
        let mut call = Call::new(LIMIT);
        let (mut clock, mut worked) = (Duration::ZERO, Duration::ZERO);
        loop {
            for (time, works) in [(work, true), (wait, false)] {
                for _ in 0..time {
                    clock += Duration::from_millis(1);
                    worked += Duration::from_millis(works.into());
                    if let Some(why) = call.over(clock, worked) {
                        return (why, clock.as_millis());
                    }
                }
            }
        }
    }

    #[test]
    fn a_call_ends_by_its_work_and_by_waiting() {
        assert_eq!(end(1, 0), (TooLong::Worked(LIMIT), 200));
        assert_eq!(end(0, 1), (TooLong::Waited(LIMIT), 200));
        // On a busy machine it has a fifth of a processor, or works between long pauses.
        assert_eq!(end(1, 4), (TooLong::Worked(LIMIT), 996));
        assert_eq!(end(5, 150), (TooLong::Worked(LIMIT), 6050));
        // A pause as long as the limit is waiting, whatever was before it. Work is seen every 2 ms.
        assert_eq!(end(4, 250), (TooLong::Waited(LIMIT), 204));
    }

    #[test]
    fn calls_have_their_work_and_the_clock_together() {
        let hour = Duration::from_secs(3600);
        let mut budget = Budget::new(hour, hour);
        assert_eq!(budget.over(), None);
        budget.spend(Duration::from_secs(3000));
        assert_eq!(budget.over(), None);
        budget.spend(Duration::from_secs(600));
        assert_eq!(budget.over(), Some(TooLong::Worked(hour)));

        let clock = Duration::from_millis(50);
        let budget = Budget::new(hour, clock);
        sleep(clock);
        assert_eq!(budget.over(), Some(TooLong::Clock(clock)));
    }

    /// Why patience with a process ends; `None` if the process does.
    fn patience(command: &[&str], limit: Duration, deadline: Duration) -> Option<TooLong> {
        let deadline = Deadline::new(deadline);
        let mut process = Command::new(command[0])
            .args(&command[1..])
            .spawn()
            .unwrap();
        let mut patience = Patience::with_process(process.id(), limit, deadline);
        let why = loop {
            let why = patience.over();
            if why.is_some() || process.try_wait().unwrap().is_some() {
                break why;
            }
            sleep(Duration::from_millis(1));
        };
        let _ = process.kill(); // it may have ended
        process.wait().unwrap();
        why
    }

    #[test]
    fn patience_knows_the_work_of_a_process() {
        let limit = Duration::from_secs(1); // a busy machine gives a process some of it
        let hour = Duration::from_secs(3600);
        let works = patience(&["sh", "-c", "while :; do :; done"], limit, hour);
        assert_eq!(works, Some(TooLong::Worked(limit)));
        let waits = patience(&["sleep", "3600"], limit, hour);
        assert_eq!(waits, Some(TooLong::Waited(limit)));
        let clock = Duration::from_millis(50);
        let late = patience(&["sleep", "3600"], hour, clock);
        assert_eq!(late, Some(TooLong::Clock(clock)));
        let command = "i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done";
        let ends = patience(&["sh", "-c", command], hour, hour);
        assert_eq!(ends, None);
    }

    #[test]
    fn waiting_is_no_work_and_a_process_has_its_own() {
        let stopwatch = Stopwatch::thread();
        sleep(Duration::from_millis(50));
        let short = Duration::from_millis(20);
        assert!(stopwatch.time() < short, "{:?}", stopwatch.time());

        let mut idle = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut busy = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
        let stopwatches = [&idle, &busy].map(|process| Stopwatch::process(process.id()));
        while stopwatches[1].time() < short {
            sleep(Duration::from_millis(1)); // the test's own time limit ends it if it never works
        }
        assert!(stopwatches[0].time() < short);
        for process in [&mut idle, &mut busy] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        assert!(
            stopwatches[1].time() > Duration::ZERO,
            "it ended: wall time"
        );
    }
}
