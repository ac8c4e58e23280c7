//! Computations without the interpreter's lock.
//!
//! A job owns what it reads, so it may outlive the call: Ctrl-C raises `KeyboardInterrupt` at once,
//! and the job ends by itself, without a result.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{mem, thread};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Longest time from Ctrl-C to the exception.
const SIGNALS: Duration = Duration::from_millis(50);

/// Where a job runs.
pub enum Place {
    /// On the calling thread alone: for a job that takes less time than waking others.
    Here,
    /// On the threads that stage 3 shares its tiles out to.
    Pool,
    /// On a thread of its own.
    Thread,
}

/// Runs a job, and waits for its result. The inputs come back with it: giving them back to their
/// library takes the interpreter's lock, for which another thread would have to wait.
///
/// # Errors
///
/// `KeyboardInterrupt`, or what a signal's handler raises; `RuntimeError` if there are no threads.
pub fn run<I: Send + 'static, T: Send + 'static>(
    py: Python<'_>,
    place: Place,
    inputs: I,
    work: impl FnOnce(&I) -> T + Send + 'static,
) -> PyResult<T> {
    if matches!(place, Place::Here) && has_pool_of_its_own() {
        let (result, _inputs) = py.detach(move || (work(&inputs), inputs));
        return Ok(result);
    }
    let (sender, mut receiver) = sync_channel(1);
    let job = move || {
        let result = catch_unwind(AssertUnwindSafe(|| work(&inputs)));
        let _ = sender.send((result, inputs)); // nobody waits for it any more after a signal
    };
    match place {
        Place::Here | Place::Pool => pool()?.spawn(job),
        Place::Thread => {
            thread::Builder::new().spawn(job)?;
        }
    }
    loop {
        let received;
        (received, receiver) = py.detach(move || (receiver.recv_timeout(SIGNALS), receiver));
        match received {
            Ok((Ok(result), _inputs)) => return Ok(result),
            Ok((Err(panic), _inputs)) => resume_unwind(panic), // PyO3 makes an exception of it
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the computation was dropped"));
            }
        }
    }
}

/// Gives the calling thread a pool of rayon's in which it is alone, and which stage 3 then takes.
/// False if it cannot have one.
fn has_pool_of_its_own() -> bool {
    thread_local! {
        static ALONE: Option<ThreadPool> = {
            let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
            pool.build().ok()
        };
    }
    ALONE.with(Option::is_some)
}

/// The threads of this process: as many as the environment variable `RAYON_NUM_THREADS` says, or
/// one for each core. A child that was forked has none of its parent's threads, so it gets others.
///
/// The caller holds the interpreter's lock, as a thread that forks does: no other thread holds the
/// lock of `POOL` then.
fn pool() -> PyResult<Arc<ThreadPool>> {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner); // set in one step
    let process = process::id();
    if let Some((owner, pool)) = &*pool
        && *owner == process
    {
        return Ok(pool.clone());
    }
    let own = ThreadPoolBuilder::new().build();
    let own = Arc::new(own.map_err(|error| PyRuntimeError::new_err(error.to_string()))?);
    // The parent's pool is not dropped: its threads are not here to end.
    mem::forget(pool.replace((process, own.clone())));
    Ok(own)
}
