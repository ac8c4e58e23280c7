//! Events: marks in streams that other streams wait for, and between which time is measured.

use std::sync::{Arc, Condvar, Mutex};

use super::{
    capture::Capture,
    clock::Moment,
    progress::{Progress, not_ready},
};
use crate::{
    driver::ffi::{Handle, Result, Status},
    sync::{lock, wait_while},
};

/// An event. Its records are numbered from 1. A wait is for the last record that was issued when
/// the wait was submitted.
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
    stream: Option<Arc<Progress>>,
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

    /// Numbers a new record. The record must be submitted to its stream before [`Event::issue`]
    /// makes it visible; otherwise a stream could wait for itself.
    pub(crate) fn number(&self) -> u64 {
        let mut state = lock(&self.state);
        state.numbered += 1;
        state.numbered
    }

    /// Makes record `ticket`, which is in the order of the stream with this progress, the last one.
    pub(crate) fn issue(&self, ticket: u64, stream: Arc<Progress>) {
        let mut state = lock(&self.state);
        if ticket > state.issued {
            state.issued = ticket;
            state.stream = Some(stream);
            state.capture = None;
        }
    }

    /// Marks record `ticket` as reached at the modelled time `at`.
    pub(crate) fn reach(&self, ticket: u64, at: Moment) {
        let mut state = lock(&self.state);
        if ticket > state.reached {
            state.reached = ticket;
            state.at = at;
        }
        self.progress.notify_all();
    }

    /// True if record `ticket` has been reached.
    pub(crate) fn reached(&self, ticket: u64) -> bool {
        lock(&self.state).reached >= ticket
    }

    /// Waits until record `ticket` has been reached. Returns when that was, in modelled time: if
    /// the event has been recorded again since, when the later record was reached.
    pub(crate) fn wait(&self, ticket: u64) -> Moment {
        let state = lock(&self.state);
        let state = wait_while(&self.progress, state, |state| state.reached < ticket);
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

    /// The last record goes into a capture, instead of happening.
    pub(crate) fn record_in_capture(&self, capture: Arc<Capture>) {
        lock(&self.state).capture = Some(capture);
    }

    /// When the last record was reached, in modelled time. An error if it has not been, or if no
    /// time is kept.
    pub(crate) fn time(&self) -> Result<Moment> {
        let state = lock(&self.state);
        if !self.timing || state.issued == 0 {
            let why = if self.timing {
                "was never recorded"
            } else {
                "was created without timing"
            };
            return Err(Status::InvalidHandle.error(format!("event {:#x} {why}", self.handle)));
        }
        if state.reached < state.issued {
            return Err(not_ready());
        }
        Ok(state.at)
    }

    /// True if the event was ever recorded, outside captures.
    pub(crate) fn recorded(&self) -> bool {
        self.last() > 0
    }

    /// The capture that the last record went into.
    pub(crate) fn capture(&self) -> Option<Arc<Capture>> {
        lock(&self.state).capture.clone()
    }

    /// An error, and the end of the capture, if the last record went into one.
    pub(crate) fn check_not_captured(&self, what: &str) -> Result {
        match self.capture() {
            None => Ok(()),
            Some(capture) => {
                capture.invalidate();
                Err(Status::CapturedEvent.error(format!(
                    "{what} of an event whose last record went into a graph"
                )))
            }
        }
    }

    /// The failure that the stream of the last record has kept back, if it is idle.
    pub(crate) fn stream_failure(&self) -> Result {
        let stream = lock(&self.state).stream.clone();
        match stream {
            Some(stream) if stream.is_idle() => stream.drain(),
            _ => Ok(()),
        }
    }
}
