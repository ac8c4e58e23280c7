//! Raw counts of a launch that has ended, and the profile that is made of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counters::{Counters, Sectors, Wavefronts};
use super::launch_profile::{LaunchProfile, LineProfile};
use super::phase::Phase;
use crate::exec::tally::{Tallies, Tally, Traffic, Transfers};
use crate::memory::sectors::SECTOR;
use crate::model::{self, ModelledTime, Work};
use crate::program::Kernel;
use crate::program::analysis::joined_loads::Join;
use crate::program::op::{AccessKind, Atomic, Class, Op, Order, TensorUnit, Type};
use crate::settings::device;

/// Raw counts of a launch that has ended.
#[derive(Debug)]
pub(crate) struct Record {
    pub kernel: Arc<Kernel>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub tallies: Tallies,
}

impl Record {
    /// The profile, with counters by source line.
    pub(crate) fn profile(&self) -> LaunchProfile {
        let mut lines: BTreeMap<(String, u32), Counters> = BTreeMap::new();
        let mut total = Counters::default();
        let mut phases = self.no_phases();
        for pc in 0..self.kernel.code.len() {
            let Some(counters) = self.counters(pc) else {
                continue;
            };
            total += counters;
            self.add_work(pc, &mut phases);
            let place = self.kernel.source_of(pc as u32);
            let key = place.map_or((String::new(), 0), |s| (s.file, s.line));
            *lines.entry(key).or_default() += counters;
        }
        let lines = lines
            .into_iter()
            .map(|((file, line), counters)| LineProfile {
                file,
                line,
                counters,
            });
        LaunchProfile {
            kernel: self.kernel.name.clone(),
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            resources: self.kernel.resources,
            total,
            compulsory_read_bytes: self.tallies.sectors_read * SECTOR,
            compulsory_write_bytes: self.tallies.sectors_written * SECTOR,
            tensor_during_copies: self.tallies.tensor_during_copies,
            lines: lines.collect(),
            time: self.time_of(phases.clone()),
            phases,
            local_bytes: self.kernel.local_bytes,
            atomics_at_one_address: self.tallies.atomics.at_one_address(),
            slowest_warps: self.tallies.slowest_warps,
        }
    }

    /// Time on the simulated device.
    pub(crate) fn time(&self) -> ModelledTime {
        let mut phases = self.no_phases();
        for pc in 0..self.kernel.code.len() {
            self.add_work(pc, &mut phases);
        }
        self.time_of(phases)
    }

    fn time_of(&self, phases: Vec<Phase>) -> ModelledTime {
        let work = Work {
            phases,
            compulsory_bytes: (self.tallies.sectors_read + self.tallies.sectors_written) * SECTOR,
            blocks: self.grid.iter().map(|&size| u64::from(size)).product(),
            threads: self.block.iter().product(),
            shared_bytes: self.shared_bytes,
            resources: self.kernel.resources,
            local_bytes: self.kernel.local_bytes,
            atomics_at_one_address: self.tallies.atomics.at_one_address(),
            slowest_warps: self.tallies.slowest_warps,
        };
        model::time(device(), &work)
    }

    /// The kernel's phases, with the latency of what ran and no work.
    fn no_phases(&self) -> Vec<Phase> {
        let kernel = &self.kernel;
        let mut phases = vec![Phase::default(); kernel.phases.count as usize];
        for latency in &kernel.latencies {
            let counted_at = kernel.counted_at[latency.at as usize];
            let tally = counted_at.map(|at| self.tallies.instructions[at as usize]);
            let phase = &mut phases[kernel.phases.of[latency.at as usize] as usize];
            phase.latency_clocks += tally.map_or(0, |t| t.warps) * u64::from(latency.clocks);
        }
        phases
    }

    /// Adds what the assembler makes of the instruction at `pc` to the work of its phase. It is
    /// called for every launch, so it makes no [`Counters`].
    fn add_work(&self, pc: usize, phases: &mut [Phase]) {
        let Some(tally) = self.tally(pc) else {
            return;
        };
        let op = &self.kernel.code[pc].op;
        let phase = &mut phases[self.kernel.phases.of[pc] as usize];
        let class = op.class();
        match class {
            Class::Fma32 | Class::Float32 | Class::Half => phase.fp32 += tally.warps,
            Class::Float64 => phase.fp64 += tally.warps,
            Class::Special => phase.special += tally.warps,
            _ => {}
        }
        if let Op::WarpgroupProduct(product) = op {
            // By the data sheet, f16 is twice as fast as tf32 and half as fast as 8-bit types.
            phase.wgmma += op.flops() * tally.lanes * product.factors.bits() as u64 / 16;
        } else if let Some(unit) = op.tensor_unit() {
            let operations = match unit {
                TensorUnit::F16 => &mut phase.tensor,
                TensorUnit::Tf32 => &mut phase.tensor_tf32,
                TensorUnit::F64 => &mut phase.tensor_f64,
                TensorUnit::Int8 => &mut phase.tensor_int8,
            };
            *operations += op.flops() * tally.lanes;
        }
        // Parameters are operands, and copies need no instruction of their own.
        let is_copy = matches!(op, Op::Move { .. } | Op::Pack { .. } | Op::Unpack { .. });
        let is_instruction = !is_copy && class != Class::Parameter;
        let mut instructions = tally.warps * u64::from(is_instruction);
        let (mut shared_requests, mut wavefronts, mut sectors) = (0, 0, 0);
        let copy = match op {
            Op::CopyAsync(copy) => Some(copy),
            _ => None,
        };
        let bulk = match op {
            Op::BulkCopy(copy) => Some(copy),
            _ => None,
        };
        for (access, _, kind) in op.accesses() {
            let traffic = &self.tallies.traffic[access.site as usize];
            // No load/store unit takes part in a bulk copy.
            phase.global_requests += traffic.global.requests * u64::from(bulk.is_none());
            phase.local_requests += traffic.local.requests;
            phase.local_sectors += traffic.local.units;
            instructions = instructions.saturating_sub(traffic.local.requests);
            shared_requests += traffic.shared.requests * u64::from(bulk.is_none());
            let load = kind == AccessKind::Load;
            let past_l1 = load && copy.is_some_and(|copy| !copy.through_l1);
            if !past_l1 {
                wavefronts += traffic.wavefronts;
            }
            sectors += match load && access.order == Order::Weak && !past_l1 {
                true => from_l2(traffic),
                false => traffic.global.units,
            };
            if self.kernel.joins[access.site as usize] == Join::Gone {
                (instructions, shared_requests) = (0, 0);
            }
        }
        phase.instructions += instructions;
        phase.shared_requests += shared_requests;
        phase.wavefronts += wavefronts;
        phase.sectors += sectors;
        if bulk.is_some() || (copy.is_some() && !self.kernel.phases.waited[pc]) {
            phase.later_wavefronts += wavefronts;
            phase.later_sectors += sectors;
        }
    }

