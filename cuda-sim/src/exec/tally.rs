//! Counts of a kernel's instructions. Those that run together are counted at one of them:
//! `Kernel::counted_at`.
//!
//! Each host thread counts on its own; the sums over threads do not depend on who ran what.

use std::ops::AddAssign;

use crate::profile::add_fields;
use crate::program::Kernel;
use crate::program::analysis::latency::Latency;

/// Bits of the hash by which addresses of atomic operations are told apart.
const HASH_BITS: u32 = 16;

/// Number of times that an instruction ran.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Once per warp.
    pub warps: u64,
    /// Once per lane whose guard was true.
    pub lanes: u64,
    /// Times that it split a warp.
    pub splits: u64,
}

/// Traffic of a memory instruction, by the memory that its addresses lay in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub global: Transfers,
    pub shared: Transfers,
    pub local: Transfers,
    /// Sectors that blocks that are looked at loaded, each once per request, and those that a block
    /// had not loaded before.
    pub looked_at: u64,
    pub first: u64,
    /// Wavefronts of the unit that is both shared memory and L1 cache, with neighbouring loads of
    /// shared memory joined.
    pub wavefronts: u64,
}

/// Traffic with one memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Transfers {
    /// Once per warp.
    pub requests: u64,
    /// Once per lane.
    pub lanes: u64,
    /// Sectors of global or local memory, wavefronts of shared memory.
    pub units: u64,
    /// Wavefronts that would do without bank conflicts; of global memory, cache lines.
    pub ideal: u64,
}

/// The counts of one launch.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    /// By instruction; none for those that are counted at another.
    pub instructions: Vec<Tally>,
    /// By memory instruction.
    pub traffic: Vec<Traffic>,
    /// Sectors of device memory that the launch read, each once.
    pub sectors_read: u64,
    /// Sectors of device memory that the launch wrote, each once.
    pub sectors_written: u64,
    /// Instructions of tensor cores, once per warp, while the block had copies under way.
    pub tensor_during_copies: u64,
    pub atomics: AtomicCounts,
    /// Of a kernel whose warps may have roles: the clocks of chains of the slowest warp of each
    /// block, added up.
    pub slowest_warps: u64,
}

/// Atomic operations of lanes on device memory, counted by a hash of their address, so that a
/// launch that adds to every element of a large array needs no more memory than another.
/// Empty if there were none.
#[derive(Debug, Default)]
pub(crate) struct AtomicCounts(Vec<u64>);

impl Tallies {
    pub(crate) fn new(instructions: usize, patterns: usize) -> Tallies {
        Tallies {
            instructions: vec![Tally::default(); instructions],
            traffic: vec![Traffic::default(); patterns],
            ..Tallies::default()
        }
    }
}

impl Tallies {
    /// Clocks of chains of dependent instructions so far, of all warps.
    pub(crate) fn latency_clocks(&self, kernel: &Kernel) -> u64 {
        let of_block = |latency: &Latency| {
            let at = kernel.counted_at[latency.at as usize];
            at.map_or(0, |at| self.instructions[at as usize].warps) * u64::from(latency.clocks)
        };
        kernel.latencies.iter().map(of_block).sum()
    }
}

impl AtomicCounts {
    /// Counts an operation on this address.
    pub(crate) fn count(&mut self, address: u64) {
        if self.0.is_empty() {
            self.0 = vec![0; 1 << HASH_BITS];
        }
        // The golden ratio in 64 bits spreads addresses that are a power of two apart.
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS);
        self.0[hash as usize] += 1;
    }

    /// The most operations that one address got, at most: addresses with the same hash are taken
    /// for one.
    pub(crate) fn at_one_address(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

impl AddAssign<&AtomicCounts> for AtomicCounts {
    fn add_assign(&mut self, other: &AtomicCounts) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
        } else {
            for (sum, lanes) in self.0.iter_mut().zip(&other.0) {
                *sum += lanes;
            }
        }
    }
}

impl AddAssign<&Tallies> for Tallies {
    fn add_assign(&mut self, other: &Tallies) {
        for (sum, more) in self.instructions.iter_mut().zip(&other.instructions) {
            add_fields!(sum += more: warps, lanes, splits);
        }
        for (sum, more) in self.traffic.iter_mut().zip(&other.traffic) {
            sum.global += &more.global;
            sum.shared += &more.shared;
            sum.local += &more.local;
            add_fields!(sum += more: looked_at, first, wavefronts);
        }
        self.atomics += &other.atomics;
        add_fields!(self += other: sectors_read, sectors_written, tensor_during_copies, slowest_warps);
    }
}

impl AddAssign<&Transfers> for Transfers {
    #[inline(always)]
    fn add_assign(&mut self, more: &Transfers) {
        add_fields!(self += more: requests, lanes, units, ideal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_at_one_address_are_told_from_those_all_over_an_array() {
        let [mut all_over, mut at_one] = [AtomicCounts::default(), AtomicCounts::default()];
        for i in 0..1 << 18 {
            all_over.count((1 << 40) + 4 * i);
            at_one.count(1 << 40);
        }
        assert!(
            all_over.at_one_address() <= 8,
            "4 if they were spread evenly"
        );
        assert_eq!(at_one.at_one_address(), 1 << 18);
        all_over += &at_one;
        assert!(all_over.at_one_address() >= 1 << 18);
        at_one += &AtomicCounts::default();
        assert_eq!(at_one.at_one_address(), 1 << 18);
    }
}
