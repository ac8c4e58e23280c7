//! Matrices of 8 rows with 16 bytes each, between shared memory and fragments: `ldmatrix`,
//! `stmatrix`, `movmatrix`. And the alignment of the matrices of WMMA.

use crate::exec::access::lane_operands::lane_place;
use crate::exec::access::matrix_fragment::{exchanged, fragment, rows, words_of_rows};
use crate::exec::access::word::Word;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{LaneFault, Trap};
use crate::exec::lane_mask::lanes;
use crate::exec::operations::load_store;
use crate::exec::operations::locate::AccessParts;
use crate::exec::registers::Registers;
use crate::fault::FaultKind;
use crate::program::op::{AccessKind, Address, MatrixRows, MatrixStart, MemorySpace, Op, R};

const ROW_BYTES: u64 = 16;

/// Runs an operation on a matrix in memory for the lanes of `warp.mask`.
pub(crate) fn execute(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    op: &Op,
) -> Result<(), Trap> {
    match op {
        Op::MatrixLoad(matrices) => load(warp, worker, matrices),
        Op::MatrixStore(matrices) => store(warp, worker, matrices),
        Op::MatrixStart(start) => check(warp, worker, start),
        _ => unreachable!("accesses no matrix"),
    }
}

/// The alignment of a WMMA matrix. It begins at a multiple of the fragment's size (PTX ISA, "Matrix
/// Storage for WMMA"), and so does each line; but a multiple of 16 bytes is enough for the stride
/// (CUDA C++ Programming Guide, "Warp Matrix Functions").
fn check(warp: &ActiveWarp<'_>, worker: &HostThread<'_>, start: &MatrixStart) -> Result<(), Trap> {
    let fragment = u64::from(start.fragment);
    let strides: &[u32; 32] = warp.registers.read(start.stride);
    for lane in lanes(warp.mask) {
        let (space, at) = lane_place(warp.registers, &start.address, lane);
        let second = at.wrapping_add(u64::from(strides[lane]) * u64::from(start.element));
        for (at, bytes) in [(at, fragment), (second, fragment.min(ROW_BYTES))] {
            if !at.is_multiple_of(bytes) {
                let place = (at, bytes);
                let bad = worker
                    .memory
                    .bad_access(warp, space, start.write, place, None);
                return Err(LaneFault::new(FaultKind::Misaligned(bad), lane as u32));
            }
        }
    }
    Ok(())
}

/// Runs an `ldmatrix` for the lanes of `warp.mask`.
fn load(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    matrices: &MatrixRows,
) -> Result<(), Trap> {
    let MatrixRows {
        access, address, ..
    } = matrices;
    let mut rows = [[0u32; 4]; 32];
    let mut parts = AccessParts::new(matrices.row_lanes(warp.mask));
    while let Some(part) = parts.next(warp, worker, address, access, AccessKind::Load)? {
        if part.space != MemorySpace::Shared {
            let lane = part.mask.trailing_zeros();
            return Err(not_shared(
                warp,
                worker,
                (part.space, part.first),
                lane,
                false,
            ));
        }
        part.must_be_own("ldmatrix")?;
        if worker.checks.enabled {
            let (checks, checked) = worker.checked(access, &part);
            checks.load(warp, checked)?;
        }
        let deltas = &worker.patterns[access.site as usize].deltas.0;
        for lane in lanes(part.mask) {
            let place = part.place(deltas[lane], lane);
            // SAFETY: `AccessParts::next` found all lanes in bounds and aligned.
            rows[lane] = std::array::from_fn(|i| unsafe { u32::load(place + 4 * i as u64) });
        }
    }
    let transposed = matrices.transposed;
    for (rows, d) in rows.as_chunks::<8>().0.iter().zip(matrices.registers()) {
        let words = if transposed {
            fragment(&exchanged(rows))
        } else {
            fragment(rows)
        };
        warp.registers.write(*d, warp.mask, &words);
    }
    Ok(())
}

/// Runs an `stmatrix` for the lanes of `warp.mask`: a store of the rows, which are put together in
/// registers of their own.
fn store(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    matrices: &MatrixRows,
) -> Result<(), Trap> {
    let MatrixRows {
        access, address, ..
    } = *matrices;
    let mask = matrices.row_lanes(warp.mask);
    for lane in lanes(mask) {
        let (space, at) = lane_place(warp.registers, &address, lane);
        if space != MemorySpace::Shared {
            return Err(not_shared(warp, worker, (space, at), lane as u32, true));
        }
    }
    const WORDS: [R; 4] = [R(0), R(1), R(2), R(3)];
    const BASE: R = R(4);
    let mut own = std::mem::take(&mut worker.matrix_rows);
    own.reset(6, 6, 2);
    let words = words_of_rows(warp.registers, matrices);
    for (r, words) in WORDS.into_iter().zip(&words) {
        own.write(r, u32::MAX, words);
    }
    let base = warp.registers.read_either(address.base, address.wide);
    own.write_either(BASE, address.wide, u32::MAX, &base);
    let store = Op::Store {
        access,
        address: Address {
            base: BASE,
            ..address
        },
        a: WORDS,
    };
    let result = load_store::execute(
        &mut ActiveWarp {
            registers: &mut own,
            local: warp.local,
            local_written: warp.local_written,
            mask,
            ..*warp
        },
        worker,
        &store,
    );
    worker.matrix_rows = own;
    result
}

/// The fault of a lane whose row is not in shared memory.
#[cold]
fn not_shared(
    warp: &ActiveWarp<'_>,
    worker: &HostThread<'_>,
    (space, at): (MemorySpace, u64),
    lane: u32,
    write: bool,
) -> Trap {
    let place = (at, ROW_BYTES);
    let bad = worker.memory.bad_access(warp, space, write, place, None);
    LaneFault::new(FaultKind::OutOfBounds(bad), lane)
}

/// Runs a `movmatrix`.
pub(crate) fn transpose(registers: &mut Registers, mask: u32, d: R, a: R) {
    let rows = rows(registers.read(a));
    registers.write(d, mask, &fragment(&exchanged(&rows)));
}
