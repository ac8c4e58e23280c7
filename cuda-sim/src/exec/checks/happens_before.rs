//! Race rules of two accesses of one block: whether the vector clocks order an access behind those
//! on record.

use crate::exec::checks::vector_clock::BlockClocks;
use crate::exec::lane_mask::lanes;

/// An instruction that a record has no room for.
pub(crate) const NO_PC: u32 = 0xffff;

/// Who makes an access.
#[derive(Clone, Copy)]
pub(crate) struct Accessor {
    pub warp: usize,
    pub pc: u32,
    /// Atomic or volatile: it does not race with others that are.
    pub sync: bool,
}

/// Readers in a record.
#[derive(Clone, Copy)]
pub(crate) struct Reads {
    /// When the first of them was.
    pub time: u32,
    /// One of the threads that read.
    pub thread: u32,
    /// There were several.
    pub several: bool,
    /// Their warps, a bit each.
    pub by: u32,
}

/// Number of a thread in its block.
pub(crate) fn thread(warp: usize, lane: u32) -> u32 {
    warp as u32 * 32 + lane
}

/// The first of the lanes in `sharers` that is not ordered behind what `writer` did at `time`.
pub(crate) fn unaware_of_write(
    order: &BlockClocks,
    access: Accessor,
    sharers: u32,
    writer: u32,
    time: u32,
) -> Option<u32> {
    if order.has_seen(access.warp, writer as usize / 32, time) {
        return None;
    }
    let unaware = |&lane: &usize| {
        let lane = lane as u32;
        thread(access.warp, lane) != writer
            && !order.thread_has_seen(access.warp, lane, writer, time)
    };
    lanes(sharers).find(unaware).map(|lane| lane as u32)
}

/// The first of the lanes in `sharers` that is not ordered behind the reads, and the warp of a read
/// for which that is so.
pub(crate) fn unaware_of_reads(
    order: &BlockClocks,
    access: Accessor,
    sharers: u32,
    reads: Reads,
) -> Option<(u32, usize)> {
    let (warp, me) = (access.warp, 1u32 << access.warp);
    let mut others = lanes(reads.by & !me);
    if let Some(other) = others.find(|&other| !order.has_seen(warp, other, reads.time)) {
        return Some((sharers.trailing_zeros(), other));
    }
    if reads.by & me == 0 || order.has_seen(warp, warp, reads.time) {
        return None;
    }
    let races = |&lane: &usize| {
        let (lane, reader) = (lane as u32, reads.thread);
        if reader as usize / 32 == warp && reader != thread(warp, lane) {
            return !order.thread_has_seen(warp, lane, reader, reads.time);
        }
        // Which other lane has read it is not known.
        reads.several && reads.by == me && !order.has_met_any(warp, lane, reads.time)
    };
    lanes(sharers).find(races).map(|lane| (lane as u32, warp))
}

/// True if reads since `time` by the warps in `by` are not all ordered before what `warp` does.
pub(crate) fn are_open(order: &BlockClocks, warp: usize, time: u32, by: u32) -> bool {
    lanes(by).any(|other| !order.has_seen(warp, other, time))
}
