//! Last phases of lowering a kernel: labels, analyses, registers, shared memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::builder::Lowering;
use crate::device::SHARED_PER_BLOCK;
use crate::program::analysis::block_communication::{blocks_communicate, has_device_atomics};
use crate::program::analysis::compare_and_swap_reads;
use crate::program::analysis::joined_loads::joined_loads;
use crate::program::analysis::latency::{Latency, latencies};
use crate::program::analysis::phases::Phases;
use crate::program::analysis::product_registers;
use crate::program::analysis::shared_arrays::{Origin, arrays};
use crate::program::analysis::straight_line::{count_together, leaders, runs, stretches};
use crate::program::analysis::unset_registers::{self, Tracked};
use crate::program::instruction::Constant;
use crate::program::kernel::{Kernel, Param, SharedArray};
use crate::program::op::{MbarrierOp, Op, R, Special};
use crate::program::register_allocation::{self, Packing};
use crate::ptx::{Function, PtxError};

/// Local memory of a thread, in bytes: CUDA's limit.
const MAX_LOCAL_BYTES: u64 = 512 << 10;

/// Operations that the same threads run, grouped.
struct Groups {
    counted_at: Vec<Option<u32>>,
    leaders: Vec<Option<u32>>,
    latencies: Vec<Latency>,
    phases: Phases,
}

