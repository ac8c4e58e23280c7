//! Latency of each basic block for a warp alone: the latency of its longest chain of dependent
//! instructions, up to each barrier and from there on.

use std::collections::HashMap;
use std::ops::Range;

use super::basic_blocks::Blocks;
use crate::program::instruction::Instruction;
use crate::program::op::{Mbarrier, MbarrierOp, MemorySpace, Op, R, Route, Use};

/// Clocks from an arithmetic instruction to one that needs its result: CUDA C++ Programming Guide,
/// "Multiprocessor Level".
const ARITHMETIC: u32 = 4;
/// Clocks from a load of shared memory, or a shuffle, to its result:
/// <https://github.com/sjfeng1999/gpu-arch-microbenchmark>, 23 on an RTX 2070. For a shuffle it is
/// assumed.
const SHARED: u32 = 23;
/// Clocks from a load of global memory to its result, if the second-level cache has it:
/// `gpu-latency` of <https://github.com/te42kyfo/gpu-benches>, commit 1c36d50: 265 on an H100 (211
/// on an A100, 276 on an L40).
const GLOBAL: u32 = 265;

/// Clocks from a matrix product to its result: table 3 of Sun et al., "Dissecting Tensor Cores via
/// Microbenchmarks", <https://arxiv.org/abs/2206.02874>, has for an A100 24.7 of f16 and 25.0 of
/// tf32, both with f32 sums.
const TENSOR: u32 = 25;

/// Clocks for which a product of a warpgroup keeps the tensor cores of a multiprocessor busy: 64
/// rows, these columns and 32 bytes of depth, at the data sheet's rate of an H100.
fn warpgroup_clocks(columns: u16) -> u32 {
    u32::from(columns) / 2
}

/// Latency of a basic block, or of its part up to a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latency {
    /// An instruction of the block, which tells how often it ran.
    pub at: u32,
    /// Clocks from the first instruction to the last, if each is issued as soon as what it reads is
    /// there.
    pub clocks: u32,
}

/// The latency of each basic block that is counted.
pub(crate) fn latencies(
    code: &[Instruction],
    branch_tables: &[Vec<u32>],
    counted_at: &[Option<u32>],
) -> Vec<Latency> {
    let counted = |&at: &usize| counted_at[at].is_some();
    let unguarded = |at: &usize| counted(at) && code[*at].guard.is_none();
    let latency = |(part, clocks): (Range<usize>, u32)| {
        let at = part.clone().find(unguarded);
        let at = at.or_else(|| part.clone().find(counted))? as u32;
        Some(Latency { at, clocks })
    };
    let blocks = Blocks::new(code, branch_tables).ranges;
    let parts = blocks.iter().flat_map(|block| parts(code, block));
    parts.filter_map(latency).collect()
}

/// The parts of a basic block between barriers, and the clocks of each.
fn parts(code: &[Instruction], block: &Range<usize>) -> Vec<(Range<usize>, u32)> {
    let clocks = clocks(&code[block.clone()]);
    let (mut start, mut before) = (block.start, 0);
    let part = clocks.into_iter().map(|(length, clocks)| {
        let part = start..block.start + length;
        let alone = clocks - before;
        (start, before) = (part.end, clocks);
        (part, alone)
    });
    part.collect()
}

