//! Arrival barriers in shared memory: `mbarrier`, lane by lane in lane order.
//!
//! A barrier is a word of 64 bits. Its layout is this file's own, because PTX says that it is
//! opaque; only the pending count of a state can be asked for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::exec::access::address_space;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{LaneFault, Trap};
use crate::exec::lane_mask::lanes;
use crate::exec::operations::locate::AccessParts;
use crate::exec::operations::peers::{peer, set_out};
use crate::exec::registers::Registers;
use crate::fault::{FaultKind, WaitedBarrier};
use crate::program::op::{Address, Arrival, Mbarrier, MbarrierOp, MemorySpace};

/// A barrier, from the lowest bit: arrivals that the phase waits for, arrivals of each phase, the
/// phase's parity, bytes that the phase waits for, and a mark that unset memory does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Barrier {
    pending: u32,
    count: u32,
    odd: bool,
    /// Negative if bytes have come that nobody has expected yet.
    bytes: i32,
}

const COUNT_BITS: u32 = 20;
const BYTES_BITS: u32 = 21;
const MARK: u64 = 0b01 << 62;

impl Mbarrier {
    /// The most arrivals, and the most bytes, of a phase.
    pub(crate) const MAX_COUNT: u32 = (1 << COUNT_BITS) - 1;
}

impl Barrier {
    fn new(count: u32) -> Barrier {
        Barrier {
            pending: count,
            count,
            odd: false,
            bytes: 0,
        }
    }

    /// `None` if the word holds no barrier.
    fn from_word(word: u64) -> Option<Barrier> {
        let count = (word >> COUNT_BITS) as u32 & Mbarrier::MAX_COUNT;
        let bytes = (word >> (2 * COUNT_BITS + 1)) as u32 & ((1 << BYTES_BITS) - 1);
        (word >> 62 << 62 == MARK).then_some(Barrier {
            pending: word as u32 & Mbarrier::MAX_COUNT,
            count,
            odd: word >> (2 * COUNT_BITS) & 1 != 0,
            bytes: (bytes << (32 - BYTES_BITS)) as i32 >> (32 - BYTES_BITS),
        })
    }

    fn word(self) -> u64 {
        let bytes = self.bytes as u32 & ((1 << BYTES_BITS) - 1);
        MARK | u64::from(bytes) << (2 * COUNT_BITS + 1)
            | u64::from(self.odd) << (2 * COUNT_BITS)
            | u64::from(self.count) << COUNT_BITS
            | u64::from(self.pending)
    }

    /// Ends the phase if nothing is left to wait for. True if it does.
    fn ends_phase(&mut self) -> bool {
        let ends = self.pending == 0 && self.bytes == 0;
        if ends {
            self.odd = !self.odd;
            self.pending = self.count;
        }
        ends
    }

    fn add_bytes(&mut self, bytes: i64) -> Result<(), String> {
        let sum = i64::from(self.bytes) + bytes;
        if sum.unsigned_abs() > u64::from(Mbarrier::MAX_COUNT) {
            return Err(format!(
                "{sum} bytes are waited for, at most {}",
                Mbarrier::MAX_COUNT
            ));
        }
        self.bytes = sum as i32;
        Ok(())
    }

    fn arrive(&mut self, count: u32, arrival: Arrival) -> Result<(), String> {
        if count == 0 || count > self.pending {
            return Err(format!(
                "{count} arrivals, but the phase waits for {} more",
                self.pending
            ));
        }
        if arrival.is_never_last && count == self.pending && self.bytes == 0 {
            return Err("the arrival ends the phase, in spite of .noComplete".to_owned());
        }
        self.pending -= count;
        if arrival.drops {
            self.count = self.count.saturating_sub(count);
        }
        Ok(())
    }
}

