//! The bytes of a bulk copy on their way: between device memory, a row at a time, and shared
//! memory, where a swizzle may permute their pieces.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::exec::access::word::Word;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::checks::async_proxy::AsyncOperation;
use crate::exec::checks::ranges::LaneRange;
use crate::exec::checks::unwritten_bytes::UnsetLoad;
use crate::exec::host_simd::copy_words;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::Trap;
use crate::exec::operations::bulk_copy::LaneCopy;
use crate::exec::operations::bulk_copy::rows::{MAX_ROW, Moved, PIECE, Row};
use crate::program::op::MemorySpace;
use crate::tensor_map::{Swizzle, TensorMap};

/// The bytes of a row.
#[repr(align(16))]
pub(super) struct RowBytes(pub [u8; MAX_ROW]);

impl RowBytes {
    pub(super) fn new() -> RowBytes {
        RowBytes([0; MAX_ROW])
    }
}

/// Checks the reads of device memory. True if all of it was written.
pub(super) fn check_reads(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    moved: &Moved,
    lane: u32,
) -> Result<bool, Trap> {
    let mut all = true;
    if worker.checks.enabled {
        for row in moved.rows.iter().filter(|row| !row.inside.is_empty()) {
            let range = lane_range(row, lane);
            all &= worker.checks.read_range(warp, &worker.memory, range)?;
        }
    }
    Ok(all)
}

/// Copies device memory to shared memory. What lies outside of the tensor is filled. If some bytes
/// `have_no_value`, because nobody wrote them, their copies have none.
pub(super) fn load(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &LaneCopy<'_>,
    have_no_value: bool,
) {
    let mut bytes = RowBytes::new();
    let swizzle = copy.moved.swizzle();
    let map = copy.moved.map.as_ref();
    let converted = map.map(|map| map.element).filter(|e| e.converts());
    for row in &copy.moved.rows {
        let inside = row.inside.start as usize..row.inside.end as usize;
        if let Some(map) = map.filter(|_| !row.is_whole()) {
            fill(map, &mut bytes.0[..row.bytes as usize]);
        }
        read_device(row.device, &mut bytes, inside.clone());
        if let Some(element) = converted {
            let (words, _) = bytes.0[inside].as_chunks_mut::<4>();
            for word in words {
                *word = element.converted(u32::from_le_bytes(*word)).to_le_bytes();
            }
        }
        let shared = worker.memory.shared.as_mut_slice();
        let start = copy.shared + row.start;
        scatter(swizzle, shared, start, &bytes.0[..row.bytes as usize]);
        if have_no_value {
            unwrite_copies(warp, worker, copy, row);
        }
    }
}

/// Copies shared memory to device memory, but for what lies outside of the tensor.
pub(super) fn store(
    warp: &ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &LaneCopy<'_>,
    writing: Option<&AsyncOperation>,
) -> Result<(), Trap> {
    let mut bytes = RowBytes::new();
    for row in copy.moved.rows.iter().filter(|row| !row.inside.is_empty()) {
        gather(worker, copy, row, &mut bytes);
        let inside = &bytes.0[row.inside.start as usize..row.inside.end as usize];
        if let Some(writing) = writing {
            let mut same = |word: u64| is_kept(word, row.device, inside);
            let range = lane_range(row, copy.lane);
            let memory = &worker.memory;
            let checks = &mut worker.checks;
            checks.write_range(warp, memory, writing, range, &mut same)?;
        }
        write_device(row.device, inside);
    }
    Ok(())
}

/// Writes bytes to shared memory.
pub(super) fn put(worker: &mut HostThread<'_>, shared: u64, bytes: &[u8]) {
    let place = shared as usize..shared as usize + bytes.len();
    worker.memory.shared.as_mut_slice()[place].copy_from_slice(bytes);
}

/// Calls `one` with each stretch of shared memory that a store reads, in whole words: those that
/// lie partly outside of the tensor are left out.
pub(super) fn each_read_stretch<E>(
    moved: &Moved,
    shared: u64,
    mut one: impl FnMut(Range<u64>) -> Result<(), E>,
) -> Result<(), E> {
    if moved.rows.iter().all(Row::is_whole) {
        return moved.each_stretch(shared, one);
    }
    for row in &moved.rows {
        let start = shared + row.start + row.inside.start;
        for (at, length) in pieces(moved.swizzle(), start, row.length()) {
            let words = at.next_multiple_of(4)..(at + length) / 4 * 4;
            if !words.is_empty() {
                one(words)?;
            }
        }
    }
    Ok(())
}

/// The bytes that lie at `start` without a swizzle: the address and the length of each piece that
/// stays together.
fn pieces(swizzle: Swizzle, start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = start + done;
        let left = bytes - done;
        let length = match swizzle {
            Swizzle::None => left,
            _ => left.min(PIECE as u64 - at % PIECE as u64),
        };
        done += length;
        (length > 0).then(|| (swizzle.place(at), length))
    })
}

