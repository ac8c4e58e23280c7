//! Unset registers: which of their bytes were never set, in which lanes.

use super::Warp;
use crate::exec::access::lane_operands::lane_place;
use crate::exec::host_thread::HostThread;
use crate::exec::lane_mask::lanes;
use crate::exec::operations::lanes::shuffle_source;
use crate::exec::operations::predicate::condition;
use crate::exec::registers::Registers;
use crate::program::Kernel;
use crate::program::op::{Address, Flow, Tracking, UsingLanes};

/// Unset lanes of a register, for each byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Unset {
    /// Nobody set it.
    never: [u32; 8],
    /// It was computed from what nobody set.
    computed: [u32; 8],
}

impl Unset {
    /// A register at the start.
    pub(super) const ALL: Unset = Unset {
        never: [u32::MAX; 8],
        computed: [0; 8],
    };

    /// Adds byte `from` of another register to byte `to`, in all lanes.
    fn add(&mut self, to: usize, other: &Unset, from: usize) {
        self.never[to] |= other.never[from];
        self.computed[to] |= other.computed[from];
    }

    /// Takes over the lanes of `mask`.
    fn update(&mut self, mask: u32, new: &Unset) {
        for byte in 0..8 {
            self.never[byte] = self.never[byte] & !mask | new.never[byte] & mask;
            self.computed[byte] = self.computed[byte] & !mask | new.computed[byte] & mask;
        }
    }

    /// Its masks of lanes, each changed by `f`.
    fn map(&self, f: impl Fn(u32) -> u32) -> Unset {
        Unset {
            never: self.never.map(&f),
            computed: self.computed.map(f),
        }
    }
}

impl Warp {
    /// Updates what is known of registers that may be used unset. A lane that uses one, if there is
    /// one.
    pub(super) fn track(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        tracking: &Tracking,
        mask: u32,
        pc: u32,
    ) -> Option<u32> {
        let unset = |slot: Option<u32>| slot.map_or(Unset::default(), |s| self.unset[s as usize]);
        let (slot, new) = match *tracking {
            Tracking::Check {
                slot,
                bytes,
                computed,
                lanes: using,
            } => {
                let unset = &self.unset[slot as usize];
                let found = lanes(u32::from(bytes)).fold(0, |all, byte| {
                    all | unset.computed[byte] | if computed { 0 } else { unset.never[byte] }
                });
                return first(found & mask & using_lanes(&self.registers, using));
            }
            Tracking::Stored {
                address,
                count,
                bytes,
                slots,
            } => {
                let never = |slot: &Option<u32>| unset(*slot).never.into_iter().take(bytes.into());
                let elements = slots.iter().take(count.into());
                let never: Vec<u32> = elements.flat_map(never).collect();
                return self.stored(kernel, worker, &address, &never, mask, pc);
            }
            Tracking::Set { slot } => (slot, Unset::default()),
            Tracking::Flow { flow } => {
                let flow = &kernel.flows[flow as usize];
                (flow.d, result(flow, &self.unset))
            }
            Tracking::Select { d, a, b, p } => {
                let p = condition(&self.registers, p);
                let mut new = unset(b);
                new.update(p, &unset(a));
                (d, new)
            }
            Tracking::Shuffle { op, d, a, b, c } => {
                let (b, c): (&[u32; 32], &[u32; 32]) =
                    (self.registers.read(b), self.registers.read(c));
                let sources: [u32; 32] = std::array::from_fn(|lane| {
                    match shuffle_source(op, lane as u32, b[lane], c[lane]) {
                        (source, true) => source,
                        (_, false) => lane as u32,
                    }
                });
                let from = |mask: u32| {
                    let bit = |lane: usize| mask >> sources[lane] & 1;
                    (0..32).fold(0, |all, lane| all | bit(lane) << lane)
                };
                (d, unset(a).map(from))
            }
        };
        self.unset[slot as usize].update(mask, &new);
        None
    }

    /// Behind a store: the lanes in which each of its bytes was never set. A lane that has set none
    /// of them, if there is one.
    fn stored(
        &mut self,
        kernel: &Kernel,
        worker: &mut HostThread<'_>,
        address: &Address,
        never: &[u32],
        mask: u32,
        pc: u32,
    ) -> Option<u32> {
        let nothing_set = never.iter().fold(mask, |all, lanes| all & lanes);
        if nothing_set != 0 {
            return first(nothing_set);
        }
        let mut warp = self.active(kernel, mask, pc);
        for (byte, never) in never.iter().enumerate() {
            for lane in lanes(never & mask) {
                let (space, at) = lane_place(warp.registers, address, lane);
                let at = at + byte as u64;
                worker.checks.unwrite(&mut warp, space, at, lane);
            }
        }
        None
    }
}

/// The lanes in which an operation uses a register.
fn using_lanes(registers: &Registers, using: UsingLanes) -> u32 {
    match using {
        UsingLanes::Of(lanes) => lanes,
        UsingLanes::Where(holds) => condition(registers, holds),
        UsingLanes::Reading { size, ignore } => {
            let sizes = registers.read::<u32>(size);
            let empty = (0..32).fold(0, |all, lane| all | u32::from(sizes[lane] == 0) << lane);
            !empty & !condition(registers, ignore)
        }
    }
}

/// Unset lanes of the result of an operation.
fn result(flow: &Flow, unset: &[Unset]) -> Unset {
    let mut new = Unset::default();
    for (slot, bytes) in &flow.from {
        for (to, from) in bytes.iter().enumerate() {
            for from in lanes(u32::from(*from)) {
                new.add(to, &unset[*slot as usize], from);
            }
        }
    }
    if flow.computes {
        for (computed, never) in new.computed.iter_mut().zip(&mut new.never) {
            *computed |= std::mem::take(never);
        }
    }
    new
}

/// The lowest lane of `mask`.
fn first(mask: u32) -> Option<u32> {
    (mask != 0).then(|| mask.trailing_zeros())
}

#[cfg(test)]
mod tests;
