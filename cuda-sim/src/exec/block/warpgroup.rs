//! Products of warpgroups (`wgmma.mma_async`): four warps in a row come to one together.
//!
//! A warp that comes waits until the other three are at the same instruction, with all their
//! threads. Nothing that they did before is made visible by that: the tile of B must be visible to
//! each of them, and each one's rows of A to itself. Then the product is computed for all four.

use super::{Block, BlockFault, State, fault};
use crate::exec::checks::accesses::Checks;
use crate::exec::checks::async_proxy::AsyncOperation;
use crate::exec::checks::engines::Engine;
use crate::exec::checks::unwritten_bytes::{Lines, UnsetLoad};
use crate::exec::host_thread::HostThread;
use crate::exec::lane_fault::{OtherSide, WarpFault};
use crate::exec::lane_mask::FULL;
use crate::exec::operations::dispatch::Handlers;
use crate::exec::operations::mma::warpgroup::descriptor::{Descriptor, Major};
use crate::exec::operations::mma::warpgroup::{self, BeyondShared};
use crate::exec::operations::predicate::condition;
use crate::fault::FaultKind;
use crate::program::op::{MemorySpace, Op, WarpgroupProduct};
use crate::program::{Kernel, Source};
use crate::tensor_map::Swizzle;

/// Warps of a warpgroup.
const WARPS: usize = 4;

impl Block {
    /// A warp waits at the product at `pc`. Runs it if the other warps of its warpgroup are there.
    pub(super) fn come_to_product(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        handlers: &Handlers,
        w: usize,
        pc: u32,
    ) -> Result<(), BlockFault> {
        self.states[w] = State::AtProduct { pc };
        let first = w / WARPS * WARPS;
        let warps = self.states.len();
        if first + WARPS > warps {
            let what = format!(
                "the block has {warps} warps, and so only {} of the four",
                warps - first
            );
            return Err(out_of_step(w, pc, what, None));
        }
        for other in first..first + WARPS {
            match self.states[other] {
                State::AtProduct { pc: there } if there == pc => {}
                State::AtProduct { pc: there } => {
                    let what = format!("warp {other} is at another wgmma.mma_async");
                    return Err(out_of_step(w, pc, what, Some((there, other))));
                }
                State::Finished => return Err(ended(w, pc, other)),
                State::Ready | State::Waiting { .. } => return Ok(()),
            }
        }
        let Op::WarpgroupProduct(product) = &kernel.code[pc as usize].op else {
            unreachable!("a warp waits at an operation that is no product")
        };
        self.check_agreement(product, first, pc)?;
        self.multiply(kernel, worker, handlers, product, first, pc)?;
        for (warp, state) in self
            .warps
            .iter_mut()
            .zip(&mut self.states)
            .skip(first)
            .take(WARPS)
        {
            warp.pass_barrier();
            *state = State::Ready;
        }
        Ok(())
    }

    /// A warp has ended. A fault if another one of its warpgroup waits for it.
    pub(super) fn miss_product(&self, w: usize) -> Result<(), BlockFault> {
        let first = w / WARPS * WARPS;
        let group = (first..self.states.len()).take(WARPS);
        for other in group {
            if let State::AtProduct { pc } = self.states[other] {
                return Err(ended(other, pc, w));
            }
        }
        Ok(())
    }

    /// The fault of a warp that waits at a product for ever, if one does.
    pub(super) fn waits_for_warpgroup(&self) -> Option<BlockFault> {
        let (w, pc) = self.states.iter().enumerate().find_map(|(w, s)| match s {
            State::AtProduct { pc } => Some((w, *pc)),
            _ => None,
        })?;
        let first = w / WARPS * WARPS;
        let other = (first..self.states.len())
            .take(WARPS)
            .find(|&other| !matches!(self.states[other], State::AtProduct { .. }))?;
        let what = format!("warp {other} waits elsewhere, for ever");
        let there = self.warps[other].position().0;
        Some(out_of_step(w, pc, what, Some((there, other))))
    }

