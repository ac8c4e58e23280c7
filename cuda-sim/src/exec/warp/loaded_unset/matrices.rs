//! Unset bytes of matrices. An unset element of A makes its row of D unset, one of B its column,
//! and nothing else: a tile may have rows that nobody has filled, whose sums nobody uses.
//!
//! Lane 4g + t has its places in fragments as [`MatrixProduct`] says.

use super::LoadedUnset;
use super::unset::Unset;
use crate::exec::access::lane_operands::lane_place;
use crate::exec::access::matrix_fragment::{exchanged, fragment, rows};
use crate::exec::checks::unwritten_bytes::{Lines, LoadedBytes, UnsetLoad};
use crate::exec::host_thread::HostThread;
use crate::exec::lane_mask::lanes;
use crate::exec::warp::{Step, Warp};
use crate::program::op::{
    LeftFactor, MatrixProduct, MatrixProduct64, MatrixRows, MemorySpace, R, Sums, WarpgroupProduct,
};

impl LoadedUnset {
    pub(super) fn product(&mut self, product: &MatrixProduct) {
        let MatrixProduct { d, a, b, c, .. } = product;
        let [left, right, sums] = product.registers();
        let rows = self.lines(&a[..left]);
        let columns = self.lines(&b[..right]);
        let is_half = product.sums == Sums::F16;
        self.multiply(&d[..sums], &c[..sums], is_half, &rows, &columns);
    }

    pub(super) fn product64(&mut self, product: &MatrixProduct64) {
        let MatrixProduct64 { d, a, b, c, .. } = product;
        let [left, sums] = product.registers();
        let rows = self.lines(&a[..left]);
        let columns = self.lines(&[*b]);
        self.multiply(&d[..sums], &c[..sums], false, &rows, &columns);
    }

    /// The rows of a fragment of A, or the columns of one of B, which are 8 or 16. Registers of A
    /// have rows from 0 and from 8 on in turn.
    fn lines<const N: usize>(&self, fragments: &[R]) -> Lines<N> {
        let mut lines = [None; N];
        for (i, r) in fragments.iter().enumerate() {
            let Some(unset) = self.of(*r) else { continue };
            for lane in lanes(unset.lanes()) {
                lines[8 * i % N + lane / 4].get_or_insert(unset.origins[lane]);
            }
        }
        lines
    }

    /// Eight columns of D, whose sums have 16 bits if it `is_half`.
    fn multiply(&mut self, d: &[R], c: &[R], is_half: bool, rows: &Lines<16>, columns: &Lines<8>) {
        let unset = |(i, c): (usize, &R)| {
            let mut new = Unset::NONE;
            new.add_all(u32::MAX, self.of(*c));
            let parts = match is_half {
                true => vec![(i, 0, 0..2), (i, 1, 2..4)],
                false => vec![(i / 2, i % 2, 0..8)],
            };
            for (half, odd, bytes) in parts {
                let load = |lane: usize| rows[8 * half + lane / 4].or(columns[lane % 4 * 2 + odd]);
                let loads: [Option<UnsetLoad>; 32] = std::array::from_fn(load);
                let lanes = (0..32).filter(|lane| loads[*lane].is_some());
                let lanes = lanes.fold(0, |all, lane| all | 1 << lane);
                if lanes != 0 {
                    let origins = std::array::from_fn(|lane| loads[lane].unwrap_or(NOTHING));
                    bytes.for_each(|byte| new.add(byte, lanes, &origins));
                }
            }
            new.computed()
        };
        let concerned = |r: &R| self.of(*r).is_some();
        if !c.iter().chain(d).any(concerned) && !rows.iter().chain(columns).any(Option::is_some) {
            return;
        }
        let results: Vec<Unset> = c.iter().enumerate().map(unset).collect();
        for (d, new) in d.iter().zip(results) {
            self.set(*d, u32::MAX, &new);
        }
    }
}

impl Warp {
    /// Behind a product of its warpgroup: `rows` are those of the warp in an A of shared memory,
    /// `columns` those of B.
    pub(crate) fn follow_unset_product(
        &mut self,
        product: &WarpgroupProduct,
        accumulators: &[R],
        rows: &Lines<16>,
        columns: &[Option<UnsetLoad>],
    ) {
        let is_concerned = rows.iter().chain(columns).any(Option::is_some);
        if self.loaded_unset.is_none() && !is_concerned {
            return;
        }
        let unset = self.loaded_unset.get_or_insert_default();
        let rows = match &product.a {
            LeftFactor::Registers(a) => &unset.lines(a),
            LeftFactor::Shared(_) => rows,
        };
        let is_half = product.sums == Sums::F16;
        let eights = accumulators.chunks(if is_half { 2 } else { 4 });
        for (d, columns) in eights.zip(columns.as_chunks::<8>().0) {
            unset.multiply(d, d, is_half, rows, columns);
        }
    }