/// Runs an operation on barriers; `again`, if it is counted already.
pub(crate) fn execute(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    mbarrier: &Mbarrier,
    again: bool,
) -> Result<(), Trap> {
    let Mbarrier {
        op,
        access,
        address,
        d,
        a,
    } = *mbarrier;
    if let MbarrierOp::CopiesArrive { .. } = op
        && worker.checks.enabled
    {
        // The copies end here: whoever waits for the phase may use their targets.
        worker.checks.wait_for_copies(warp, &worker.memory, None)?;
    }
    let by_state = matches!(op, MbarrierOp::Wait { parity: false, .. });
    let a = warp.registers.read_either(a, by_state);
    let mut states = [0u64; 32];
    let mut over = 0;
    let mut parts = match again {
        false => AccessParts::new(warp.mask),
        true => AccessParts::uncounted(warp.mask),
    };
    while let Some(part) = parts.next(warp, worker, &address, &access, op.access_kind())? {
        let first = part.mask.trailing_zeros();
        if part.space != MemorySpace::Shared {
            return Err(bad(first, "it is not in shared memory".to_owned()));
        }
        let deltas = worker.patterns[access.site as usize].deltas.0;
        // SAFETY: `AccessParts::next` found the word of each lane in bounds and aligned, and shared
        // memory is this thread's.
        let word = |lane: usize| unsafe {
            AtomicU64::from_ptr(part.place(deltas[lane], lane) as *mut u64)
        };
        let works_remotely = matches!(
            op,
            MbarrierOp::Arrive(_) | MbarrierOp::ExpectBytes | MbarrierOp::CompleteBytes
        );
        if part.peer.is_some() && !works_remotely {
            return Err(bad(first, IN_ANOTHER_BLOCK.to_owned()));
        }
        let is_barrier = |&lane: &usize| Barrier::from_word(word(lane).load(Relaxed)).is_some();
        let address = |lane: usize| part.first.wrapping_add_signed(i64::from(deltas[lane]));
        if op != MbarrierOp::Init {
            if let Some(lane) = lanes(part.mask).find(|lane| !is_barrier(lane)) {
                return Err(bad(lane as u32, NO_BARRIER.to_owned()));
            }
        } else if worker.checks.enabled {
            let clocks = &worker.checks.shared.clocks;
            let goes_on = |lane: &usize| is_barrier(lane) && clocks.has_mbarrier(address(*lane));
            if let Some(lane) = lanes(part.mask).find(goes_on) {
                return Err(bad(lane as u32, GOES_ON.to_owned()));
            }
        }
        if worker.checks.enabled && part.peer.is_none() {
            let is_test = matches!(op, MbarrierOp::Wait { .. });
            let (checks, checked) = worker.checked(&access, &part);
            match op {
                MbarrierOp::Init => checks.initialise(warp, checked, &a)?,
                _ => checks.synchronise(warp, checked, !is_test)?,
            }
        }
        for lane in lanes(part.mask) {
            let at = address(lane);
            let clocks = &worker.checks.shared.clocks;
            if worker.checks.enabled
                && part.peer.is_none()
                && op != MbarrierOp::Init
                && clocks.may_precede_initialisation(warp.number, at)
            {
                return Err(bad(lane as u32, UNORDERED.to_owned()));
            }
            let old = word(lane).load(Relaxed);
            let mut barrier = Barrier::from_word(old).unwrap_or(Barrier::new(0));
            states[lane] = old;
            let value = a[lane];
            let result = match op {
                MbarrierOp::Init => initialised(value).map(|new| barrier = new),
                MbarrierOp::Inval => Ok(()),
                MbarrierOp::Arrive(arrival) if arrival.expects_bytes => barrier
                    .add_bytes(value as i64)
                    .and_then(|()| barrier.arrive(1, arrival)),
                MbarrierOp::Arrive(arrival) => barrier.arrive(value as u32, arrival),
                MbarrierOp::ExpectBytes => barrier.add_bytes(value as i64),
                MbarrierOp::CompleteBytes => barrier.add_bytes(-(value as i64)),
                MbarrierOp::CopiesArrive { counted } => match counted {
                    true => barrier.arrive(1, ARRIVAL),
                    // The count is one higher until the copies end, which they have.
                    false => Ok(()),
                },
                MbarrierOp::Wait { parity, .. } => {
                    // A phase that is not the present one is over: no thread is two phases behind.
                    let odd = match parity {
                        true => value & 1 != 0,
                        false => Barrier::from_word(value)
                            .map(|state| state.odd)
                            .ok_or_else(|| bad(lane as u32, NO_STATE.to_owned()))?,
                    };
                    over |= u32::from(odd != barrier.odd) << lane;
                    Ok(())
                }
            };
            result.map_err(|text| bad(lane as u32, text))?;
            let expected = match op {
                MbarrierOp::Arrive(arrival) if arrival.expects_bytes => value,
                MbarrierOp::ExpectBytes => value,
                _ => 0,
            };
            let releases = match op {
                MbarrierOp::Arrive(arrival) => arrival.releases,
                MbarrierOp::CopiesArrive { .. } => true,
                _ => false,
            };
            let ends = match op {
                MbarrierOp::Arrive(_)
                | MbarrierOp::ExpectBytes
                | MbarrierOp::CompleteBytes
                | MbarrierOp::CopiesArrive { .. } => barrier.ends_phase(),
                _ => false,
            };
            let new = match op {
                MbarrierOp::Inval => 0,
                _ => barrier.word(),
            };
            if new != old {
                word(lane).store(new, Relaxed);
                worker.changed = true;
            }
            if worker.checks.enabled
                && let Some(rank) = part.peer
            {
                let arrived = Arrived {
                    expected,
                    releases,
                    ends,
                };
                arrive_at_peer(warp, worker, lane as u32, (rank, at), arrived)?;
            } else if worker.checks.enabled {
                let clocks = &mut worker.checks.shared.clocks;
                if expected > 0 {
                    clocks.expect_on_mbarrier(at, expected);
                }
                match op {
                    MbarrierOp::Init => clocks.start_mbarrier(warp.number, at),
                    // As behind a flag, a fence behind a relaxed wait is not asked for.
                    MbarrierOp::Wait { .. } if over >> lane & 1 != 0 => {
                        clocks.pass_mbarrier(warp.number, at);
                    }
                    // A test of a phase that is not over orders nothing.
                    MbarrierOp::Wait { .. } => {}
                    MbarrierOp::Inval => clocks.end_mbarrier(at),
                    _ => clocks.arrive_at_mbarrier(warp.number, at, releases, ends),
                }
                if op == MbarrierOp::Inval {
                    (at..at + 8).for_each(|byte| worker.checks.shared.unwrite(byte));
                }
            }
        }
    }
    if let MbarrierOp::Wait { p, .. } = op {
        warp.registers.write_predicate(p, warp.mask, over);
    }
    if let Some(d) = d {
        warp.registers.write(d, warp.mask, &states);
    }
    Ok(())
}