/// Instructions and clocks up to the end of each barrier, and of the whole block.
fn clocks(block: &[Instruction]) -> Vec<(usize, u32)> {
    let mut ends = Vec::new();
    let mut issued = 0;
    // When each register's value is there.
    let mut ready: HashMap<R, u32> = HashMap::new();
    let (mut barrier, mut last) = (0, 0);
    // When the groups of asynchronous copies are there that the block has committed, and the group
    // that it has begun.
    let (mut groups, mut begun) = (Vec::new(), 0);
    // The same of bulk groups, and when the bulk copies are there that complete bytes on a barrier.
    let (mut bulk_groups, mut bulk_begun, mut completed) = (Vec::new(), 0, 0);
    // When the tensor cores are free, the warpgroup's last product is there, and its groups are.
    let (mut tensor, mut products, mut product_groups) = (0, 0, Vec::new());
    for (at, instruction) in block.iter().enumerate() {
        let op = &instruction.op;
        let reads = op.registers(Use::Read);
        let ready_at = reads.iter().filter_map(|r| ready.get(r).copied());
        let mut start = ready_at.fold(barrier, u32::max);
        match *op {
            Op::CopyAsync(_) => begun = begun.max(start + GLOBAL),
            Op::CopyCommit => groups.push(std::mem::take(&mut begun)),
            Op::CopyWait { newest } => {
                let kept = newest.map_or(0, |newest| newest as usize);
                let waited = groups.len().saturating_sub(kept);
                start = groups[..waited].iter().copied().fold(start, u32::max);
                if newest.is_none() {
                    start = start.max(begun);
                }
                barrier = start;
            }
            Op::BulkCopy(copy) => match copy.route {
                Route::Load | Route::Within => completed = completed.max(start + GLOBAL),
                Route::Store => bulk_begun = bulk_begun.max(start + GLOBAL),
                Route::Prefetch => {}
            },
            Op::BulkCommit => bulk_groups.push(std::mem::take(&mut bulk_begun)),
            Op::BulkWait { newest, .. } => {
                let waited = bulk_groups.len().saturating_sub(newest as usize);
                start = bulk_groups[..waited].iter().copied().fold(start, u32::max);
                barrier = start;
            }
            Op::WarpgroupProduct(product) => {
                tensor = tensor.max(start) + warpgroup_clocks(product.columns);
                products = tensor.max(start + TENSOR);
            }
            Op::ProductCommit => product_groups.push(products),
            Op::ProductWait { newest } => {
                let waited = product_groups.len().saturating_sub(newest as usize);
                start = product_groups[..waited]
                    .iter()
                    .copied()
                    .fold(start, u32::max);
                barrier = start;
            }
            Op::Mbarrier(Mbarrier {
                op: MbarrierOp::Wait { .. },
                ..
            }) => {
                start = start.max(completed);
                barrier = start;
            }
            _ => {}
        }
        if op.is_barrier() {
            // Everything before it has been issued, and nothing behind it.
            start = start.max(last);
            barrier = start;
        }
        last = last.max(start);
        // A warp issues one instruction a clock.
        issued += u32::from(op.is_counted());
        if op.is_barrier() {
            last = last.max(issued);
            barrier = last;
            ends.push((at + 1, last));
        }
        let end = start + result(op);
        ready.extend(op.registers(Use::Write).into_iter().map(|r| (r, end)));
    }
    if ends.last().is_none_or(|(length, _)| *length < block.len()) {
        ends.push((block.len(), (last + 1).max(issued)));
    }
    ends
}

