//! The loop of an exercise's program.

use std::any::Any;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::process::exit;
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;

use crate::frame::{self, Broken, Tensor};
use crate::message::{InUse, Launch, Outcome, Reply, Request, Run, Ticket};

/// The answer to a call.
#[derive(Debug)]
pub struct Answer {
    /// The kind of end.
    pub outcome: Outcome,
    /// The outputs.
    pub outputs: Vec<Tensor>,
    /// The launches.
    pub launches: Vec<Launch>,
    /// Bytes that were copied from the device to the host.
    pub to_host: u64,
    /// Waits for the device, copies to the host among them.
    pub waits: u64,
    /// Device memory in use after the call, in bytes.
    pub device_bytes: u64,
    /// The most host memory that the learner's code took, in bytes; 0 if it is not counted.
    pub peak: u64,
}

impl Answer {
    /// An answer of a computation on the CPU.
    pub fn on_host(outcome: Outcome, outputs: Vec<Tensor>) -> Self {
        Self {
            outcome,
            outputs,
            launches: Vec::new(),
            to_host: 0,
            waits: 0,
            device_bytes: 0,
            peak: 0,
        }
    }
}

/// Answers requests on standard input until it ends; then ends the process.
pub fn serve<C: DeserializeOwned>(mut answer: impl FnMut(C, Run) -> Result<Answer, Broken>) -> ! {
    let requests = Requests::open();
    loop {
        let request = requests.next();
        requests.reply(answer(request.call, request.run));
    }
}

/// The requests of the grader, and the replies to them.
#[derive(Debug)]
pub struct Requests {
    requests: File,
    replies: File,
    /// That of the last request.
    ticket: Cell<Ticket>,
}

impl Requests {
    /// The pipes of the grader move to other descriptors: standard input becomes empty, and
    /// standard output goes where standard error does. Ends the process if that fails.
    pub fn open() -> Self {
        let (requests, replies) = match private_pipes() {
            Ok(pipes) => pipes,
            Err(error) => {
                eprintln!("the pipes of the grader: {error}");
                exit(2)
            }
        };
        record_panics();
        Self {
            requests,
            replies,
            ticket: Cell::new(0),
        }
    }

    /// The next request. Ends the process if there is none.
    pub fn next<C: DeserializeOwned>(&self) -> Request<C> {
        match frame::read(&mut &self.requests) {
            Ok(Some((ticket, request))) => {
                self.ticket.set(ticket);
                request
            }
            Ok(None) => exit(0),
            Err(error) => {
                eprintln!("a request of the grader: {error}");
                exit(2)
            }
        }
    }

    /// Sends outputs of a call that goes on. Ends the process if that fails.
    pub fn goes_on(&self, outputs: Vec<Tensor>) {
        self.reply(Ok(Answer::on_host(Outcome::GoesOn, outputs)));
    }

    /// Answers the last request. Ends the process if that fails.
    pub fn reply(&self, answer: Result<Answer, Broken>) {
        let answer = answer.unwrap_or_else(|error| {
            let text = error.to_string();
            Answer::on_host(Outcome::Failed { text }, Vec::new())
        });
        let reply = Reply {
            outcome: answer.outcome,
            outputs: answer.outputs,
            launches: answer.launches,
            to_host: answer.to_host,
            waits: answer.waits,
            in_use: InUse {
                device: answer.device_bytes,
                host: host_bytes(),
                peak: answer.peak,
            },
        };
        if let Err(error) = frame::write(&mut &self.replies, &(self.ticket.get(), reply)) {
            eprintln!("a reply to the grader: {error}");
            exit(2)
        }
    }
}

/// The message of `todo!`, or its beginning. A panic has no other mark.
const TO_DO: &str = "not yet implemented";

/// Calls a learner's code. Its result, or the panic.
pub fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, Outcome> {
    // A panic ends the use of whatever it left half done: the caller drops it.
    panic::catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let recorded = last_panic().take();
        let (text, place) = recorded.unwrap_or_else(|| (message(&*panic), "?".to_owned()));
        let to_do = text.starts_with(TO_DO);
        Outcome::Panicked { text, place, to_do }
    })
}

/// Message and place of the last panic.
fn last_panic() -> std::sync::MutexGuard<'static, Option<(String, String)>> {
    static LAST: Mutex<Option<(String, String)>> = Mutex::new(None);
    LAST.lock().unwrap_or_else(PoisonError::into_inner) // it is set in one step
}

fn record_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string);
        *last_panic() = Some((message(info.payload()), place.unwrap_or_default()));
        print(info);
    }));
}

fn message(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}

/// Standard input and output, moved to descriptors of their own.
fn private_pipes() -> io::Result<(File, File)> {
    let (requests, replies) = (moved(0)?, moved(1)?);
    let nothing = File::open("/dev/null")?;
    // SAFETY: both descriptors are open, and those that they replace were duplicated.
    unsafe {
        check(libc::dup2(nothing.as_raw_fd(), 0))?;
        check(libc::dup2(2, 1))?;
    }
    Ok((requests, replies))
}

/// A duplicate of a descriptor, above the standard ones.
fn moved(descriptor: i32) -> io::Result<File> {
    // SAFETY: fcntl only looks at its arguments.
    let copy = check(unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 100) })?;
    // SAFETY: it was opened in the line before, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) }.into())
}

fn check(code: i32) -> io::Result<i32> {
    match code {
        -1 => Err(io::Error::last_os_error()),
        code => Ok(code),
    }
}

/// Host memory in use, as the allocator counts it.
fn host_bytes() -> u64 {
    // SAFETY: it has no arguments, and returns a struct of numbers.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}