/// Writes a row to shared memory.
fn scatter(swizzle: Swizzle, shared: &mut [u8], start: u64, row: &[u8]) {
    if swizzle == Swizzle::None {
        shared[start as usize..start as usize + row.len()].copy_from_slice(row);
        return;
    }
    let (row, _) = row.as_chunks::<PIECE>();
    for (at, piece) in (start..).step_by(PIECE).zip(row) {
        let at = swizzle.place(at) as usize;
        shared[at..at + PIECE].copy_from_slice(piece);
    }
}

/// Reads a row from shared memory.
pub(super) fn gather(
    worker: &HostThread<'_>,
    copy: &LaneCopy<'_>,
    row: &Row,
    bytes: &mut RowBytes,
) {
    let (shared, swizzle) = (worker.memory.shared.as_slice(), copy.moved.swizzle());
    let start = copy.shared + row.start;
    let row = &mut bytes.0[..row.bytes as usize];
    if swizzle == Swizzle::None {
        row.copy_from_slice(&shared[start as usize..start as usize + row.len()]);
        return;
    }
    let (row, _) = row.as_chunks_mut::<PIECE>();
    for (at, piece) in (start..).step_by(PIECE).zip(row) {
        let at = swizzle.place(at) as usize;
        piece.copy_from_slice(&shared[at..at + PIECE]);
    }
}

pub(super) fn lane_range(row: &Row, lane: u32) -> LaneRange {
    LaneRange {
        lane,
        at: row.device,
        bytes: row.length(),
    }
}

/// Fills a row with elements that lie outside of a tensor.
fn fill(map: &TensorMap, row: &mut [u8]) {
    let element = map.element.nan().filter(|_| map.fills_nan).unwrap_or(0);
    let bytes = map.element.bytes() as usize;
    for place in row.chunks_exact_mut(bytes) {
        place.copy_from_slice(&element.to_le_bytes()[..bytes]);
    }
}

/// Reads device memory from `at` on into a part of a row.
fn read_device(at: u64, row: &mut RowBytes, part: Range<usize>) {
    let bytes = &mut row.0[part];
    // SAFETY: any bytes are initialised words, and are not read as such.
    let (before, words, behind) = unsafe { bytes.align_to_mut::<MaybeUninit<u32>>() };
    let aligned = before.is_empty() && at.is_multiple_of(4);
    if aligned {
        // SAFETY: the copy's bytes were found in bounds; words are aligned on both sides.
        unsafe { copy_words(at, words) };
        let from = at + 4 * words.len() as u64;
        read_bytes(from, behind);
    } else {
        read_bytes(at, bytes);
    }
}

fn read_bytes(at: u64, bytes: &mut [u8]) {
    for (at, byte) in (at..).zip(bytes) {
        // SAFETY: the copy's bytes were found in bounds.
        *byte = unsafe { u8::load(at) };
    }
}

/// Writes device memory from `at` on.
fn write_device(at: u64, bytes: &[u8]) {
    if !at.is_multiple_of(8) {
        write_bytes(at, bytes);
        return;
    }
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in (at..).step_by(8).zip(words) {
        // SAFETY: the copy's bytes were found in bounds, and the first of them is aligned.
        unsafe { u64::from_le_bytes(*word).store(at) };
    }
    write_bytes(at + 8 * words.len() as u64, rest);
}

fn write_bytes(at: u64, bytes: &[u8]) {
    for (at, &byte) in (at..).zip(bytes) {
        // SAFETY: the copy's bytes were found in bounds.
        unsafe { byte.store(at) };
    }
}

/// True if the word at an address of device memory keeps its value when `bytes` are written from
/// `at` on.
fn is_kept(word: u64, at: u64, bytes: &[u8]) -> bool {
    let end = at + bytes.len() as u64;
    (word.max(at)..end.min(word + 4)).all(|place| {
        // SAFETY: the copy's bytes were found in bounds.
        unsafe { u8::load(place) == bytes[(place - at) as usize] }
    })
}

/// Marks the copies of bytes that nobody wrote as not written.
fn unwrite_copies(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    copy: &LaneCopy<'_>,
    row: &Row,
) {
    let (space, lane) = (MemorySpace::Shared, copy.lane as usize);
    for (i, device) in row.inside.clone().zip(row.device..) {
        let bytes = &worker.checks.device.records.shadow.bytes;
        if bytes.is_written(device, 1) {
            continue;
        }
        let load = UnsetLoad {
            pc: warp.pc,
            space: MemorySpace::Global,
            at: row.device,
            bytes: row.length() as u32,
            computed: false,
        };
        let to = copy.moved.swizzle().place(copy.shared + row.start + i);
        worker.checks.unwrite_copy(warp, space, to, lane, load);
    }
}