/// The address in shared memory of the barrier that a lane names.
pub(crate) fn address(registers: &Registers, op: &Mbarrier, lane: u32) -> u64 {
    let Address {
        space,
        base,
        wide,
        offset,
    } = op.address;
    let base = registers.read_either(base, wide)[lane as usize];
    let window = match space {
        MemorySpace::Generic => address_space::window(MemorySpace::Shared),
        _ => 0,
    };
    base.wrapping_add_signed(offset.into()).wrapping_sub(window)
}

/// The barriers at these addresses, for which these warps wait.
pub(crate) fn waited_for(worker: &HostThread<'_>, waits: &[(u32, u64)]) -> Vec<WaitedBarrier> {
    let (checks, memory) = (&worker.checks, &worker.memory);
    let mut barriers: Vec<(u64, WaitedBarrier)> = Vec::new();
    for &(warp, at) in waits {
        if let Some((_, known)) = barriers.iter_mut().find(|(known, _)| *known == at) {
            known.warps.push(warp);
            continue;
        }
        let bytes = memory.shared.as_slice().get(at as usize..);
        let word = bytes
            .and_then(<[u8]>::first_chunk)
            .map(|bytes| u64::from_le_bytes(*bytes));
        let Some(barrier) = word.and_then(Barrier::from_word) else {
            continue;
        };
        let name = match memory.kernel.shared_array(at) {
            Some((name, _, Some(8))) => name.to_owned(),
            Some((name, start, _)) => format!("{name}[{}]", (at - start) / 8),
            None => format!("at {at:#x}"),
        };
        barriers.push((
            at,
            WaitedBarrier {
                name,
                arrived: barrier.count - barrier.pending,
                of: barrier.count,
                missing_bytes: barrier.bytes.into(),
                expected_bytes: checks
                    .enabled
                    .then(|| checks.shared.clocks.expected_on_mbarrier(at)),
                parity: barrier.odd.into(),
                warps: vec![warp],
            },
        ));
    }
    barriers.into_iter().map(|(_, barrier)| barrier).collect()
}

/// An operation on a barrier, as the checks must know it.
struct Arrived {
    /// More bytes that the phase expects.
    expected: u64,
    releases: bool,
    /// It ends the phase.
    ends: bool,
}

/// A warp arrives at a barrier of another block of the cluster.
fn arrive_at_peer(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    lane: u32,
    (rank, at): (usize, u64),
    arrived: Arrived,
) -> Result<(), Trap> {
    let Arrived {
        expected,
        releases,
        ends,
    } = arrived;
    let mut visitor = set_out(warp, worker, lane, releases);
    visitor.is_relaxed = !releases;
    let (number, pc) = (warp.number, warp.pc);
    let clocks = &mut peer(&mut worker.cluster, rank, warp.mask)?.checks.clocks;
    if expected > 0 {
        clocks.expect_on_mbarrier(at, expected);
    }
    let engine = visitor.engine();
    let knowledge = match clocks.receive(&visitor, engine, pc) {
        None => {
            clocks.complete_on_mbarrier(at, None, ends);
            clocks.meet(&visitor)
        }
        Some((place, _)) => {
            if clocks.may_precede_initialisation(place, at) {
                return Err(bad(lane, UNORDERED.to_owned()));
            }
            clocks.arrive_at_mbarrier(place, at, releases, ends);
            clocks.send_off(place)
        }
    };
    worker.checks.shared.clocks.come_back(number, &knowledge);
    Ok(())
}