impl Lowering<'_> {
    /// Makes the kernel, in phases. The order matters:
    ///
    /// 1. Labels get their places, because each later phase follows branches.
    /// 2. Tracking operations are put in, which is the last change of the code's length. It moves
    ///    the targets of branches.
    /// 3. Memory accesses get their numbers, which the next phases index by.
    /// 4. Addresses get their shared arrays, and neighbouring loads are joined, while a register
    ///    still has one meaning.
    /// 5. Registers are packed.
    /// 6. Products of warpgroups get their numbers and the places of their accumulators.
    /// 7. Operations are grouped, and their forms found. They stay as they are from here on.
    /// 8. Memory is laid out, and constants get their values.
    pub(super) fn finish(
        mut self,
        function: &Function<'_>,
        params: Vec<Param>,
        param_bytes: usize,
        files: Arc<Vec<(u32, String)>>,
    ) -> Result<Kernel, PtxError> {
        let refuse = |what: &str| PtxError::new(0, format!("kernel {}: {what}", function.name));
        let too_long = || refuse("too much code after its calls are inlined");

        let branch_tables = self.place_labels();
        let mut branch_tables = branch_tables.ok_or_else(|| refuse("a label is not placed"))?;
        let tracked = self.track_unset_registers(&mut branch_tables);
        let Tracked { registers, flows } = tracked.ok_or_else(too_long)?;
        let sites = self.number_accesses();
        let arrays = self.arrays(sites);
        let joins = joined_loads(&self.code, &branch_tables, &self.held_constants(), sites);
        let of_products = product_registers::mark(&mut self.code, &self.registers);
        let packing = register_allocation::pack(
            &mut self.code,
            &branch_tables,
            &self.registers,
            &of_products,
        );
        let packing = packing.ok_or_else(too_long)?;
        let accumulators = self.number_products();
        let groups = self.group_operations(&branch_tables, sites);
        let dynamic_shared_offset = self.shared_bytes.next_multiple_of(self.dynamic_align);
        let constants = self.settled_constants(&packing, dynamic_shared_offset);
        self.check_memory(&refuse)?;
        Ok(Kernel {
            name: function.name.to_string(),
            params,
            param_bytes,
            shared_bytes: self.shared_bytes as u32,
            local_bytes: self.local_bytes.next_multiple_of(16) as u32,
            max_threads: function.max_threads.unwrap_or(1024).min(1024),
            bounds_registers: function.bounds_registers,
            cluster: function.cluster,
            uses_clusters: self.uses_clusters,
            resources: None,
            counted_at: groups.counted_at,
            files,
            constants,
            specials: self.placed_specials(&packing),
            planes: packing.planes,
            pinned_planes: packing.pinned,
            predicates: self.predicates,
            sites,
            leaders: groups.leaders,
            tracked: registers,
            flows,
            latencies: groups.latencies,
            phases: groups.phases,
            joins,
            has_roles: self.code.iter().any(|instruction| {
                matches!(&instruction.op, Op::Mbarrier(op) if matches!(op.op, MbarrierOp::Wait { .. }))
            }),
            has_fences: self
                .code
                .iter()
                .any(|instruction| instruction.op.is_fence()),
            has_atomics: has_device_atomics(&self.code),
            blocks_communicate: blocks_communicate(&self.code),
            shared_arrays: self.shared_arrays(dynamic_shared_offset),
            arrays,
            dynamic_shared_offset: u32::try_from(dynamic_shared_offset)
                .map_err(|_| refuse("too much shared memory"))?,
            code: self.code,
            source: self.source,
            branch_tables,
            product_registers: product_planes(&accumulators, &of_products, &packing),
            accumulators,
            unsupported: self.unsupported,
        })
    }

    /// Replaces labels by places in the code: in branches, and in the tables that it returns.
    /// `None` if one has no place.
    fn place_labels(&mut self) -> Option<Vec<Vec<u32>>> {
        for instruction in &mut self.code {
            if let Op::Branch { target } = &mut instruction.op {
                *target = self.labels[*target as usize]?;
            }
        }
        let places = |table: &Vec<usize>| table.iter().map(|&label| self.labels[label]).collect();
        self.branch_tables.iter().map(places).collect()
    }

    /// Marks compare-and-swap loops, and puts in the operations that track registers that may be
    /// used unset. `None` if that takes too long.
    fn track_unset_registers(&mut self, branch_tables: &mut [Vec<u32>]) -> Option<Tracked> {
        let constants = self.held_constants();
        compare_and_swap_reads::mark(&mut self.code, branch_tables, &constants);
        let number = |constant: &Option<Constant>| constant.and_then(Constant::number);
        let numbers: Vec<_> = constants.iter().map(number).collect();
        unset_registers::watch(
            &mut self.code,
            &mut self.source,
            branch_tables,
            &self.registers,
            &numbers,
        )
    }

    /// Numbers the memory accesses in the order of the code, and returns how many there are.
    fn number_accesses(&mut self) -> u32 {
        let mut sites = 0;
        for instruction in &mut self.code {
            instruction.op.for_each_access(|access, _, _| {
                access.site = sites;
                sites += 1;
            });
        }
        sites
    }

    /// Numbers the products of warpgroups in the order of the code, and returns their accumulators.
    fn number_products(&mut self) -> Vec<Vec<R>> {
        let (mut all, mut listed) = (Vec::new(), Vec::new());
        for instruction in &mut self.code {
            match &mut instruction.op {
                Op::Accumulators(list) => listed.extend_from_slice(list.registers()),
                Op::WarpgroupProduct(product) => {
                    product.number = all.len() as u32;
                    all.push(std::mem::take(&mut listed));
                }
                _ => {}
            }
        }
        all
    }

    /// Groups operations that the same threads run: to count them together, to run them in one
    /// call, and to tell which addresses differ by a constant.
    fn group_operations(&mut self, branch_tables: &[Vec<u32>], sites: u32) -> Groups {
        let stretches = stretches(&self.code, branch_tables);
        let counted_at = count_together(&mut self.code, &stretches);
        runs(&mut self.code, &stretches);
        Groups {
            leaders: leaders(&self.code, &stretches, sites),
            latencies: latencies(&self.code, branch_tables, &counted_at),
            phases: Phases::new(&self.code, branch_tables),
            counted_at,
        }
    }

    /// The registers that hold constants, and their values once shared memory is laid out.
    fn settled_constants(
        &self,
        packing: &Packing,
        dynamic_shared_offset: u64,
    ) -> Vec<(R, Constant)> {
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
            .filter_map(|(&c, r)| Some((packing.places[r.0 as usize]?, settle(c))))
            .collect();
        constants.sort_unstable_by_key(|c| c.0);
        constants
    }

    /// The registers that hold special values.
    fn placed_specials(&self, packing: &Packing) -> Vec<(R, Special)> {
        let mut specials: Vec<_> = self
            .specials
            .iter()
            .filter_map(|(&s, r)| Some((packing.places[r.0 as usize]?, s)))
            .collect();
        specials.sort_unstable_by_key(|s| s.0);
        specials
    }

    /// The arrays in shared memory by their places, dynamic shared memory last.
    fn shared_arrays(&self, dynamic_shared_offset: u64) -> Vec<SharedArray> {
        let array = |(name, &(start, bytes)): (&&str, &(u64, u64))| SharedArray {
            name: plain_name(name),
            start,
            bytes: Some(bytes),
        };
        let mut arrays: Vec<_> = self.shared.iter().map(array).collect();
        arrays.sort_unstable_by(|a, b| (a.start, &a.name).cmp(&(b.start, &b.name)));
        arrays.extend(self.dynamic_name.map(|name| SharedArray {
            name: plain_name(name),
            start: dynamic_shared_offset,
            bytes: None,
        }));
        arrays
    }

    /// Refuses more static shared memory or local memory than there is.
    fn check_memory(&self, refuse: &impl Fn(&str) -> PtxError) -> Result<(), PtxError> {
        if self.shared_bytes > u64::from(SHARED_PER_BLOCK) {
            return Err(refuse(&format!(
                "{} bytes of static shared memory, at most {SHARED_PER_BLOCK}",
                self.shared_bytes
            )));
        }
        match self.local_bytes > MAX_LOCAL_BYTES {
            true => Err(refuse("too much local memory")),
            false => Ok(()),
        }
    }

    /// The static shared array of each memory access, where there is one: its first byte, and the
    /// first one behind it.
    fn arrays(&self, sites: u32) -> Vec<Option<(u64, u64)>> {
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
        let arrays = arrays(&self.code, origins, sites);
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

/// By plane: whether it holds an operand of a product of a warpgroup, or a copy. Empty if there are
/// no such products.
fn product_planes(accumulators: &[Vec<R>], of_products: &[bool], packing: &Packing) -> Vec<bool> {
    if accumulators.is_empty() {
        return Vec::new();
    }
    let mut planes = vec![false; packing.planes as usize];
    for (place, _) in packing
        .places
        .iter()
        .zip(of_products)
        .filter(|(_, of)| **of)
    {
        if let Some(place) = place {
            planes[place.0 as usize] = true;
        }
    }
    planes
}

/// The name in the source of a variable within a function, which C++ mangles: `_ZZ3sumE6partials`
/// is `partials`. Other names stay as they are.
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
