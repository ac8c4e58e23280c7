//! Counts of a kernel's instructions. Those that run together are counted at one of them:
//! `Kernel::counted_at`.
//!
//! Each host thread counts on its own; the sums over threads do not depend on who ran what.

use std::collections::HashMap;
use std::ops::AddAssign;

use crate::profile::add_fields;

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
    /// Lanes of atomic operations by address of device memory.
    pub atomics: HashMap<u64, u64>,
}

impl Tallies {
    pub(crate) fn new(instructions: usize, patterns: usize) -> Tallies {
        Tallies {
            instructions: vec![Tally::default(); instructions],
            traffic: vec![Traffic::default(); patterns],
            ..Tallies::default()
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
        for (address, lanes) in &other.atomics {
            *self.atomics.entry(*address).or_default() += lanes;
        }
        add_fields!(self += other: sectors_read, sectors_written);
    }
}

impl AddAssign<&Transfers> for Transfers {
    #[inline(always)]
    fn add_assign(&mut self, more: &Transfers) {
        add_fields!(self += more: requests, lanes, units, ideal);
    }
}