/// Checks that a copy may complete bytes on the barrier at `at` of shared memory.
pub(crate) fn check(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    at: u64,
    lane: u32,
) -> Result<(), Trap> {
    find(warp, worker, at, lane)?;
    if worker.checks.enabled {
        let memory = &worker.memory;
        worker.checks.synchronise_word(warp, memory, at, lane)?;
    }
    Ok(())
}

/// Checks that there is a barrier at `at` of shared memory.
pub(crate) fn find(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    at: u64,
    lane: u32,
) -> Result<(), Trap> {
    let memory = &worker.memory;
    let place = (at, BARRIER_BYTES);
    let access = || memory.bad_access(warp, MemorySpace::Shared, true, place, None);
    let end = at.checked_add(BARRIER_BYTES);
    if end.is_none_or(|end| end > memory.shared.len() as u64) {
        return Err(LaneFault::new(FaultKind::OutOfBounds(access()), lane));
    }
    if !at.is_multiple_of(BARRIER_BYTES) {
        return Err(LaneFault::new(FaultKind::Misaligned(access()), lane));
    }
    match Barrier::from_word(word_at(worker, at).load(Relaxed)) {
        Some(_) => Ok(()),
        None => Err(bad(lane, NO_BARRIER.to_owned())),
    }
}

/// The fault of a barrier whose initialisation may come later.
pub(crate) fn unordered(lane: u32) -> Trap {
    bad(lane, UNORDERED.to_owned())
}

/// A copy has completed so many bytes on the barrier at `at`, which [`check`] has looked at. True
/// if that ends its phase.
pub(crate) fn complete_bytes(
    worker: &mut HostThread<'_>,
    at: u64,
    bytes: u64,
    lane: u32,
) -> Result<bool, Trap> {
    let word = word_at(worker, at);
    let Some(mut barrier) = Barrier::from_word(word.load(Relaxed)) else {
        // The copy itself has overwritten it.
        return Err(bad(lane, NO_BARRIER.to_owned()));
    };
    let added = barrier.add_bytes(-(bytes as i64));
    added.map_err(|text| bad(lane, text))?;
    let ends = barrier.ends_phase();
    word.store(barrier.word(), Relaxed);
    Ok(ends)
}

fn word_at<'a>(worker: &'a mut HostThread<'_>, at: u64) -> &'a AtomicU64 {
    let place = worker.memory.shared.pointer() as u64 + at;
    // SAFETY: `check` found the word within shared memory, and aligned.
    unsafe { AtomicU64::from_ptr(place as *mut u64) }
}

const BARRIER_BYTES: u64 = 8;

const NO_BARRIER: &str =
    "it was not initialised, was invalidated, or something else was stored there";

const GOES_ON: &str = "it was initialised before, and mbarrier.inval has not ended it";

const UNORDERED: &str = "another warp initialises it, and nothing orders that before this";

const IN_ANOTHER_BLOCK: &str =
    "it is in another block of the cluster, where it takes arrivals and bytes only";

const NO_STATE: &str = "the value is no state of a barrier";

const ARRIVAL: Arrival = Arrival {
    drops: false,
    is_never_last: false,
    expects_bytes: false,
    releases: true,
};

fn initialised(count: u64) -> Result<Barrier, String> {
    match count as u32 {
        count @ 1..=Mbarrier::MAX_COUNT => Ok(Barrier::new(count)),
        count => Err(format!(
            "a count of {count}; it goes from 1 to {}",
            Mbarrier::MAX_COUNT
        )),
    }
}

fn bad(lane: u32, what: String) -> Trap {
    LaneFault::new(FaultKind::BadMbarrier { what }, lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_every_barrier() {
        for pending in [0, 1, 77, Mbarrier::MAX_COUNT] {
            for count in [0, 1, 500, Mbarrier::MAX_COUNT] {
                for bytes in [
                    0,
                    1,
                    -1,
                    4096,
                    Mbarrier::MAX_COUNT as i32,
                    -(Mbarrier::MAX_COUNT as i32),
                ] {
                    for odd in [false, true] {
                        let barrier = Barrier {
                            pending,
                            count,
                            odd,
                            bytes,
                        };
                        assert_eq!(Barrier::from_word(barrier.word()), Some(barrier));
                        assert_eq!(barrier.word() as u32 & Mbarrier::MAX_COUNT, pending);
                    }
                }
            }
        }
        // Unset shared memory, and zeros.
        assert_eq!([u64::MAX, 0].map(Barrier::from_word), [None, None]);
    }
}
