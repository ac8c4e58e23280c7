//! Events: marks in streams that others can wait for and measure between.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::{
    driver::{
        clock::{self, Moment},
        context::current,
        ffi::Out,
        graph::Capture,
        handle::Handle,
        operation::Operation,
        state::driver,
        status::{Code, Error, Result, Status, guard},
        stream::{Stream, find, not_ready},
    },
    sync::lock,
};

const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// An event. Its records are numbered from 1: a wait is for the last one issued when it was asked for.
pub(crate) struct Event {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    timing: bool,
    state: Mutex<State>,
    progress: Condvar,
}

#[derive(Default)]
struct State {
    numbered: u64,
    issued: u64,
    reached: u64,
    /// When the last record was reached, in modelled time.
    at: Moment,
    /// The stream of the last record.
    stream: Option<Arc<Stream>>,
    /// The capture that the last record went into, instead of happening.
    capture: Option<Arc<Capture>>,
}

impl Event {
    pub(crate) fn new(handle: Handle, context: Handle, timing: bool) -> Self {
        Self {
            handle,
            context,
            timing,
            state: Mutex::default(),
            progress: Condvar::new(),
        }
    }

    /// Numbers a new record. It must be in its stream's order before [`Event::issue`] makes it known: a stream that
    /// waited for it before it is there could wait for itself.
    pub(crate) fn number(&self) -> u64 {
        let mut state = lock(&self.state);
        state.numbered += 1;
        state.numbered
    }

    /// Makes record `ticket`, which is in the order of `stream`, the last one.
    fn issue(&self, ticket: u64, stream: Arc<Stream>) {
        let mut state = lock(&self.state);
        if ticket > state.issued {
            state.issued = ticket;
            state.stream = Some(stream);
            state.capture = None;
        }
    }

    /// Record `ticket` has been reached, at a modelled time.
    pub(crate) fn reach(&self, ticket: u64, at: Moment) {
        let mut state = lock(&self.state);
        if ticket > state.reached {
            state.reached = ticket;
            state.at = at;
        }
        self.progress.notify_all();
    }

    /// Whether record `ticket` has been reached.
    pub(crate) fn reached(&self, ticket: u64) -> bool {
        lock(&self.state).reached >= ticket
    }

    /// Waits until record `ticket` has been reached. Returns when that was, in modelled time: if the event has been
    /// recorded again since, when the later record was reached.
    pub(crate) fn wait(&self, ticket: u64) -> Moment {
        let mut state = lock(&self.state);
        while state.reached < ticket {
            state = self
                .progress
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.at
    }

    /// When the last record was reached, in modelled time; the beginning if there is none.
    pub(crate) fn at(&self) -> Moment {
        lock(&self.state).at
    }

    /// The last record's number, unless it has been reached or there is none.
    pub(crate) fn pending(&self) -> Option<u64> {
        let state = lock(&self.state);
        (state.reached < state.issued).then_some(state.issued)
    }

    /// The last record's number; 0 if there is none.
    pub(crate) fn last(&self) -> u64 {
        lock(&self.state).issued
    }

    /// Whether the event was ever recorded, outside captures.
    pub(crate) fn recorded(&self) -> bool {
        self.last() > 0
    }

    /// The capture that the last record went into.
    pub(crate) fn capture(&self) -> Option<Arc<Capture>> {
        lock(&self.state).capture.clone()
    }

    /// An error, and the end of the capture, if the last record went into one.
    fn check_not_captured(&self, what: &str) -> Result {
        match self.capture() {
            None => Ok(()),
            Some(capture) => {
                capture.invalidate();
                Err(Error::new(
                    Status::CapturedEvent,
                    format!("{what} of an event whose last record went into a graph"),
                ))
            }
        }
    }

    /// The failure of the stream that the event was last recorded in, if one is to be told.
    fn stream_failure(&self) -> Result {
        let stream = lock(&self.state).stream.clone();
        match stream {
            Some(stream) if stream.is_idle() => stream.drain(),
            _ => Ok(()),
        }
    }
}

/// Creates an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: Out<Handle>, flags: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        let context = current(driver)?;
        event.check("phEvent")?;
        if flags >= 2 * INTERPROCESS {
            return Err(Error::value(format!("{flags:#x} are no event flags")));
        }
        if flags & INTERPROCESS != 0 {
            return Err(Error::unsupported("events between processes"));
        }
        let timing = flags & DISABLE_TIMING == 0;
        let new = driver
            .events
            .insert(|handle| Event::new(handle, context.handle, timing));
        event.set("phEvent", new.handle)
    })
}

/// Destroys an event. Waits for it that were submitted still end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.events.remove(event)?;
        Ok(())
    })
}

/// Records an event in a stream: it is reached when all earlier work of the stream is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = find(driver, stream)?;
        let event = driver.events.get(event)?;
        if event.context != stream.context {
            return Err(Error::new(
                Status::InvalidHandle,
                "the event and the stream it is to be recorded in belong to different contexts",
            ));
        }
        if let Some(capture) = stream.capture() {
            lock(&event.state).capture = Some(capture);
            return Ok(());
        }
        let ticket = event.number();
        let record = Operation::Record {
            event: Arc::clone(&event),
            ticket,
        };
        stream.enqueue(driver, record)?;
        event.issue(ticket, stream);
        Ok(())
    })
}

/// Whether an event's last record is reached: `CUDA_ERROR_NOT_READY` if not. Yes if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventQuery(event: Handle) -> Code {
    guard(|| {
        let event = driver()?.events.get(event)?;
        event.check_not_captured("cuEventQuery")?;
        match event.pending() {
            Some(_) => Err(not_ready()),
            None => {
                clock::host_sees(event.at());
                event.stream_failure()
            }
        }
    })
}

/// Waits for an event's last record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    guard(|| {
        let event = driver()?.events.get(event)?;
        event.check_not_captured("cuEventSynchronize")?;
        if let Some(ticket) = event.pending() {
            event.wait(ticket);
        }
        clock::host_sees(event.at());
        event.stream_failure()
    })
}

/// Milliseconds of modelled time between two events' records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: Out<f32>,
    start: Handle,
    end: Handle,
) -> Code {
    guard(|| {
        let driver = driver()?;
        let (start, end) = (driver.events.get(start)?, driver.events.get(end)?);
        let mut times = [Moment::default(); 2];
        for (time, event) in times.iter_mut().zip([&start, &end]) {
            event.check_not_captured("cuEventElapsedTime")?;
            let state = lock(&event.state);
            if !event.timing || state.issued == 0 {
                let why = if event.timing {
                    "was never recorded"
                } else {
                    "was created without timing"
                };
                return Err(Error::new(
                    Status::InvalidHandle,
                    format!("event {:#x} {why}", event.handle),
                ));
            }
            if state.reached < state.issued {
                return Err(not_ready());
            }
            *time = state.at;
        }
        let [start, end] = times;
        milliseconds.set("pMilliseconds", (end.since(start) * 1e3) as f32)
    })
}

/// The same, by the name of CUDA 13.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(
    milliseconds: Out<f32>,
    start: Handle,
    end: Handle,
) -> Code {
    // SAFETY: the same arguments, under the same promises.
    unsafe { cuEventElapsedTime(milliseconds, start, end) }
}