    /// How often the instruction at `pc` ran; `None` if no warp has run it.
    fn tally(&self, pc: usize) -> Option<Tally> {
        let counted_at = self.kernel.counted_at[pc]?;
        let tally = self.tallies.instructions[counted_at as usize];
        (tally.warps > 0).then_some(tally)
    }

    /// Counters of the instruction at `pc`; `None` if no warp has run it.
    fn counters(&self, pc: usize) -> Option<Counters> {
        let op = &self.kernel.code[pc].op;
        let tally = self.tally(pc)?;
        let mut counters = Counters {
            warp_instructions: tally.warps,
            lane_instructions: tally.lanes,
            divergent_branches: self.tallies.instructions[pc].splits,
            ..Counters::default()
        };
        let class = op.class();
        counters.classes[class as usize] = tally.warps;
        let flops = op.flops() * tally.lanes;
        match (op.tensor_unit(), class) {
            (Some(TensorUnit::F16), _) => counters.flops_tensor = flops,
            (Some(TensorUnit::Tf32), _) => {
                (counters.flops_tensor, counters.flops_tensor_tf32) = (flops, flops);
            }
            (Some(TensorUnit::F64), _) => {
                (counters.flops_tensor, counters.flops_tensor_f64) = (flops, flops);
            }
            (Some(TensorUnit::Int8), _) => counters.ops_tensor_int8 = flops,
            (None, _) if matches!(op, Op::Half { .. }) => counters.flops_half = flops,
            (None, _) if matches!(op, Op::MatrixLoad(_)) => counters.matrix_loads = tally.warps,
            (None, Class::Float64) => counters.flops_f64 = flops,
            (None, _) => counters.flops_f32 = flops,
        }
        if matches!(op, Op::WarpgroupProduct(_)) {
            counters.flops_wgmma = counters.flops_tensor;
        }
        if op.is_branch() {
            counters.branches = tally.warps;
        }
        if op.is_barrier() {
            counters.barriers = tally.warps;
        }
        for (access, _, kind) in op.accesses() {
            let bytes = u64::from(access.bytes());
            let Traffic {
                global,
                shared,
                local,
                ..
            } = self.tallies.traffic[access.site as usize];
            counters.local += sectors(local, bytes);
            // Local memory lies side by side: four sectors to a line.
            counters.cache_lines += global.ideal + local.units.div_ceil(4);
            let (global, shared) = (sectors(global, bytes), wavefronts(shared, bytes));
            let (of_global, of_shared) = match kind {
                AccessKind::Load => (&mut counters.global_loads, &mut counters.shared_loads),
                AccessKind::Store => (&mut counters.global_stores, &mut counters.shared_stores),
                AccessKind::Atomic => (&mut counters.global_atomics, &mut counters.shared_atomics),
            };
            *of_global += global;
            *of_shared += shared;
            let values = |bytes_of_one| tally.lanes * bytes / bytes_of_one;
            match op {
                Op::Atomic {
                    op: Atomic::Half { .. },
                    ..
                } => counters.flops_half += values(2),
                Op::Atomic { .. } if access.ty == Type::F32 => counters.flops_f32 += values(4),
                Op::Atomic { .. } if access.ty == Type::F64 => counters.flops_f64 += values(8),
                _ => {}
            }
        }
        if let Op::CopyAsync(copy) = op {
            counters.bytes_copied = counters.global_loads.bytes;
            if !copy.through_l1 {
                counters.cache_lines = 0;
            }
        }
        Some(counters)
    }
}

/// Sectors that all blocks load from the second-level cache: the share that those that were looked
/// at had not loaded before.
fn from_l2(traffic: &Traffic) -> u64 {
    match traffic.looked_at {
        0 => traffic.global.units,
        looked_at => {
            let share = u128::from(traffic.global.units) * u128::from(traffic.first);
            (share / u128::from(looked_at)) as u64
        }
    }
}

/// Traffic of global or local memory, of accesses of `bytes` bytes.
fn sectors(t: Transfers, bytes: u64) -> Sectors {
    Sectors {
        requests: t.requests,
        sectors: t.units,
        bytes: t.lanes * bytes,
    }
}

/// Traffic of shared memory.
fn wavefronts(t: Transfers, bytes: u64) -> Wavefronts {
    Wavefronts {
        requests: t.requests,
        wavefronts: t.units,
        ideal: t.ideal,
        bytes: t.lanes * bytes,
    }
}
