//! Asynchronous copies: `cp.async`, and what waits for them.
//!
//! A copy reads and writes at once. Until its thread has waited for it, the checks take every
//! access to its target for a fault ([`crate::exec::checks::copies_in_flight`]).

use crate::exec::access::lane_operands::bytes_read;
use crate::exec::access::word::{Word, words_at};
use crate::exec::active_warp::ActiveWarp;
use crate::exec::checks::copies_in_flight::CopyInFlight;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::locate::AccessParts;
use crate::program::op::{ALL_BYTES, Access, AccessKind, AsyncCopy};

/// Copy of one lane.
#[derive(Clone, Copy, Default)]
struct Copied {
    words: [u32; 4],
    /// Host address of the source.
    from: u64,
    bytes: u32,
}

/// Runs the copies of the lanes in `warp.mask`, which is not empty.
pub(crate) fn execute(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &AsyncCopy,
) -> Result<(), Trap> {
    let bytes = bytes_read(warp.registers, copy);
    let reading = lanes(warp.mask).fold(0, |m, lane| m | u32::from(bytes[lane] > 0) << lane);
    if reading != 0 {
        worker.copies.begin(warp.number);
    }
    let first = bytes[reading.trailing_zeros() as usize & 31];
    let mut copied = [Copied::default(); 32];
    if lanes(reading).all(|lane| bytes[lane] == first) {
        let parts = AccessParts::new(reading);
        read(warp, worker, copy, parts, first, &mut copied)?;
    } else {
        // Each size has bounds of its own, but it is one request.
        let mut left = reading;
        while left != 0 {
            let here = bytes[left.trailing_zeros() as usize];
            let mask = lanes(left).fold(0, |m, lane| m | u32::from(bytes[lane] == here) << lane);
            left &= !mask;
            let parts = AccessParts::uncounted(mask);
            read(warp, worker, copy, parts, here, &mut copied)?;
        }
        count_read(warp, worker, copy, reading)?;
    }
    write(warp, worker, copy, &copied)
}

/// Reads `bytes` bytes for each lane in `parts`.
fn read(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &AsyncCopy,
    mut parts: AccessParts,
    bytes: u32,
    copied: &mut [Copied; 32],
) -> Result<(), Trap> {
    let [(whole, address), _] = copy.accesses();
    let used = match bytes < copy.bytes.into() {
        true => (1 << bytes) - 1,
        false => ALL_BYTES,
    };
    let access = Access { used, ..whole };
    while let Some(part) = parts.next(warp, worker, &address, &access, AccessKind::Load)? {
        if worker.checks.enabled {
            let (checks, checked) = worker.checked(&access, &part);
            checks.load_written(warp, checked)?;
        }
        let deltas = &worker.patterns[access.site as usize].deltas.0;
        for lane in lanes(part.mask) {
            let from = part.place(deltas[lane], lane);
            copied[lane] = Copied {
                // SAFETY: `AccessParts::next` found these bytes in bounds, and the first of them
                // aligned.
                words: unsafe { words_at(from, bytes) },
                from,
                bytes,
            };
        }
    }
    Ok(())
}

/// Counts the read of the lanes in `mask`, which is in bounds.
fn count_read(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &AsyncCopy,
    mask: u32,
) -> Result<(), Trap> {
    let [(whole, address), _] = copy.accesses();
    // Every lane reads its first byte; the others may read less than all.
    let access = Access { used: 1, ..whole };
    let mut parts = AccessParts::new(mask);
    while parts
        .next(warp, worker, &address, &access, AccessKind::Load)?
        .is_some()
    {}
    Ok(())
}

/// Writes the targets of all lanes, and notes the copies as in flight.
fn write(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &AsyncCopy,
    copied: &[Copied; 32],
) -> Result<(), Trap> {
    let [_, (access, address)] = copy.accesses();
    let mut parts = AccessParts::new(warp.mask);
    while let Some(part) = parts.next(warp, worker, &address, &access, AccessKind::Store)? {
        part.must_be_own("cp.async")?;
        if worker.checks.enabled {
            let pc = warp.pc;
            let (checks, checked) = worker.checked(&access, &part);
            checks.begin_copies(warp, checked, |lane, word| CopyInFlight {
                lane: lane as u8,
                words: access.count,
                word,
                pc,
                from: copied[lane].from,
                read: copied[lane].words,
                bytes: copied[lane].bytes,
                group: 0,
            })?;
        }
        let deltas = &worker.patterns[access.site as usize].deltas.0;
        for lane in lanes(part.mask) {
            let to = part.place(deltas[lane], lane);
            for (i, &word) in copied[lane].words[..usize::from(access.count)]
                .iter()
                .enumerate()
            {
                // SAFETY: `AccessParts::next` found the target in bounds and aligned.
                unsafe { word.store(to + 4 * i as u64) };
            }
        }
    }
    Ok(())
}

/// Waits for the copies of the lanes in `warp.mask`, but for their `newest` last groups; for all of
/// them if `None`.
pub(crate) fn wait(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    newest: Option<u32>,
) -> Result<(), Trap> {
    worker.copies.wait(warp.number, newest);
    match worker.checks.enabled {
        true => worker.checks.wait_for_copies(warp, &worker.memory, newest),
        false => Ok(()),
    }
}
