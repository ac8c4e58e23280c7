//! The operations of streams, as data: an operation runs at once, waits in a queue, or is kept in a
//! graph and run many times.

use std::{ptr, sync::Arc};

use super::{
    clock::Moment,
    event::Event,
    host_function::{HostAddress, HostFunction, run_host_function},
    nested::Nested,
    rows::Rows,
};
use crate::{
    driver::ffi::Result,
    launch::{PreparedLaunch, Submission},
    memory::arena::{Arena, Kind},
    model,
    profile::Record,
    settings::device,
};

/// One operation of a stream. Addresses and sizes are checked when it is submitted, and again when
/// it runs: a graph may run after its memory was freed.
#[derive(Clone)]
pub(crate) enum Operation {
    /// Host to device.
    Upload { to: u64, from: Source, rows: Rows },
    /// Device to host.
    Download {
        to: HostAddress,
        from: u64,
        rows: Rows,
    },
    /// Device to device. The ranges of a row may overlap.
    Copy { to: u64, from: u64, rows: Rows },
    /// `count` elements set to the first `width` bytes of `value`, little-endian.
    Fill {
        to: u64,
        value: u32,
        width: usize,
        count: usize,
    },
    /// Frees memory in stream order. Operations that are submitted later find it freed; it is
    /// released when all that were submitted before have ended ([`Arena::free_in_order`]).
    Free { addr: u64 },
    /// A kernel launch.
    Launch(Arc<PreparedLaunch>),
    /// A host callback.
    Host {
        function: HostFunction,
        data: HostAddress,
    },
    /// Marks an event's record number `ticket` as reached.
    Record { event: Arc<Event>, ticket: u64 },
    /// Waits until an event's record number `ticket` is reached.
    Wait { event: Arc<Event>, ticket: u64 },
    /// The operations of a graph.
    Graph(Arc<Nested>),
}

/// Source of an upload.
#[derive(Clone)]
pub(crate) enum Source {
    /// In host memory that stays as it is until the operation has run.
    Host(HostAddress),
    /// A copy made by the call, because the caller may change its memory at once.
    Staged(Arc<[u8]>),
}

impl Operation {
    /// An operation that does nothing.
    pub(crate) fn nothing() -> Operation {
        Operation::Graph(Arc::default())
    }

    /// True if it copies or sets no byte, or has no operations.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Operation::Upload { rows, .. }
            | Operation::Download { rows, .. }
            | Operation::Copy { rows, .. } => rows.total() == 0,
            Operation::Fill { count, .. } => *count == 0,
            Operation::Graph(nested) => nested.operations.is_empty(),
            Operation::Free { .. }
            | Operation::Launch(_)
            | Operation::Host { .. }
            | Operation::Record { .. }
            | Operation::Wait { .. } => false,
        }
    }

    /// True if it is a cooperative launch.
    pub(crate) fn is_cooperative(&self) -> bool {
        matches!(self, Operation::Launch(launch) if launch.cooperative)
    }

    /// True if it is a copy of at least one byte, in one row.
    pub(crate) fn is_one_row(&self) -> bool {
        match self {
            Operation::Upload { rows, .. }
            | Operation::Download { rows, .. }
            | Operation::Copy { rows, .. } => rows.rows == 1 && rows.slices == 1 && rows.bytes > 0,
            _ => false,
        }
    }

    /// The difference for which `new` may not take the place of this operation, a kernel or a copy,
    /// in an instantiated graph.
    pub(crate) fn difference(&self, new: &Operation) -> Option<&'static str> {
        use Operation::{Copy, Download, Launch, Upload};
        match (self, new) {
            (Launch(old), Launch(new)) if old.context != new.context => {
                Some("a kernel of another context")
            }
            (Launch(_), Launch(_))
            | (Upload { .. }, Upload { .. })
            | (Download { .. }, Download { .. })
            | (Copy { .. }, Copy { .. }) => None,
            _ => Some("a copy between other types of memory"),
        }
    }

    /// True if it must run in a worker thread: it calls back, or waits for a record that is not
    /// reached yet.
    pub(crate) fn needs_worker(&self) -> bool {
        match self {
            Operation::Host { .. } => true,
            Operation::Wait { event, ticket } => !event.reached(*ticket),
            Operation::Graph(nested) => nested.operations.iter().any(Operation::needs_worker),
            Operation::Upload { .. }
            | Operation::Download { .. }
            | Operation::Copy { .. }
            | Operation::Fill { .. }
            | Operation::Free { .. }
            | Operation::Launch(_)
            | Operation::Record { .. } => false,
        }
    }

    /// Does the part that happens at submission.
    pub(crate) fn submitted(&self, arena: &Arena, number: u64) -> Result {
        if let Operation::Free { addr } = *self {
            arena.free_in_order(addr, &[Kind::Device, Kind::Managed], number)?;
        }
        Ok(())
    }

    /// Checks that addresses and sizes of a copy or fill lie in memory that operation number
    /// `number` finds live.
    pub(crate) fn check_ranges(&self, arena: &Arena, number: u64) -> Result {
        let device = |what, at, bytes: usize| arena.check_range_for(number, what, at, bytes as u64);
        // Host memory that is part of the arena (pinned or managed) is checked like device memory.
        let host = |what, at: HostAddress, bytes| match arena.holds(at.0 as u64) {
            true => device(what, at.0 as u64, bytes),
            false => Ok(()),
        };
        match self {
            Operation::Upload { to, from, rows } => {
                device("write of a host-to-device copy", *to, rows.extent(rows.to))?;
                if let Source::Host(from) = from {
                    host(
                        "read of a host-to-device copy",
                        *from,
                        rows.extent(rows.from),
                    )?;
                }
            }
            Operation::Download { to, from, rows } => {
                device(
                    "read of a device-to-host copy",
                    *from,
                    rows.extent(rows.from),
                )?;
                host("write of a device-to-host copy", *to, rows.extent(rows.to))?;
            }
            Operation::Copy { to, from, rows } => {
                device(
                    "read of a device-to-device copy",
                    *from,
                    rows.extent(rows.from),
                )?;
                device(
                    "write of a device-to-device copy",
                    *to,
                    rows.extent(rows.to),
                )?;
            }
            Operation::Fill {
                to, width, count, ..
            } => device("memset", *to, count * width)?,
            Operation::Free { .. }
            | Operation::Launch(_)
            | Operation::Host { .. }
            | Operation::Record { .. }
            | Operation::Wait { .. }
            | Operation::Graph(_) => {}
        }
        Ok(())
    }

    /// Runs it, and advances the stream's modelled time; `behind`: what was before it in the stream
    /// had not ended when it was submitted. Returns the record of the last kernel, if one ran.
    pub(super) fn run(
        &self,
        submission: &Submission,
        arena: &Arena,
        now: &mut Moment,
        behind: bool,
    ) -> Result<Option<Arc<Record>>> {
        self.check_ranges(arena, submission.operation)?;
        match self {
            Operation::Upload { to, from, rows } => {
                upload(arena, *to, from, rows);
                submission.count(|memory| memory.to_device.add(rows.total()));
                now.advance(model::host_copy_seconds(device(), rows.total()));
            }
            Operation::Download { to, from, rows } => {
                download(*to, *from, rows);
                submission.count(|memory| memory.to_host.add(rows.total()));
                now.advance(model::host_copy_seconds(device(), rows.total()));
            }
            Operation::Copy { to, from, rows } => {
                copy(arena, *to, *from, rows);
                submission.count(|memory| memory.on_device.add(rows.total()));
                now.advance(model::device_copy_seconds(
                    device(),
                    rows.total().saturating_mul(2),
                ));
            }
            Operation::Fill {
                to,
                value,
                width,
                count,
            } => {
                fill(arena, *to, *value, *width, *count);
                let bytes = count * width;
                submission.count(|memory| memory.fills.add(bytes));
                now.advance(model::device_copy_seconds(device(), bytes));
            }
            Operation::Free { .. } => submission.count(|memory| memory.frees += 1),
            Operation::Launch(prepared) => {
                let record = prepared.run(submission, arena)?;
                now.advance(record.time().seconds_behind(behind));
                return Ok(Some(record));
            }
            Operation::Host { function, data } => run_host_function(*function, *data),
            Operation::Record { event, ticket } => event.reach(*ticket, *now),
            Operation::Wait { event, ticket } => *now = event.wait(*ticket).max(*now),
            Operation::Graph(nested) => {
                let mut last = None;
                for operation in &nested.operations {
                    let behind = behind || last.is_some();
                    last = operation.run(submission, arena, now, behind)?.or(last);
                }
                return Ok(last);
            }
        }
        Ok(None)
    }
}