/// Clocks until an operation's result can be used.
fn result(op: &Op) -> u32 {
    match op {
        Op::Load { address, .. } | Op::Atomic { address, .. } => match address.space {
            MemorySpace::Generic | MemorySpace::Global | MemorySpace::Local => GLOBAL,
            MemorySpace::Shared => SHARED,
            MemorySpace::Param => ARITHMETIC,
        },
        // Later parts of a product of f64 add no latency: the first has that of the whole
        // instruction.
        Op::MatrixProduct64(_) if !op.is_counted() => 0,
        Op::MatrixProduct(_) | Op::MatrixProduct64(_) | Op::QuadPairProducts(_) => TENSOR,
        // Their results are there behind a wait.
        Op::WarpgroupProduct(_) => 0,
        Op::MatrixLoad(_) | Op::MatrixTranspose { .. } | Op::Mbarrier(_) => SHARED,
        Op::Shuffle { .. } | Op::Reduce { .. } | Op::MatchAny { .. } | Op::MatchAll { .. } => {
            SHARED
        }
        Op::Track(_) | Op::Accumulators(_) | Op::Nothing => 0,
        _ => ARITHMETIC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Module;

    /// Clocks of the first basic block of a kernel with this body.
    fn clocks(body: &str) -> u32 {
        let ptx = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n\
             .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 4 .b8 s[64];\n\
             {body}\nret;\n}}"
        );
        let module = Module::load(&ptx).expect("valid PTX");
        let kernel = module.kernel("k").expect("the kernel");
        let is_end = |instruction: &Instruction| matches!(instruction.op, Op::Exit);
        let end = kernel.code.iter().position(is_end).expect("an end");
        let parts = kernel.latencies.iter();
        let parts = parts.filter(|latency| latency.at as usize <= end);
        parts.map(|latency| latency.clocks).sum()
    }

    #[test]
    fn dependent_instructions_wait_and_independent_ones_do_not() {
        // Each but the first waits 4 clocks for the one before; the return waits for none.
        let chain = "add.f32 %f1, %f1, %f1;".repeat(5);
        assert_eq!(clocks(&chain), 4 * 4 + 1);
        let apart = "add.f32 %f1, %f0, %f0; add.f32 %f2, %f0, %f0; add.f32 %f3, %f0, %f0;";
        assert_eq!(clocks(apart), 4);
    }

    #[test]
    fn loads_take_longer_and_only_those_wait_that_use_them() {
        let load = "ld.param.u64 %rd1, [p]; ld.global.f32 %f1, [%rd1];";
        let used = "add.f32 %f2, %f1, %f1; add.f32 %f3, %f2, %f2;";
        assert_eq!(clocks(load), 4 + 1);
        assert_eq!(clocks(&format!("{load} {used}")), 4 + 265 + 4 + 1);
        assert_eq!(
            clocks(&format!("ld.shared.f32 %f1, [s]; {used}")),
            23 + 4 + 1
        );
    }

    #[test]
    fn products_with_one_sum_wait_for_each_other() {
        let product = |d: &str, c: &str| {
            format!(
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{d}, {d}, {d}, {d}}}, {{%r1, %r1, %r1, %r1}}, \
                 {{%r2, %r2}}, {{{c}, {c}, {c}, {c}}};\n"
            )
        };
        let chain = product("%f1", "%f1").repeat(3);
        let used = "add.f32 %f2, %f1, %f1; add.f32 %f3, %f2, %f2;";
        assert_eq!(clocks(&format!("{chain}{used}")), 3 * 25 + 4 + 1);
        let apart = product("%f1", "%f4") + &product("%f2", "%f4") + &product("%f3", "%f4");
        assert_eq!(clocks(&apart), 4);
    }

    #[test]
    fn a_product_of_several_operations_takes_as_long_as_one() {
        let four = "{%rd1, %rd2, %rd3, %rd4}";
        let product = format!(
            "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {four}, {{{}}}, {four}, {four};\n",
            ["%rd5"; 8].join(", ")
        );
        let used = "add.f64 %rd6, %rd1, %rd1; add.f64 %rd7, %rd6, %rd6;";
        assert_eq!(clocks(&format!("{product}{used}")), 25 + 4 + 1);
    }

    #[test]
    fn a_wait_for_copies_waits_for_the_groups_that_it_names() {
        let copies = "cp.async.ca.shared.global [s], [%rd1], 4; cp.async.commit_group;\n\
                      add.f32 %f1, %f1, %f1; add.f32 %f1, %f1, %f1;\n\
                      cp.async.ca.shared.global [s + 4], [%rd1], 4; cp.async.commit_group;\n";
        let wait = |which: &str| {
            clocks(&format!(
                "{copies} cp.async.{which}; ld.shared.f32 %f2, [s];"
            ))
        };
        // What comes behind the wait is issued in the same clock as the wait ends; the return waits
        // for nothing.
        assert_eq!(wait("wait_group 2"), 9);
        assert_eq!(wait("wait_group 1"), 265 + 1);
        assert_eq!(wait("wait_all"), 265 + 1);
    }

    #[test]
    fn a_wait_for_a_barrier_waits_for_the_bulk_copies_before_it() {
        let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 64, [%r1];\n";
        let wait = "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0; ld.shared.f32 %f2, [s];";
        let declared = ".reg .pred %p<9>;";
        assert_eq!(clocks(&format!("{declared} {copy} {wait}")), 265 + 1);
        let store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 64; cp.async.bulk.commit_group;\n";
        let groups = |newest: u32| {
            clocks(&format!(
                "{store} {store} cp.async.bulk.wait_group {newest};"
            ))
        };
        assert_eq!(groups(2), 6);
        assert_eq!(groups(1), 265 + 1);
        assert_eq!(groups(0), 265 + 1);
    }

    #[test]
    fn a_wait_for_products_waits_for_the_tensor_cores() {
        let sums = "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}";
        let product = format!(
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {sums}, %rd1, %rd2, 1, 1, 1, 0, 0;\n"
        );
        let group =
            |products: usize| product.repeat(products) + "wgmma.commit_group.sync.aligned;\n";
        let wait = |newest: u32| format!("wgmma.wait_group.sync.aligned {newest};\n");
        // One takes as long as any product; of many, each keeps the tensor cores busy for 8 clocks.
        assert_eq!(clocks(&(group(1) + &wait(0))), 25 + 1);
        assert_eq!(clocks(&(group(10) + &wait(0))), 80 + 1);
        assert_eq!(clocks(&(group(10) + &group(10) + &wait(0))), 160 + 1);
        assert_eq!(clocks(&(group(10) + &group(10) + &wait(1))), 80 + 1);
        // Nobody waits: instructions and the return.
        assert_eq!(clocks(&(group(10) + &wait(1))), 12 + 1);
    }

    #[test]
    fn a_group_is_there_with_its_slowest_copy() {
        // The address of the first copy is loaded; the second copy starts at once.
        let body = "ld.global.u64 %rd2, [%rd1];\n\
                    cp.async.ca.shared.global [s], [%rd2], 4; cp.async.ca.shared.global [s + 4], [%rd1], 4;\n\
                    cp.async.commit_group; cp.async.wait_group 0;";
        assert_eq!(clocks(body), 2 * 265 + 1);
    }

    #[test]
    fn what_is_behind_a_barrier_waits_for_what_is_before_it() {
        // The store waits for its value, the second load for the barrier; the first load is ready
        // long before its use.
        let body = "ld.shared.f32 %f1, [s]; ld.shared.f32 %f2, [s + 4]; st.shared.f32 [s + 8], %f1;\n\
                    bar.sync 0; ld.shared.f32 %f3, [s + 8]; add.f32 %f4, %f3, %f2;";
        assert_eq!(clocks(body), 23 + 23 + 1);
    }
}
