//! Asynchronous copies: `cp.async`, and what waits for them.
//!
//! A copy reads and writes at once. Until its thread has waited for it, the checks take every access to its target for a
//! fault ([`crate::exec::checks::copies_in_flight`]).

use crate::exec::access::word::Word;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::checks::copies_in_flight::CopyInFlight;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::locate::AccessParts;
use crate::exec::operations::predicate::condition;
use crate::program::op::{ALL_BYTES, Access, AccessKind, AsyncCopy};

/// What a lane copies.
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
    let ignored = condition(warp.registers, copy.ignore);
    let asked = *warp.registers.read::<u32>(copy.size);
    let bytes = |lane: usize| match ignored >> lane & 1 {
        0 => asked[lane].min(copy.bytes.into()),
        _ => 0,
    };
    let mut copied = [Copied::default(); 32];
    let mut left = lanes(warp.mask).fold(0, |m, lane| m | u32::from(bytes(lane) > 0) << lane);
    // Lanes that read equally many bytes read them together.
    while left != 0 {
        let here = bytes(left.trailing_zeros() as usize);
        let mask = lanes(left).fold(0, |m, lane| m | u32::from(bytes(lane) == here) << lane);
        left &= !mask;
        read(warp, worker, copy, mask, here, &mut copied)?;
    }
    write(warp, worker, copy, &copied)
}

/// Reads `bytes` bytes for each lane in `mask`.
fn read(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &AsyncCopy,
    mask: u32,
    bytes: u32,
    copied: &mut [Copied; 32],
) -> Result<(), Trap> {
    let [(whole, address), _] = copy.accesses();
    let used = match bytes < copy.bytes.into() {
        true => (1 << bytes) - 1,
        false => ALL_BYTES,
    };
    let access = Access { used, ..whole };
    let mut parts = AccessParts::new(mask);
    while let Some(part) = parts.next(warp, worker, &address, &access, AccessKind::Load)? {
        if worker.checks.enabled {
            let (checks, checked) = worker.checked(&access, &part);
            match access.is_partial() {
                true => checks.load_used(warp, checked)?,
                false => checks.load(warp, checked)?,
            }
        }
        let deltas = &worker.patterns[access.site as usize].deltas.0;
        for lane in lanes(part.mask) {
            let from = part.place(deltas[lane], lane);
            copied[lane] = Copied {
                // SAFETY: `AccessParts::next` found these bytes in bounds, and the first of them aligned.
                words: unsafe { words_at(from, bytes) },
                from,
                bytes,
            };
        }
    }
    Ok(())
}

/// `bytes` bytes at a host address, as words that are zero behind them.
///
/// # Safety
/// The bytes are there, and the address is aligned to words.
pub(crate) unsafe fn words_at(from: u64, bytes: u32) -> [u32; 4] {
    std::array::from_fn(|i| {
        let at = 4 * i as u32;
        let byte = |k: u32| {
            // SAFETY: promised by the caller.
            u32::from(unsafe { u8::load(from + u64::from(at + k)) }) << (8 * k)
        };
        match bytes.saturating_sub(at) {
            // SAFETY: promised by the caller.
            4.. => unsafe { u32::load(from + u64::from(at)) },
            rest => (0..rest).fold(0, |word, k| word | byte(k)),
        }
    })
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

/// Waits for the copies of the lanes in `warp.mask`, but for their `newest` last groups; for all of them if `None`.
pub(crate) fn wait(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    newest: Option<u32>,
) -> Result<(), Trap> {
    match worker.checks.enabled {
        true => worker.checks.wait_for_copies(warp, &worker.memory, newest),
        false => Ok(()),
    }
}
