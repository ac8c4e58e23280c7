//! The limits of a command, of time and of the compiler's memory and processor time, and progress
//! while it takes long.

use std::fs;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The exit status of a command that reached a limit: that of `timeout(1)`.
pub const LIMIT_REACHED: i32 = 124;

/// Most memory of the process while NVRTC compiles, in bytes. NVRTC has no limit of its own.
const COMPILER_MEMORY: u64 = 768 << 20;

/// Processor time of the process while NVRTC compiles without `--timeout`. Other work of the
/// machine does not count.
const COMPILER_TIME: Duration = Duration::from_secs(8);

/// From one look at the process to the next.
const INTERVAL: Duration = Duration::from_millis(20);

/// The step that [`COMPILER_MEMORY`] and [`COMPILER_TIME`] are for.
pub const COMPILING: &str = "compiling";

/// Silence before the first line of progress; it doubles with each.
const SILENCE: Duration = Duration::from_secs(5);

/// A thread that watches the command.
pub struct Watch(Arc<Mutex<String>>);

impl Watch {
    /// Watches from now on. After `timeout` the process ends, whatever it does: NVRTC cannot be
    /// interrupted. Without `timeout`, it ends if compiling takes 8 s of processor time.
    pub fn start(timeout: Option<Duration>) -> Watch {
        let step = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&step);
        thread::spawn(move || watch(&seen, timeout));
        Watch(step)
    }

    /// Says what is being done now: [`COMPILING`], for example.
    pub fn now(&self, step: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = step.into();
    }
}

fn watch(step: &Mutex<String>, timeout: Option<Duration>) {
    let start = Instant::now();
    let progress = io::stderr().is_terminal();
    let mut next = SILENCE;
    loop {
        thread::sleep(INTERVAL);
        let step = || step.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(timeout) = timeout.filter(|timeout| start.elapsed() >= *timeout) {
            let seconds = timeout.as_secs_f64();
            stop(
                &format!("after {seconds} s, the limit of --timeout"),
                &step(),
            );
        }
        if step() == COMPILING && resident() > COMPILER_MEMORY {
            let limit = COMPILER_MEMORY >> 20;
            stop(&format!("at {limit} MiB of memory"), COMPILING);
        }
        if timeout.is_none() && step() == COMPILING && processor_time() > COMPILER_TIME {
            let seconds = COMPILER_TIME.as_secs();
            stop(
                &format!("after {seconds} s of processor time (--timeout SECONDS gives more)"),
                COMPILING,
            );
        }
        if start.elapsed() >= next {
            if progress {
                eprintln!("{} s: {}", start.elapsed().as_secs(), step());
            }
            next *= 2;
        }
    }
}

fn stop(limit: &str, step: &str) -> ! {
    eprintln!("error: stopped {limit}, while {step}");
    // SAFETY: it ends the process without its exit handlers, which another thread may be in the
    // middle of.
    unsafe { libc::_exit(LIMIT_REACHED) }
}

/// The memory that the process holds, in bytes; 0 if the system does not say.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split_whitespace().nth(1);
    let pages: u64 = pages.and_then(|pages| pages.parse().ok()).unwrap_or(0);
    // SAFETY: it reads a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages * u64::try_from(page).unwrap_or(4096)
}

/// The processor time that the process has taken; none if the system does not say.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let seconds = Duration::from_secs(time.tv_sec.try_into().unwrap_or(0));
    seconds + Duration::from_nanos(time.tv_nsec.try_into().unwrap_or(0))
}
