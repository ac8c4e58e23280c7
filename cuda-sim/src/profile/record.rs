//! Raw counts of a launch that has ended, and the profile that is made of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counters::{Counters, Sectors, Wavefronts};
use super::launch_profile::{LaunchProfile, LineProfile};
use super::phase::Phase;
use crate::exec::tally::{Tallies, Traffic, Transfers};
use crate::memory::sectors::SECTOR;
use crate::model::{self, ModelledTime, Work};
use crate::program::Kernel;
use crate::program::analysis::joined_loads::Join;
use crate::program::op::{AccessKind, Atomic, Class, Factors, Op, Order, Type};
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
            phases[self.kernel.phases.of[pc] as usize] += self.work(pc, &counters);
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
            lines: lines.collect(),
            time: self.time_of(phases.clone()),
            phases,
            local_bytes: self.kernel.local_bytes,
            atomics_at_one_address: self.tallies.atomics.at_one_address(),
        }
    }

    /// Time on the simulated device.
    pub(crate) fn time(&self) -> ModelledTime {
        let mut phases = self.no_phases();
        for pc in 0..self.kernel.code.len() {
            if let Some(counters) = self.counters(pc) {
                phases[self.kernel.phases.of[pc] as usize] += self.work(pc, &counters);
            }
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

    /// What the assembler makes of the instruction at `pc`, with these counters.
    fn work(&self, pc: usize, counters: &Counters) -> Phase {
        let op = &self.kernel.code[pc].op;
        let of = |class| counters.of(class);
        let (tf32, f64) = (counters.flops_tensor_tf32, counters.flops_tensor_f64);
        // Parameters are operands, and copies need no instruction of their own.
        let is_copy = matches!(op, Op::Move { .. } | Op::Pack { .. } | Op::Unpack { .. });
        let is_instruction = !is_copy && of(Class::Parameter) == 0;
        let mut phase = Phase {
            instructions: counters.warp_instructions * u64::from(is_instruction),
            fp32: of(Class::Fma32) + of(Class::Float32) + of(Class::Half),
            fp64: of(Class::Float64),
            special: of(Class::Special),
            tensor: counters.flops_tensor - tf32 - f64,
            tensor_tf32: tf32,
            tensor_f64: f64,
            tensor_int8: counters.ops_tensor_int8,
            global_requests: counters.global().requests,
            shared_requests: counters.shared().requests,
            local_requests: counters.local.requests,
            local_sectors: counters.local.sectors,
            ..Phase::default()
        };
        phase.instructions = phase.instructions.saturating_sub(phase.local_requests);
        let copy = match op {
            Op::CopyAsync(copy) => Some(copy),
            _ => None,
        };
        for (access, _, kind) in op.accesses() {
            let traffic = &self.tallies.traffic[access.site as usize];
            let load = kind == AccessKind::Load;
            let past_l1 = load && copy.is_some_and(|copy| !copy.through_l1);
            if !past_l1 {
                phase.wavefronts += traffic.wavefronts;
            }
            phase.sectors += match load && access.order == Order::Weak && !past_l1 {
                true => from_l2(traffic),
                false => traffic.global.units,
            };
            if self.kernel.joins[access.site as usize] == Join::Gone {
                (phase.instructions, phase.shared_requests) = (0, 0);
            }
        }
        if copy.is_some() && !self.kernel.phases.waited[pc] {
            phase.later_wavefronts = phase.wavefronts;
            phase.later_sectors = phase.sectors;
        }
        phase
    }

    /// Counters of the instruction at `pc`; `None` if no warp has run it.
    fn counters(&self, pc: usize) -> Option<Counters> {
        let op = &self.kernel.code[pc].op;
        let counted_at = self.kernel.counted_at[pc]?;
        let tally = self.tallies.instructions[counted_at as usize];
        if tally.warps == 0 {
            return None;
        }
        let mut counters = Counters {
            warp_instructions: tally.warps,
            lane_instructions: tally.lanes,
            divergent_branches: self.tallies.instructions[pc].splits,
            ..Counters::default()
        };
        let class = op.class();
        counters.classes[class as usize] = tally.warps;
        let flops = op.flops() * tally.lanes;
        match (op, class) {
            (Op::Half { .. }, _) => counters.flops_half = flops,
            (Op::MatrixProduct(product), _) => match product.factors {
                Factors::F16 | Factors::Bf16 | Factors::E4m3 { .. } | Factors::E5m2 { .. } => {
                    counters.flops_tensor = flops;
                }
                Factors::Tf32 => {
                    (counters.flops_tensor, counters.flops_tensor_tf32) = (flops, flops);
                }
                Factors::Int8 { .. } => counters.ops_tensor_int8 = flops,
            },
            (Op::MatrixProduct64(_), _) => {
                (counters.flops_tensor, counters.flops_tensor_f64) = (flops, flops);
            }
            (Op::QuadPairProducts(_), _) => counters.flops_tensor = flops,
            (_, Class::Float64) => counters.flops_f64 = flops,
            _ => counters.flops_f32 = flops,
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
        if let Op::CopyAsync(copy) = op
            && !copy.through_l1
        {
            counters.cache_lines = 0;
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