    /// Notes the unset bytes that an `ldmatrix` has got.
    #[cold]
    pub(in crate::exec::warp) fn note_unset_rows(
        &mut self,
        worker: &HostThread<'_>,
        step: Step<'_>,
        matrices: &MatrixRows,
        loaded: &LoadedBytes,
    ) {
        let unset = self.loaded_unset.get_or_insert_default();
        let marked: [[u32; 4]; 32] = std::array::from_fn(|lane| marks(loaded[lane].unset));
        let each = marked.as_chunks::<8>().0.iter().zip(loaded.chunks(8));
        for ((marked, places), d) in each.zip(matrices.registers()) {
            if places.iter().all(|place| place.unset == 0) {
                continue;
            }
            let words = match matrices.transposed {
                true => fragment(&exchanged(marked)),
                false => fragment(marked),
            };
            let origins = std::array::from_fn(|lane| {
                let row = match matrices.transposed {
                    // The low half comes from the first of two rows.
                    true => lane % 4 * 2 + usize::from(words[lane] & 0xffff == 0),
                    false => lane / 4,
                };
                let place = &places[row];
                let at = place.at + u64::from(place.unset.trailing_zeros().min(15));
                let copied = worker.checks.copied_from(self.number, place.space, at, 0);
                copied.unwrap_or(UnsetLoad {
                    pc: step.pc,
                    space: place.space,
                    at: place.at,
                    bytes: 16,
                    computed: false,
                })
            });
            let mut new = Unset::NONE;
            for byte in 0..4 {
                let is_unset = |lane: &usize| words[*lane] >> (8 * byte) & 1 != 0;
                let lanes = (0..32)
                    .filter(is_unset)
                    .fold(0, |all, lane| all | 1 << lane);
                new.add(byte, lanes, &origins);
            }
            unset.set(*d, step.mask, &new);
        }
    }

    /// Behind an `stmatrix`: the unset bytes that it has stored are unset in memory.
    pub(in crate::exec::warp) fn store_unset_rows(
        &mut self,
        worker: &mut HostThread<'_>,
        step: Step<'_>,
        matrices: &MatrixRows,
    ) {
        let Some(unset) = self.loaded_unset.take() else {
            return;
        };
        let mut warp = self.active(step.kernel, step.mask, step.pc);
        for (i, r) in matrices.registers().iter().enumerate() {
            let Some(stored) = unset.of(*r) else { continue };
            let words: [u32; 32] = std::array::from_fn(|lane| {
                let is_unset = |byte: u32| stored.bytes[byte as usize] >> lane & 1;
                (0..4).fold(0, |all, byte| all | is_unset(byte) << (8 * byte))
            });
            let marked = match matrices.transposed {
                true => exchanged(&rows(&words)),
                false => rows(&words),
            };
            for (row, marked) in marked.iter().enumerate() {
                let lane = 8 * i + row;
                let (_, at) = lane_place(warp.registers, &matrices.address, lane);
                for byte in (0..16).filter(|byte| marked[byte / 4] >> (8 * (byte % 4)) & 1 != 0) {
                    let load = stored.origins[match matrices.transposed {
                        true => 4 * (byte / 2) + row / 2,
                        false => 4 * row + byte / 4,
                    }];
                    let (space, at) = (MemorySpace::Shared, at + byte as u64);
                    worker.checks.unwrite_copy(&mut warp, space, at, lane, load);
                }
            }
        }
        self.loaded_unset = Some(unset);
    }
}

/// The place of a lane that has nothing unset.
const NOTHING: UnsetLoad = Unset::NONE.origins[0];

/// A bit for each of the bytes of a row, in the place of that byte's lowest.
fn marks(unset: u32) -> [u32; 4] {
    std::array::from_fn(|word| {
        let bit = |byte: u32| unset >> (4 * word as u32 + byte) & 1;
        (0..4).fold(0, |all, byte| all | bit(byte) << (8 * byte))
    })
}
