//! Counters of instructions and of memory traffic.
//!
//! The words are those of Nsight Compute: a *request* is one warp instruction that accesses memory,
//! a *sector* is 32 bytes of global memory, a *wavefront* is a round in which each bank of shared
//! memory serves one word.

use std::ops::AddAssign;

use crate::program::op::Class;

/// Counters of instructions and their memory traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Instructions, once per warp that ran them.
    pub warp_instructions: u64,
    /// Instructions, once per thread that ran them with its guard true.
    pub lane_instructions: u64,
    /// Warp instructions by [`Class`]; see [`Counters::of`].
    pub classes: [u64; Class::ALL.len()],
    /// f32 operations: an addition or multiplication is one, a fused multiply-add two.
    pub flops_f32: u64,
    /// f64 operations, counted alike.
    pub flops_f64: u64,
    /// f16 and bf16 operations, counted alike; an instruction on a pair of values does two.
    pub flops_half: u64,
    /// Operations of the tensor cores on floats, counted alike.
    pub flops_tensor: u64,
    /// Those of them on tf32.
    pub flops_tensor_tf32: u64,
    /// Those of them on f64.
    pub flops_tensor_f64: u64,
    /// Those of them that `wgmma` did.
    pub flops_wgmma: u64,
    /// Operations of the tensor cores on 8-bit integers, counted alike.
    pub ops_tensor_int8: u64,
    /// Loads from global memory, and generic loads that went there.
    pub global_loads: Sectors,
    /// Bytes that the threads copied asynchronously from there to shared memory, by `cp.async`.
    /// They count as loads, too.
    pub bytes_copied: u64,
    /// Stores to global memory.
    pub global_stores: Sectors,
    /// Atomic operations on global memory.
    pub global_atomics: Sectors,
    /// Loads, stores and atomic operations on local memory: arrays that do not fit in registers.
    pub local: Sectors,
    /// Cache lines of 128 bytes that the requests of global and local memory touched, each line
    /// once per request. For a request of global memory, lines are counted from its first thread's
    /// address.
    pub cache_lines: u64,
    /// Loads from shared memory.
    pub shared_loads: Wavefronts,
    /// Stores to shared memory.
    pub shared_stores: Wavefronts,
    /// Atomic operations on shared memory.
    pub shared_atomics: Wavefronts,
    /// Loads of matrices from shared memory to fragments, `ldmatrix`, once per warp. They count as
    /// loads, too.
    pub matrix_loads: u64,
    /// Branches that some of a warp's threads could take, once per warp.
    pub branches: u64,
    /// Branches that split a warp.
    pub divergent_branches: u64,
    /// Block barriers, once per warp that arrived.
    pub barriers: u64,
}

/// Traffic of global or local memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sectors {
    /// Warp instructions.
    pub requests: u64,
    /// Sectors of 32 bytes that the requests touched, each sector once per request.
    pub sectors: u64,
    /// Bytes that the threads asked for.
    pub bytes: u64,
}

/// Traffic of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wavefronts {
    /// Warp instructions.
    pub requests: u64,
    /// Wavefronts: rounds in which each of the 32 banks serves one word of 4 bytes.
    pub wavefronts: u64,
    /// Wavefronts without bank conflicts.
    pub ideal: u64,
    /// Bytes that the threads asked for.
    pub bytes: u64,
}

impl Counters {
    /// Warp instructions of one class.
    pub fn of(&self, class: Class) -> u64 {
        self.classes[class as usize]
    }

    /// Floating-point operations of all types.
    pub fn flops(&self) -> u64 {
        self.flops_f32 + self.flops_f64 + self.flops_half + self.flops_tensor
    }

    /// Global traffic of all kinds.
    pub fn global(&self) -> Sectors {
        let mut sum = self.global_loads;
        sum += self.global_stores;
        sum += self.global_atomics;
        sum
    }

    /// Shared traffic of all kinds.
    pub fn shared(&self) -> Wavefronts {
        let mut sum = self.shared_loads;
        sum += self.shared_stores;
        sum += self.shared_atomics;
        sum
    }

    /// Average threads per warp instruction, at most 32. Threads whose guard is false take no part,
    /// so a branch that is not taken counts as 0.
    pub fn lanes_per_instruction(&self) -> f64 {
        self.lane_instructions as f64 / self.warp_instructions.max(1) as f64
    }
}

impl Sectors {
    /// Bytes asked for as a share of bytes moved. Above 1 where threads read the same word.
    pub fn efficiency(&self) -> f64 {
        self.bytes as f64 / (self.sectors * 32).max(1) as f64
    }

    /// Sectors per request; 4 is what 32 threads with 4 bytes each need.
    pub fn per_request(&self) -> f64 {
        self.sectors as f64 / self.requests.max(1) as f64
    }
}

impl Wavefronts {
    /// Wavefronts over those without bank conflicts: 1 if there are none.
    pub fn conflict_degree(&self) -> f64 {
        if self.ideal == 0 {
            return 1.0;
        }
        self.wavefronts as f64 / self.ideal as f64
    }
}

/// Adds the named fields of a value to those of `self`.
macro_rules! add_fields {
    ($sum:ident += $more:ident: $($field:ident),* $(,)?) => { $($sum.$field += $more.$field;)* };
}
pub(crate) use add_fields;

impl AddAssign for Sectors {
    fn add_assign(&mut self, other: Sectors) {
        add_fields!(self += other: requests, sectors, bytes);
    }
}

impl AddAssign for Wavefronts {
    fn add_assign(&mut self, other: Wavefronts) {
        add_fields!(self += other: requests, wavefronts, ideal, bytes);
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        add_fields!(self += other:
            warp_instructions, lane_instructions, flops_f32, flops_f64, flops_half, flops_tensor,
            flops_tensor_tf32, flops_tensor_f64, flops_wgmma, ops_tensor_int8,
            global_loads, bytes_copied, global_stores, global_atomics, local, cache_lines,
            shared_loads, shared_stores, shared_atomics, matrix_loads, branches, divergent_branches, barriers,
        );
        for (sum, more) in self.classes.iter_mut().zip(other.classes) {
            *sum += more;
        }
    }
}
