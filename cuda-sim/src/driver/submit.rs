//! Submits operations to streams, in the order that the default stream's rules ask for.

use std::sync::Arc;

use crate::driver::{
    ffi::Result,
    state::Driver,
    streams::{
        Event, Operation, Stream, StreamKind,
        clock::{self, Moment},
    },
};

impl Driver {
    /// Runs `operation` in the order of `stream`, or adds it to the capture that is going on.
    pub(crate) fn submit(&'static self, stream: &Stream, operation: Operation) -> Result {
        if let Some(capture) = stream.capture() {
            return capture.add(operation);
        }
        self.submit_uncaptured(stream, operation)
    }

    /// Runs `operation` in the order of `stream`, whether or not a capture is going on.
    pub(crate) fn submit_uncaptured(
        &'static self,
        stream: &Stream,
        operation: Operation,
    ) -> Result {
        let earliest = self.wait_for_others(stream)?;
        stream.perform(&self.arena, operation, earliest)
    }

    /// Makes later work of `stream` wait for the work that the default stream's rules put first.
    /// Returns the modelled time at which it starts at the earliest.
    pub(crate) fn wait_for_others(&'static self, stream: &Stream) -> Result<Moment> {
        let mut earliest = clock::host();
        let first: Vec<Arc<Stream>> = match stream.kind {
            StreamKind::NonBlocking => return Ok(earliest),
            StreamKind::Legacy => self.streams.select(|other| {
                other.context == stream.context && other.kind == StreamKind::Blocking
            }),
            StreamKind::Blocking => {
                let context = self.contexts.get(stream.context)?;
                vec![Arc::clone(context.legacy_stream())]
            }
        };
        for other in first {
            if other.progress.is_idle() {
                earliest = earliest.max(other.progress.clock());
                continue;
            }
            let event = Arc::new(Event::new(0, stream.context, false));
            let ticket = event.number();
            let record = Operation::Record {
                event: Arc::clone(&event),
                ticket,
            };
            other.perform(&self.arena, record, Moment::default())?;
            stream.perform(&self.arena, Operation::Wait { event, ticket }, earliest)?;
        }
        Ok(earliest)
    }
}