    /// All threads must have the same descriptors, and add or not alike.
    fn check_agreement(
        &self,
        product: &WarpgroupProduct,
        first: usize,
        pc: u32,
    ) -> Result<(), BlockFault> {
        let warps = || self.warps[first..first + WARPS].iter().enumerate();
        for (name, r, ..) in warpgroup::shared_operands(product) {
            let wanted = self.warps[first].registers.read::<u64>(r)[0];
            for (i, warp) in warps() {
                let bits = warp.registers.read::<u64>(r);
                if let Some(lane) = bits.iter().position(|bits| *bits != wanted) {
                    let what = format!(
                        "its threads have different descriptors of {name}: {wanted:#018x} in warp {first}, {:#018x} in \
                         lane {lane} of warp {}",
                        bits[lane],
                        first + i
                    );
                    return Err(out_of_step(first + i, pc, what, None));
                }
            }
        }
        let adds = condition(&self.warps[first].registers, product.adds);
        for (i, warp) in warps() {
            let here = condition(&warp.registers, product.adds);
            if here != adds || (here != 0 && here != FULL) {
                let what = "scale-d is true in some of its threads and false in others".to_owned();
                return Err(out_of_step(first + i, pc, what, None));
            }
        }
        Ok(())
    }

    fn multiply(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        handlers: &Handlers,
        product: &WarpgroupProduct,
        first: usize,
        pc: u32,
    ) -> Result<(), BlockFault> {
        let [a, b, c, d] = &mut self.warps[first..first + WARPS] else {
            unreachable!("a warpgroup has four warps")
        };
        let mut registers = [a, b, c, d].map(|warp| &mut warp.registers);
        let adds = condition(registers[0], product.adds) != 0;
        let shared = worker.memory.shared.as_slice();
        let read =
            worker
                .matrix_unit
                .tiles
                .read(product, shared, registers.each_ref().map(|r| &**r));
        read.map_err(|beyond| beyond_shared(first, pc, &beyond, shared.len()))?;
        let accumulators = &kernel.accumulators[product.number as usize];
        worker.counters.tallies.tensor_during_copies +=
            WARPS as u64 * u64::from(worker.copies.any());
        // SAFETY: `dispatch::handlers` chose handlers that this processor can run.
        unsafe {
            (handlers.multiply_warpgroup)(
                &mut worker.matrix_unit,
                &mut registers,
                product,
                accumulators,
                adds,
            );
        }
        if !worker.checks.enabled {
            return Ok(());
        }
        let engine = Engine::Products {
            warpgroup: first / WARPS,
        };
        let operation = worker
            .checks
            .begin_async(engine, first..first + WARPS, (pc, 0));
        let unset = self.read_operands(kernel, worker, product, operation, first, pc)?;
        for (w, rows) in (first..).zip(&unset.rows) {
            self.warps[w].follow_unset_product(product, accumulators, rows, &unset.columns);
            let begun = self.warps[w].begin_product(kernel, product, pc, operation);
            begun.map_err(|fault| BlockFault {
                fault,
                warp: w as u32,
                block: None,
                missing: None,
            })?;
        }
        Ok(())
    }