/// The ranges of this and of the other three have been checked.
fn upload(arena: &Arena, to: u64, from: &Source, rows: &Rows) {
    let source = match from {
        Source::Host(from) => from.0 as *const u8,
        Source::Staged(data) => data.as_ptr(),
    };
    for (at, behind) in rows.starts() {
        let to = to + at as u64;
        // SAFETY: each row of `to` lies in a live allocation in the arena, whose memory stays
        // mapped; each of `source` is readable: staged data has the length of all rows, host memory
        // by the promise of the copy's caller, and host memory inside the arena was checked. `copy`
        // allows the two to overlap.
        unsafe { ptr::copy(source.add(behind), to as *mut u8, rows.bytes) };
        arena.shadow().bytes.set_written(to, rows.bytes as u64);
    }
}

fn download(to: HostAddress, from: u64, rows: &Rows) {
    for (at, behind) in rows.starts() {
        let from = from + behind as u64;
        // SAFETY: as in `upload`, the other way round.
        unsafe { ptr::copy(from as *const u8, to.0.cast::<u8>().add(at), rows.bytes) };
    }
}

fn copy(arena: &Arena, to: u64, from: u64, rows: &Rows) {
    for (at, behind) in rows.starts() {
        let (to, from) = (to + at as u64, from + behind as u64);
        // SAFETY: each row lies in a live allocation in the arena, on both sides; `copy` allows
        // overlap.
        unsafe { ptr::copy(from as *const u8, to as *mut u8, rows.bytes) };
        arena
            .shadow()
            .bytes
            .copy_written(to, from, rows.bytes as u64);
    }
}

fn fill(arena: &Arena, to: u64, value: u32, width: usize, count: usize) {
    arena.shadow().bytes.set_written(to, (count * width) as u64);
    let element = &value.to_le_bytes()[..width];
    for index in 0..if width == 1 { 0 } else { count } {
        // SAFETY: element `index` of `count` lies inside the live allocation that was checked.
        unsafe {
            ptr::copy_nonoverlapping(element.as_ptr(), (to as *mut u8).add(index * width), width)
        };
    }
    if width == 1 {
        // SAFETY: the live allocation that was checked has `count` bytes from `to` on.
        unsafe { ptr::write_bytes(to as *mut u8, element[0], count) };
    }
}
