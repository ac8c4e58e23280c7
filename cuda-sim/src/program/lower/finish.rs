//! Finishes a kernel whose statements are decoded: runs the analyses, places labels and registers, lays out shared memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::builder::Lowering;
use crate::device::SHARED_PER_BLOCK;
use crate::program::analysis::block_communication::{blocks_communicate, has_device_atomics};
use crate::program::analysis::compare_and_swap_reads;
use crate::program::analysis::latency::latencies;
use crate::program::analysis::shared_arrays::{Origin, arrays};
use crate::program::analysis::straight_line::{count_together, leaders, runs, stretches};
use crate::program::analysis::unset_registers::{self, Tracked};
use crate::program::instruction::Constant;
use crate::program::kernel::{Kernel, Param, SharedArray};
use crate::program::op::{Op, Order};
use crate::program::register_allocation::{self, Packing};
use crate::ptx::{Function, PtxError};

impl Lowering<'_> {
    pub(super) fn finish(
        mut self,
        function: &Function<'_>,
        params: Vec<Param>,
        param_bytes: usize,
        files: Arc<Vec<(u32, String)>>,
    ) -> Result<Kernel, PtxError> {
        let too_large =
            |what: &str| PtxError::new(0, format!("kernel {}: too much {what}", function.name));
        let place = |label: usize| {
            self.labels[label].ok_or_else(|| {
                PtxError::new(
                    0,
                    format!("kernel {}: a label is not placed", function.name),
                )
            })
        };
        for instruction in &mut self.code {
            if let Op::Branch { target } = &mut instruction.op {
                *target = place(*target as usize)?;
            }
        }
        let mut branch_tables = self
            .branch_tables
            .iter()
            .map(|t| t.iter().map(|&l| place(l)).collect())
            .collect::<Result<Vec<_>, _>>()?;
        let constants = self.held_constants();
        compare_and_swap_reads::mark(&mut self.code, &branch_tables, &constants);
        let numbers: Vec<_> = constants
            .iter()
            .map(|c| c.and_then(Constant::number))
            .collect();
        let too_long = || too_large("code after its calls are inlined");
        let tracked = unset_registers::watch(
            &mut self.code,
            &mut self.source,
            &mut branch_tables,
            &self.registers,
            &numbers,
        );
        let Tracked { registers, flows } = tracked.ok_or_else(too_long)?;
        let arrays = self.arrays();
        let dynamic_shared_offset = self.shared_bytes.next_multiple_of(self.dynamic_align);
        let packing = register_allocation::pack(&mut self.code, &branch_tables, &self.registers);
        let Packing {
            places,
            planes,
            pinned,
        } = packing.ok_or_else(too_long)?;
        let mut sites = 0;
        let mut has_fences = false;
        for instruction in &mut self.code {
            match &mut instruction.op {
                Op::Load { access, .. } | Op::Store { access, .. } | Op::Atomic { access, .. } => {
                    access.site = sites;
                    sites += 1;
                    has_fences |= matches!(
                        access.order,
                        Order::Acquire | Order::Release | Order::AcquireRelease
                    );
                }
                Op::Mbarrier(mbarrier) => {
                    mbarrier.access.site = sites;
                    sites += 1;
                }
                Op::MatrixLoad(matrices) | Op::MatrixStore(matrices) => {
                    matrices.access.site = sites;
                    sites += 1;
                }
                Op::CopyAsync(copy) => {
                    copy.site = sites;
                    sites += 2;
                }
                Op::Fence { .. } => has_fences = true,
                _ => {}
            }
        }
        let has_atomics = has_device_atomics(&self.code);
        let blocks_communicate = blocks_communicate(&self.code);
        let stretches = stretches(&self.code, &branch_tables);
        let counted_at = count_together(&mut self.code, &stretches);
        runs(&mut self.code, &stretches);
        let leaders = leaders(&self.code, &stretches);
        let latencies = latencies(&self.code, &branch_tables, &counted_at);
        let mut shared_arrays: Vec<SharedArray> = self
            .shared
            .iter()
            .map(|(name, (start, bytes))| SharedArray {
                name: plain_name(name),
                start: *start,
                bytes: Some(*bytes),
            })
            .collect();
        shared_arrays.sort_unstable_by(|a, b| (a.start, &a.name).cmp(&(b.start, &b.name)));
        if let Some(name) = self.dynamic_name {
            shared_arrays.push(SharedArray {
                name: plain_name(name),
                start: dynamic_shared_offset,
                bytes: None,
            });
        }
        let address =
            |start: u64, offset, wide| Constant::address(start.wrapping_add_signed(offset), wide);
        let settle = |constant| match constant {
            Constant::StaticShared {
                start,
                offset,
                wide,
            } => address(start, offset, wide),
            Constant::DynamicShared { offset, wide } => {
                address(dynamic_shared_offset, offset, wide)
            }
            settled => settled,
        };
        let mut constants: Vec<_> = self
            .constants
            .iter()
            .filter_map(|(&c, r)| Some((places[r.0 as usize]?, settle(c))))
            .collect();
        let mut specials: Vec<_> = self
            .specials
            .iter()
            .filter_map(|(&s, r)| Some((places[r.0 as usize]?, s)))
            .collect();
        constants.sort_unstable_by_key(|c| c.0);
        specials.sort_unstable_by_key(|s| s.0);
        if self.shared_bytes > u64::from(SHARED_PER_BLOCK) {
            let message = format!(
                "kernel {}: {} bytes of static shared memory, at most {SHARED_PER_BLOCK}",
                function.name, self.shared_bytes
            );
            return Err(PtxError::new(0, message));
        }
        if self.local_bytes > 512 << 10 {
            return Err(too_large("local memory"));
        }
        Ok(Kernel {
            name: function.name.to_string(),
            params,
            param_bytes,
            shared_bytes: u32::try_from(self.shared_bytes)
                .map_err(|_| too_large("shared memory"))?,
            local_bytes: self.local_bytes.next_multiple_of(16) as u32,
            max_threads: function.max_threads.unwrap_or(1024).min(1024),
            resources: None,
            code: self.code,
            counted_at,
            source: self.source,
            files,
            constants,
            specials,
            planes,
            pinned_planes: pinned,
            predicates: self.predicates,
            branch_tables,
            unsupported: self.unsupported,
            sites,
            leaders,
            tracked: registers,
            flows,
            latencies,
            has_fences,
            has_atomics,
            blocks_communicate,
            shared_arrays,
            arrays,
            dynamic_shared_offset: u32::try_from(dynamic_shared_offset)
                .map_err(|_| too_large("shared memory"))?,
        })
    }

    /// The static shared array of each memory instruction, where there is one: its first byte, and the first one behind it.
    fn arrays(&mut self) -> Vec<Option<(u64, u64)>> {
        let mut origins = vec![Origin::Nothing; self.registers.len()];
        for (constant, r) in &self.constants {
            origins[r.0 as usize] = match constant {
                Constant::Narrow(_) | Constant::Wide(_) => Origin::Numbers,
                Constant::StaticShared { start, .. } => Origin::Array(*start),
                Constant::Variable { .. } | Constant::DynamicShared { .. } => Origin::Unknown,
            };
        }
        for r in self.specials.values() {
            origins[r.0 as usize] = Origin::Numbers;
        }
        let ends: HashMap<u64, u64> = self
            .shared
            .values()
            .map(|(start, bytes)| (*start, start + bytes))
            .collect();
        let limits = |start: u64| Some((start, *ends.get(&start)?));
        let arrays = arrays(&self.code, origins);
        arrays.into_iter().map(|start| limits(start?)).collect()
    }

    /// By register, the constant that it holds for the whole run.
    fn held_constants(&self) -> Vec<Option<Constant>> {
        let mut held = vec![None; self.registers.len()];
        for (constant, r) in &self.constants {
            held[r.0 as usize] = Some(*constant);
        }
        held
    }
}

/// The name in the source of a variable within a function, which C++ mangles: `_ZZ3sumE6partials` is
/// `partials`. Other names stay as they are.
fn plain_name(mangled: &str) -> String {
    let inner = mangled
        .strip_prefix("_ZZ")
        .and_then(|rest| rest.split_once('E'))
        .map(|(_, name)| name);
    let name = inner.and_then(|name| {
        let digits = name.find(|c: char| !c.is_ascii_digit())?;
        let length: usize = name[..digits].parse().ok()?;
        name.get(digits..digits + length)
    });
    name.unwrap_or(mangled).to_owned()
}
