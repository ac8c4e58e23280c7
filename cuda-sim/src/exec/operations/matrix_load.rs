//! Loads of matrices from shared memory: `ldmatrix`.
//!
//! The lanes 8j to 8j + 7 read the rows of matrix j, 16 bytes each. Then each lane gets two elements of a row: lane 4g + t the
//! elements 2t and 2t + 1 of row g, or, transposed, of column g.

use crate::exec::access::part::AccessPart;
use crate::exec::access::word::Word;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{LaneFault, Trap};
use crate::exec::lane_mask::lanes;
use crate::exec::operations::locate::AccessParts;
use crate::fault::FaultKind;
use crate::program::op::{AccessKind, MatrixLoad, MemorySpace};

const ROW_BYTES: u64 = 16;

/// Runs a load for the lanes of `warp.mask`.
pub(crate) fn execute(
    warp: &mut ActiveWarp<'_>,
    worker: &mut HostThread<'_>,
    load: &MatrixLoad,
) -> Result<(), Trap> {
    let MatrixLoad {
        access,
        address,
        count,
        transposed,
        d,
    } = load;
    let mut rows = [[0u32; 4]; 32];
    let mut parts = AccessParts::new(load.readers(warp.mask));
    while let Some(part) = parts.next(warp, worker, address, access, AccessKind::Load)? {
        if part.space != MemorySpace::Shared {
            return Err(not_shared(warp, worker, &part));
        }
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
    for (matrix, d) in rows.chunks(8).zip(&d[..usize::from(*count)]) {
        let element =
            |row: usize, column: usize| matrix[row][column / 2] >> (16 * (column % 2)) & 0xffff;
        let out: [u32; 32] = std::array::from_fn(|lane| {
            let (g, t) = (lane / 4, lane % 4);
            match transposed {
                true => element(2 * t + 1, g) << 16 | element(2 * t, g),
                false => matrix[g][t],
            }
        });
        warp.registers.write(*d, warp.mask, &out);
    }
    Ok(())
}

/// The fault of the first lane of a part that is not in shared memory.
#[cold]
fn not_shared(warp: &ActiveWarp<'_>, worker: &HostThread<'_>, part: &AccessPart) -> Trap {
    let place = (part.first, ROW_BYTES);
    let bad = worker
        .memory
        .bad_access(warp, part.space, false, place, None);
    LaneFault::new(FaultKind::OutOfBounds(bad), part.mask.trailing_zeros())
}