    /// Checks what a product reads of shared memory. Returns what of it nobody wrote.
    fn read_operands(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        product: &WarpgroupProduct,
        operation: AsyncOperation,
        first: usize,
        pc: u32,
    ) -> Result<UnsetOperands, BlockFault> {
        let mut unset = UnsetOperands {
            rows: [[None; 16]; WARPS],
            columns: vec![None; product.columns.into()],
        };
        let warp = self.warps[first].active(kernel, FULL, pc);
        let (checks, memory) = (&mut worker.checks, &worker.memory);
        for (name, r, major, rows) in warpgroup::shared_operands(product) {
            let descriptor = Descriptor::new(warp.registers.read::<u64>(r)[0]);
            // Each warp multiplies 16 rows of A with all of B.
            let parts = if name == "A" { WARPS } else { 1 };
            let (rows, warps) = (rows / parts, WARPS / parts);
            for part in 0..parts {
                let reader = first + part * warps;
                checks.access_for(&operation, reader..reader + warps);
                let tiles = &mut worker.matrix_unit.tiles;
                let rows = part * rows..(part + 1) * rows;
                let ranges: Vec<_> = tiles
                    .ranges(product, &descriptor, major, rows.clone())
                    .collect();
                let read = checks.async_read(&warp, memory, &operation, ranges.iter().cloned());
                let is_written = read.map_err(|trap| BlockFault {
                    fault: WarpFault::new(*trap, pc, FULL),
                    warp: reader as u32,
                    block: None,
                    missing: None,
                })?;
                if !is_written {
                    let lines = match name {
                        "A" => &mut unset.rows[part][..],
                        _ => &mut unset.columns[..],
                    };
                    for (line, row) in lines.iter_mut().zip(rows) {
                        *line = unset_element(checks, product, &descriptor, major, row, pc);
                    }
                }
                let other = |bytes| checks.shared.other_swizzle(bytes, descriptor.swizzle);
                if let Some((copy, swizzle)) = ranges.into_iter().find_map(other) {
                    let what = other_swizzle(name, &descriptor, swizzle, kernel.source_of(copy));
                    let kind = FaultKind::BadDescriptor { what };
                    return Err(fault(first, pc, FULL, kind, None));
                }
            }
        }
        Ok(unset)
    }
}

/// What a product reads although nobody wrote it.
struct UnsetOperands {
    /// Of an A in shared memory, those of each warp.
    rows: [Lines<16>; WARPS],
    columns: Vec<Option<UnsetLoad>>,
}

/// An element that nobody wrote in a row of A, or a column of B, which is its row.
fn unset_element(
    checks: &Checks<'_>,
    product: &WarpgroupProduct,
    descriptor: &Descriptor,
    major: Major,
    row: usize,
    pc: u32,
) -> Option<UnsetLoad> {
    let bytes = product.factors.bits() / 8;
    let mut elements = (0..product.depth()).map(|k| descriptor.address(major, row, k, bytes));
    let is_unset = |at: &u64| (*at..at + bytes as u64).any(|at| !checks.shared.is_written(at));
    let at = elements.find(is_unset)?;
    let copied = checks.copied_from(0, MemorySpace::Shared, at, 0);
    Some(copied.unwrap_or(UnsetLoad {
        pc,
        space: MemorySpace::Shared,
        at,
        bytes: bytes as u32,
        computed: false,
    }))
}

/// The fault of warp `w`, which waits at `pc` for the others of its warpgroup.
#[cold]
fn out_of_step(w: usize, pc: u32, what: String, other: Option<(u32, usize)>) -> BlockFault {
    let other = other.map(|(pc, warp)| OtherSide {
        pc,
        thread: Some(32 * warp as u32),
        block: None,
    });
    let kind = FaultKind::WarpgroupOutOfStep { what, other: None };
    fault(w, pc, FULL, kind, other)
}

fn ended(w: usize, pc: u32, other: usize) -> BlockFault {
    out_of_step(w, pc, format!("warp {other} has ended"), None)
}

#[cold]
fn other_swizzle(
    name: &str,
    descriptor: &Descriptor,
    copied: Swizzle,
    copy: Option<Source>,
) -> String {
    let at = copy.map_or_else(String::new, |Source { file, line }| {
        format!(" at {file}:{line}")
    });
    format!(
        "that of {name} ({descriptor}) has another swizzle than its tile, which the copy{at} wrote with {copied}"
    )
}

#[cold]
fn beyond_shared(w: usize, pc: u32, beyond: &BeyondShared, bytes: usize) -> BlockFault {
    let BeyondShared {
        name,
        descriptor,
        address,
    } = beyond;
    let what = format!(
        "that of {name} ({descriptor}) has 16 bytes of its tile at {address:#x}, and the block has {bytes} bytes of \
         shared memory"
    );
    fault(w, pc, FULL, FaultKind::BadDescriptor { what }, None)
}
