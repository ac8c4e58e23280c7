//! Events: creation, records, waits and the time between two records.

use std::sync::Arc;

use crate::{
    driver::{
        ffi::{Code, Error, Handle, Out, Status, guard},
        state::driver,
        streams::{Event, Operation, clock, clock::Moment, not_ready},
    },
    recorder,
};

const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// Creates an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: Out<Handle>, flags: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        let context = driver.current()?;
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

/// Destroys an event. Submitted waits for it still end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        driver.events.remove(event)?;
        Ok(())
    })
}

/// The same, by the name of CUDA 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy(event: Handle) -> Code {
    // SAFETY: the same argument, under the same promises.
    unsafe { cuEventDestroy_v2(event) }
}

/// Records an event in a stream: it is reached when all earlier work of the stream is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    guard(|| {
        let driver = driver()?;
        let stream = driver.stream(stream)?;
        let event = driver.events.get(event)?;
        if event.context != stream.context {
            return Err(Status::InvalidHandle.error(
                "the event and the stream it is to be recorded in belong to different contexts",
            ));
        }
        if let Some(capture) = stream.capture() {
            event.record_in_capture(capture);
            return Ok(());
        }
        let ticket = event.number();
        let record = Operation::Record {
            event: Arc::clone(&event),
            ticket,
        };
        driver.submit_uncaptured(&stream, record)?;
        event.issue(ticket, Arc::clone(&stream.progress));
        Ok(())
    })
}

/// Records an event in a stream. A record that a captured graph is to make
/// (`CU_EVENT_RECORD_EXTERNAL`) is not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) -> Code {
    match flags {
        // SAFETY: the same arguments, under the same promises.
        0 => unsafe { cuEventRecord(event, stream) },
        1 => guard(|| Err(Error::unsupported("CU_EVENT_RECORD_EXTERNAL"))),
        _ => guard(|| {
            Err(Error::value(format!(
                "{flags:#x} are no CUevent_record_flags"
            )))
        }),
    }
}

/// Success if an event's last record is reached, or if it has none; otherwise
/// `CUDA_ERROR_NOT_READY`.
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
        recorder::count_wait();
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
            *time = event.time()?;
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
